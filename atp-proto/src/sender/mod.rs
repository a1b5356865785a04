//! The sending side of one flow: which packet goes next, what became of the packets sent, when the
//! job is complete.
//!
//! Every transmission, also a repeated one, takes the next slot of the flow's 32-bit slot
//! sequence. An acknowledgement therefore names one transmission (no ambiguity between a packet and
//! its repetition), the order of slots is the order of sending, and a scan of the ring reads
//! neighbouring words.

mod answers;
mod awaited;
mod buckets;
mod config;
mod end;
mod flight;
mod group;
mod ledger;
mod loss;
mod report;
mod schedule;
mod sending;
#[cfg(test)]
mod tests;

pub use config::{CompleteAt, ConfigError, GroupConfig, MESSAGES_MAX, Pace, SenderConfig};
pub use report::{
    GroupReport, MessageId, PacketRefused, QueueError, Report, SendError, Short, State,
};

use atp_common::{laws::Rules, maps::GroupProgress, wire::Header};
use awaited::Awaited;
use end::Ending;
use flight::{Fate, Flight};
use group::Group;
use ledger::{Ledger, Message};
use loss::Losses;
use schedule::Schedule;

/// The ring of delivery bits of a flow, as [`atp_common::maps::ack_ring`] lays it out.
pub trait AckRing {
    /// The word at `position`, below the configured number of words.
    fn word(&self, position: u32) -> u64;
}

/// One DATA packet to be sent: `header`, then `len` bytes of `message` from `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Complete but for what the datapath stamps: epoch and time.
    pub header: Header,
    /// Whose data.
    pub message: MessageId,
    /// Where in the message, bytes.
    pub offset: u32,
    /// How much, bytes.
    pub len: u32,
}

/// The sending side of one flow: one destination of one job.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    state: State,
    groups: Vec<Group>,
    ledger: Ledger,
    flight: Flight,
    losses: Losses,
    awaited: Awaited,
    ending: Ending,
    /// Messages with receipts: one bit each, their number, and the id below which all have one.
    confirmed: Vec<u64>,
    delivered: u32,
    cumulative: u32,
    /// The number of the youngest receipt.
    receipt_number: u32,
    /// Counters; the groups in it stay empty.
    report: Report,
    /// Room for the slots that a scan finds.
    news: Vec<u32>,
}

impl Sender {
    /// A sender that has sent nothing. The ring, if there is one, is as fresh as the flow (zeroed).
    pub fn new(config: SenderConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let packets_max = config.message_bytes_max.div_ceil(config.payload_bytes_max).max(1);
        let group = |group: &GroupConfig| {
            let needs_nothing = group.msr.parts_per_billion() == 0;
            let tries_all = config.complete_at == CompleteAt::EveryMessageTried || needs_nothing;
            Group::new(*group, tries_all, Schedule::new(config.mrdf, packets_max))
        };
        let groups = config.groups.iter().map(group).collect();
        Ok(Self {
            config,
            state: State::Open,
            groups,
            ledger: Ledger::default(),
            flight: Flight::default(),
            losses: Losses::new(),
            awaited: Awaited::new(),
            ending: Ending::default(),
            confirmed: Vec::new(),
            delivered: 0,
            cumulative: 0,
            receipt_number: 0,
            report: Report::default(),
            news: Vec::new(),
        })
    }

    /// Queues a message of `len_bytes` (0 is allowed). The data stays with the caller, keyed by the
    /// id, until [`Sender::released`] gives the id back.
    pub fn queue(&mut self, group: u8, len_bytes: u32) -> Result<MessageId, QueueError> {
        let at = self.groups.iter().position(|g| g.config.group == group);
        let at = at.ok_or(QueueError::UnknownGroup(group))?;
        self.check_queue(&self.groups[at], len_bytes)?;
        let group = &mut self.groups[at];
        group.queued += 1;
        group.untried += 1;
        let id = self.ledger.ids();
        let message = Message::new(id, at as u8, len_bytes, self.config.payload_bytes_max);
        let place = message.place();
        let key = self.ledger.insert(message);
        group.schedule.set(key, None, place);
        Ok(MessageId(id))
    }

    fn check_queue(&self, group: &Group, len_bytes: u32) -> Result<(), QueueError> {
        let buffer_bytes_max = u32::try_from(self.config.buffer_bytes_max).unwrap_or(u32::MAX);
        let len_bytes_max = self.config.message_bytes_max.min(buffer_bytes_max);
        let total = group.config.total.unwrap_or(self.config.messages_max);
        match self.state {
            State::Failed(_) => Err(QueueError::Failed),
            _ if group.closed => Err(QueueError::AfterFinish),
            State::Done | State::Finishing => Err(QueueError::Complete),
            _ if len_bytes > len_bytes_max => {
                Err(QueueError::TooLarge { len_bytes, len_bytes_max })
            }
            _ if group.queued >= total => Err(QueueError::TooMany(total)),
            _ if self.ledger.ids() >= self.config.messages_max => {
                Err(QueueError::TooMany(self.config.messages_max))
            }
            _ if !self.has_room(len_bytes) => Err(QueueError::Full),
            _ => Ok(()),
        }
    }

    /// Says that no more messages come: N becomes what was queued, unless the job is already ending
    /// with the N that it was configured for. Calling it again does nothing.
    pub fn finish(&mut self) {
        if self.state == State::Open {
            self.state = State::Finishing;
            for group in &mut self.groups {
                group.closed = true;
            }
        }
    }

    /// The next packet to send, in the order of MRDF or of queueing. It counts as in flight from
    /// now on. `None` if there is nothing to send or the window is full: then
    /// acknowledgements, receipts or [`Sender::poll_timeout`] bring the next one.
    pub fn next_packet(&mut self, now_ns: u64) -> Option<Packet> {
        self.hand_out(now_ns)
    }

    /// Takes back a packet that did not leave: the socket refused it, or the host dropped it.
    /// Taking back the youngest first gives their slots back too.
    pub fn unsent(&mut self, packet: &Packet) {
        self.take_back(packet);
    }

    /// Writes the next control packet (FIN), header and body, into `out` and returns its length.
    /// `None` if none is due. 1,056 bytes are always enough, 48 for one group.
    pub fn next_control(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        self.write_fin(now_ns, out)
    }

    /// Takes in whatever came from the network for this flow: ACK, RECEIPT, FIN-ACK or RESET.
    /// Checks everything: job, cookie, counts.
    pub fn on_packet(&mut self, now_ns: u64, payload: &[u8]) -> Result<(), PacketRefused> {
        let result = self.take_in(now_ns, payload);
        self.report.packets_refused += u64::from(result.is_err());
        result
    }

    /// Takes in one ACK whose header was parsed already (the userspace datapath's fast path).
    pub fn on_ack(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let result = self.check_origin(header).and_then(|()| self.take_ack(now_ns, header));
        self.report.packets_refused += u64::from(result.is_err());
        result
    }

    /// Reads the acknowledgements that the datapath wrote since the last call. Costs one read per
    /// 32 transmissions in flight when nothing is new.
    pub fn scan_acks(&mut self, now_ns: u64, ring: &impl AckRing) {
        self.scan(now_ns, ring);
    }

    /// Says what the host knows of the path; call it whenever that changes.
    pub fn set_pace(&mut self, pace: Pace) {
        self.losses.pace = pace;
    }

    /// The next moment at which [`Sender::handle_timeout`] has something to do, if no packet comes
    /// before. It may lie in the past.
    pub fn poll_timeout(&self) -> Option<u64> {
        if matches!(self.state, State::Done | State::Failed(_)) {
            return None;
        }
        let timeouts = [self.loss_timeout_ns(), self.awaited_timeout_ns(), self.fin_timeout_ns()];
        timeouts.into_iter().flatten().min()
    }

    /// Does what time alone brings: losses without later acknowledgements, giving up. Take in
    /// whatever has arrived before. Afterwards ask [`Sender::next_packet`] and
    /// [`Sender::next_control`] again: the latter is what some time-outs are for.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.detect_losses(now_ns);
        self.ask_for_receipt(now_ns);
        self.give_up_if_silent(now_ns);
    }

    /// Takes the ids of messages whose data is no longer needed: delivered, or the job has ended.
    /// Each id comes once.
    pub fn released(&mut self) -> impl Iterator<Item = MessageId> + '_ {
        self.ledger.drain_released()
    }

    /// Whether [`Sender::queue`] would accept a message of `len_bytes` as far as the buffer goes.
    pub fn has_room(&self, len_bytes: u32) -> bool {
        self.ledger.len() < self.config.buffer_messages_max
            && self.ledger.bytes + u64::from(len_bytes) <= self.config.buffer_bytes_max
    }

    /// What a controller needs for Eq. 1, to be copied into the progress map. `None` for a group
    /// that isn't configured.
    pub fn progress(&self, group: u8) -> Option<GroupProgress> {
        self.groups.iter().find(|g| g.config.group == group).map(Group::progress)
    }

    /// Transmissions whose fate isn't known yet.
    pub fn in_flight(&self) -> u32 {
        self.flight.open()
    }

    /// Where the job stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What was done so far.
    pub fn report(&self) -> Report {
        let group = |group: &Group| {
            let progress = group.progress();
            GroupReport {
                group: group.config.group,
                messages: progress.messages,
                delivered: progress.delivered,
                lost: progress.lost,
                needed: group.needed(),
                target_loss_rate: progress.target_loss_rate(Rules::default()),
            }
        };
        Report { groups: self.groups.iter().map(group).collect(), ..self.report.clone() }
    }

    /// The configuration that it was made with.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    fn short(&self) -> Vec<Short> {
        self.groups.iter().filter_map(Group::short).collect()
    }

    fn fail(&mut self, error: SendError) {
        self.state = State::Failed(error);
        self.close();
    }

    /// Gives back all data.
    fn close(&mut self) {
        self.awaited.clear();
        self.ledger.release_all();
    }
}
