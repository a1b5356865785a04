//! The sending side of one flow: which packet goes next, what became of the packets sent, when the
//! job is complete.
//!
//! Every transmission, also a repeated one, takes the next slot of the flow's 32-bit slot
//! sequence. An acknowledgement therefore names one transmission (no ambiguity between a packet and
//! its repetition), the order of slots is the order of sending, and a scan of the ring reads
//! neighbouring words.
//!
//! A job may be a stream of *windows*, each with its own messages and its own end; slots, and what was
//! learned of the path, go on from one to the next.

mod answers;
mod awaited;
mod buckets;
mod config;
mod end;
mod group;
mod ledger;
mod loss;
mod path;
mod report;
mod schedule;
mod sending;
mod sent_packets;
#[cfg(test)]
mod tests;

pub use config::{CompleteAt, ConfigError, GroupConfig, MESSAGES_MAX, Pace, SenderConfig};
pub use report::{
    GroupReport, MessageId, MsrError, PacketRefused, QueueError, Report, SendError, Short, State,
};

use atp_common::{
    laws::Rules,
    maps::GroupProgress,
    units::Msr,
    wire::{COUNT_MAX, Header},
};
use awaited::Awaited;
use buckets::Ranks;
use end::Ending;
use group::Group;
use ledger::{Ledger, Message, Standing};
use loss::LossDetector;
use path::Path;
use sent_packets::{Fate, SentPackets};

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
    /// The present window, counted from 0.
    window: u32,
    /// What was sent up to this slot belongs to windows that have ended.
    window_slot: u32,
    /// By id.
    groups: Vec<Group>,
    /// By id: one more than the group's index, 0 if there is none.
    group_places: Box<[u16; 256]>,
    ledger: Ledger,
    ranks: Ranks,
    sent_packets: SentPackets,
    losses: LossDetector,
    path: Path,
    awaited: Awaited,
    ending: Ending,
    /// Messages with receipts, of the present window.
    delivered: u32,
    /// The number of the youngest receipt.
    receipt_number: u32,
    /// Counters; the groups in it stay empty.
    report: Report,
    /// Room for the slots that a scan finds.
    news: Vec<u32>,
}

impl Sender {
    /// A sender that has sent nothing. The ring, if there is one, is as fresh as the flow (zeroed).
    pub fn new(mut config: SenderConfig) -> Result<Self, ConfigError> {
        config.check()?;
        config.groups.sort_by_key(|group| group.group);
        let groups: Vec<_> =
            config.groups.iter().map(|g| Group::new(*g, g.msr.is_exact(), &config)).collect();
        let mut group_places = Box::new([0; 256]);
        for (place, group) in (1..).zip(&config.groups) {
            group_places[usize::from(group.group)] = place;
        }
        let losses = LossDetector::new(groups.len(), config.cookie, config.timer_granularity_ns);
        Ok(Self {
            config,
            state: State::Open,
            window: 0,
            window_slot: 0,
            ledger: Ledger::new(groups.len()),
            ranks: Ranks::default(),
            sent_packets: SentPackets::new(groups.len()),
            losses,
            groups,
            group_places,
            path: Path::default(),
            awaited: Awaited::new(),
            ending: Ending::default(),
            delivered: 0,
            receipt_number: 0,
            report: Report::default(),
            news: Vec::new(),
        })
    }

    /// Queues a message of `len_bytes` (0 is allowed). The data stays with the caller, keyed by the
    /// id, until [`Sender::released`] gives the id back.
    pub fn queue(&mut self, group: u8, len_bytes: u32) -> Result<MessageId, QueueError> {
        let at = self.index_of(group).ok_or(QueueError::UnknownGroup(group))?;
        self.check_queue(&self.groups[usize::from(at)], len_bytes)?;
        let group = &mut self.groups[usize::from(at)];
        let id = MessageId { group: group.config.group, id: group.queued };
        group.queued += 1;
        group.untried += 1;
        let message = Message::new(id, at, len_bytes, self.config.payload_bytes_max);
        let place = message.place();
        let key = self.ledger.insert(message);
        group.schedule.set(&mut self.ranks, key, None, place);
        Ok(id)
    }

    fn index_of(&self, group: u8) -> Option<u8> {
        self.group_places[usize::from(group)].checked_sub(1).map(|at| at as u8)
    }

    fn check_queue(&self, group: &Group, len_bytes: u32) -> Result<(), QueueError> {
        let buffer_bytes_max = u32::try_from(self.config.buffer_bytes_max).unwrap_or(u32::MAX);
        let len_bytes_max = self.config.message_bytes_max.min(buffer_bytes_max);
        let total = group.config.total.unwrap_or(self.config.messages_max);
        match self.state {
            State::Failed(_) => Err(QueueError::Failed),
            _ if group.closed => Err(QueueError::AfterFinish),
            State::Done | State::Ended | State::Finishing => Err(QueueError::Complete),
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

    /// Says that no more messages come, in this window or any other: N becomes what was queued, unless
    /// the job is already ending with the N that it was configured for. Calling it again does nothing.
    ///
    /// Of a stream it is this window that ends the job, unless its end was asked for before: then
    /// the job ends with the next one, which may be empty.
    pub fn finish(&mut self) {
        if !self.ending.is_asked() {
            self.ending.last = true;
        }
        self.finish_window();
    }

    /// Says that no more messages come in this window.
    pub fn finish_window(&mut self) {
        if self.state == State::Open {
            self.state = State::Finishing;
            for group in &mut self.groups {
                group.closed = true;
            }
        }
    }

    /// Ends the window (the job, if it has no other) now, whatever was delivered: nothing more is
    /// sent but the question what has arrived. [`State::Ended`] follows, or [`State::Done`] if it
    /// was enough all the same.
    pub fn end_now(&mut self) {
        if !self.has_ended() && !self.ending.is_forced() {
            self.state = State::Finishing;
            self.ending.force();
        }
    }

    /// Whether [`Sender::end_now`] would tell the receiver how much there should have been: N of every
    /// group is known. `false` once it has ended, or was told to.
    pub fn can_end_now(&self) -> bool {
        let is_ending = self.has_ended() || self.ending.is_forced();
        !is_ending && self.groups.iter().all(Group::is_total_known)
    }

    /// The same, and no other window follows.
    pub fn cancel(&mut self) {
        if !self.ending.is_asked() {
            self.ending.last = true;
        }
        self.end_now();
    }

    /// Whether the present window is the job's last.
    pub fn is_last_window(&self) -> bool {
        !self.config.windows || self.ending.last
    }

    /// Begins the next window of a stream whose last one is [`State::Done`] or [`State::Ended`],
    /// with N (known or expected) anew for each group. Ids are counted from 0 again. `false` if the
    /// job has ended, or its window has not.
    pub fn begin_window(&mut self, sizes: impl Fn(&GroupConfig) -> (Option<u32>, u32)) -> bool {
        let is_over = matches!(self.state, State::Done | State::Ended);
        if self.is_last_window() || !is_over {
            return false;
        }
        self.window = self.window.wrapping_add(1);
        self.window_slot = self.sent_packets.next_slot().wrapping_sub(1);
        let mut announced = 0;
        for group in &mut self.groups {
            let (total, expected) = sizes(&group.config);
            // More than a job may have is no announcement that its receiver would believe.
            let total = total.filter(|total| *total <= self.config.messages_max - announced);
            announced += total.unwrap_or(0);
            let config = GroupConfig { total, expected, ..group.config };
            *group = Group::new(config, group.exact, &self.config);
        }
        self.ledger.begin_window();
        self.ranks = Ranks::default();
        self.sent_packets.void_all();
        self.awaited = Awaited::new();
        self.delivered = 0;
        self.ending.begin_window();
        self.state = State::Open;
        true
    }

    /// Changes the minimal sampling rate of a group that is not exact, while it runs. At 1 all of it
    /// is needed, but it stays what it is: out of order, and approximate traffic.
    pub fn set_msr(&mut self, group: u8, msr: Msr) -> Result<(), MsrError> {
        let at = self.index_of(group).ok_or(MsrError::UnknownGroup(group))?;
        let complete_at = self.config.complete_at;
        let group = &mut self.groups[usize::from(at)];
        if group.exact {
            return Err(MsrError::Exact(group.config.group));
        }
        if self.ending.is_asked() && msr > group.config.msr {
            return Err(MsrError::Ending);
        }
        group.set_msr(msr, complete_at);
        self.config.groups[usize::from(at)].msr = msr;
        Ok(())
    }

    /// Cuts messages into packets of at most `payload_bytes` from now on, those that are under way
    /// as well: the path has become narrower. What the peer's host has of them is sent again.
    pub fn set_payload_bytes(&mut self, now_ns: u64, payload_bytes: u32) {
        let payload_bytes =
            payload_bytes.max(self.config.message_bytes_max.div_ceil(COUNT_MAX)).max(1);
        self.config.payload_bytes_max = payload_bytes;
        for key in self.ledger.keys() {
            let message = self.ledger.message_mut(key);
            let fits = message.len_bytes.min(message.payload_bytes) <= payload_bytes;
            // What has reached the host whole needs no other cut, unless it is sent again.
            if fits || message.standing == Standing::Awaiting {
                continue;
            }
            let before = message.place();
            message.start_over(payload_bytes, true);
            self.refile(now_ns, key, before);
        }
    }

    /// The next packet to send, in the order of MRDF or of queueing. It counts as in flight from
    /// now on. `None` if there is nothing to send or the window is full: then
    /// acknowledgements, receipts or [`Sender::poll_timeout`] bring the next one.
    pub fn next_packet(&mut self, now_ns: u64) -> Option<Packet> {
        self.hand_out(now_ns, |_| true)
    }

    /// The same, of the groups only that may send now: each has a rate of its own.
    pub fn next_packet_of(&mut self, now_ns: u64, may_send: impl Fn(u8) -> bool) -> Option<Packet> {
        self.hand_out(now_ns, may_send)
    }

    /// Appends the packets that [`Sender::next_packet`] would hand out one after the other, up to `number`
    /// of them, for less.
    pub fn next_packets(&mut self, now_ns: u64, number: usize, packets: &mut Vec<Packet>) {
        let end = packets.len() + number;
        while packets.len() < end {
            let left = end - packets.len();
            if self.hand_out_run(now_ns, |_| true, left, |packet| packets.push(packet)) == 0 {
                return;
            }
        }
    }

    /// Takes back a packet that did not leave: the socket refused it, or the host dropped it.
    /// Taking back the youngest first gives their slots back too.
    pub fn unsent(&mut self, packet: &Packet) {
        self.take_back(packet);
    }

    /// Writes the next control packet (FIN), header and body, into `out` and returns its length.
    /// `None` if none is due. 484 bytes are always enough, 52 for one group.
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

    /// Whether packets of a group that are handed out from now on get no acknowledgement of their own
    /// (their headers say so): whoever sends them asks (PROBE), and says so with [`Sender::asked`] and
    /// [`Sender::answered`].
    pub fn set_probed(&mut self, group: u8, probed: bool) {
        if let Some(lane) = self.index_of(group) {
            self.set_probed_of(lane, probed);
        }
    }

    /// A question about a group left: from now on silence says something.
    pub fn asked(&mut self, now_ns: u64, group: u8) {
        if let Some(lane) = self.index_of(group) {
            self.note_question(now_ns, lane);
        }
    }

    /// A question about `group`'s transmissions in `slots` was answered: what arrived of them is
    /// acknowledged already, after [`Sender::scan_acks`]. It left at `asked_ns`, after all of them: what
    /// it overtook by more than the network reorders is lost.
    pub fn answered(&mut self, now_ns: u64, group: u8, slots: std::ops::Range<u32>, asked_ns: u64) {
        if let Some(lane) = self.index_of(group) {
            self.take_answer(now_ns, lane, slots, asked_ns);
        }
    }

    /// Nobody will ask any more, not even about what was sent: what later acknowledgements overtake, or
    /// silence, is lost.
    pub fn nobody_asks(&mut self) {
        self.ask_no_more();
    }

    /// The slot of the oldest transmission of a group whose fate isn't known.
    pub fn oldest_in_flight(&self, group: u8) -> Option<u32> {
        self.sent_packets.find_open(self.index_of(group)?).map(|(slot, _)| slot)
    }

    /// Says what the host knows of the path of a group's lane; call it whenever that changes. Does
    /// nothing for a group that isn't configured.
    pub fn set_pace(&mut self, group: u8, pace: Pace) {
        if let Some(lane) = self.index_of(group) {
            self.losses.set_pace(lane, pace);
        }
    }

    /// The next moment at which [`Sender::handle_timeout`] has something to do, if no packet comes
    /// before. It may lie in the past.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.has_ended() {
            return None;
        }
        let timeouts = [self.loss_timeout_ns(), self.awaited_timeout_ns(), self.fin_timeout_ns()];
        timeouts.into_iter().flatten().min()
    }

    /// Does what time alone brings: losses without later acknowledgements, giving up. Take in
    /// whatever has arrived before. Afterwards ask [`Sender::next_packet`] and
    /// [`Sender::next_control`] again: the latter is what some timeouts are for.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.forgive_absence(now_ns);
        self.detect_losses(now_ns);
        self.narrow_if_black_hole(now_ns);
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
        self.index_of(group).map(|at| self.groups[usize::from(at)].progress())
    }

    /// Whether nothing more is to be done, in this window.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Done | State::Ended | State::Failed(_))
    }

    /// The present window, counted from 0.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Transmissions whose fate isn't known yet.
    pub fn in_flight(&self) -> u32 {
        self.sent_packets.open()
    }

    /// Messages of which some packet was never handed out.
    pub fn untried_messages(&self) -> u32 {
        self.groups.iter().map(|group| group.untried).sum()
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
                messages: group.messages(),
                delivered: progress.delivered,
                lost: progress.lost,
                needed: group.needed(),
                target_loss_rate: progress.target_loss_rate(Rules::default()),
            }
        };
        Report {
            groups: self.groups.iter().map(group).collect(),
            payload_bytes: self.config.payload_bytes_max,
            ..self.report.clone()
        }
    }

    /// The configuration that it was made with, groups by id, as it is now.
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
