//! The job's end: FIN until a FIN-ACK confirms that every group has what it needs.
//!
//! FIN goes out as soon as what is needed has reached the peer's *host*: it is the question "is it
//! in your hands?", it arrives behind the data, and its answer comes sooner than the next receipt
//! would. Where the answer is "not yet", the sender goes on.

use super::{
    Fate, PacketRefused, Sender,
    flight::Transmission,
    report::{SendError, State},
};
use atp_common::wire::{Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind, U24_MAX};

const INTERVAL_NS_MIN: u64 = 10_000_000;
const INTERVAL_NS_MAX: u64 = 100_000_000;

/// What was asked about the end.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// FINs written so far; the number of the last one, carried in its index field.
    number: u32,
    /// The first moment at which the next one may go.
    next_ns: u64,
    sent_ns: u64,
    /// How often the interval was doubled.
    doubled: u32,
    answered: bool,
    /// The last one's slot.
    slot: u32,
    /// DATA packets handed out when the last one was written.
    packets_sent: u64,
    /// Messages with receipts, per group, when the last one was written.
    delivered: Vec<u32>,
}

impl Sender {
    /// Whether it is time to ask for the end.
    fn wants_end(&self) -> bool {
        !matches!(self.state, State::Done | State::Failed(_))
            && self
                .groups
                .iter()
                .all(|group| group.has_enough() && (!group.tries_all || group.is_tried()))
    }

    /// When the next FIN is due.
    pub(super) fn fin_timeout_ns(&self) -> Option<u64> {
        self.wants_end().then_some(self.ending.next_ns)
    }

    pub(super) fn write_fin(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        if self.fin_timeout_ns().is_none_or(|at_ns| at_ns > now_ns) {
            return None;
        }
        let (head, body) = out.split_at_mut_checked(HEADER_LEN)?;
        let groups: Vec<_> = self
            .groups
            .iter()
            .map(|group| FinGroup {
                group: group.config.group,
                messages: group.messages(),
                needed: group.needed(),
                delivered: group.delivered.min(group.messages()),
            })
            .collect();
        let body_len = FinBody::write(body, &groups)?;
        self.note_fin(now_ns);
        let ids = groups.iter().map(|group| group.messages).sum();
        let header = Header::new(&Fields {
            kind: Kind::Fin,
            flags: Flags::NONE,
            group: groups[0].group,
            job: self.config.job,
            cookie: self.config.cookie,
            message: ids,
            index: self.ending.number & U24_MAX,
            count: 0,
            epoch: 0,
            slot: self.ending.slot,
            time: Header::time_of(now_ns),
        });
        head.copy_from_slice(header.as_bytes());
        Some(HEADER_LEN + body_len)
    }

    fn note_fin(&mut self, now_ns: u64) {
        let timeout_ns = self.losses.base_timeout_ns().max(INTERVAL_NS_MIN);
        let ending = &mut self.ending;
        if ending.packets_sent != self.report.packets_sent {
            ending.doubled = 0;
        } else if ending.number > 0 && !ending.answered {
            self.losses.unheard(ending.sent_ns);
        }
        let interval_ns = (timeout_ns << ending.doubled).min(INTERVAL_NS_MAX.max(timeout_ns));
        ending.next_ns = now_ns + interval_ns + self.losses.pace.backlog_ns;
        ending.doubled = (ending.doubled + 1).min(8);
        ending.number = ending.number.wrapping_add(1);
        ending.sent_ns = now_ns;
        ending.answered = false;
        ending.packets_sent = self.report.packets_sent;
        ending.delivered.clear();
        ending.delivered.extend(self.groups.iter().map(|group| group.delivered));
        // A slot of its own: the answer then says that all sent before was taken in.
        let departs_ns = now_ns + self.losses.pace.backlog_ns;
        ending.slot = self.flight.push(Transmission {
            departs_ns,
            message: 0,
            index: 0,
            turn: 0,
            round: 0,
            fate: Fate::Void,
        });
        self.state = State::Finishing;
    }

    pub(super) fn take_fin_ack(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
    ) -> Result<(), PacketRefused> {
        let answers_last = header.index() == self.ending.number & U24_MAX;
        let same_groups = body
            .groups()
            .map(|group| group.group)
            .eq(self.groups.iter().map(|group| group.config.group));
        let same_counts = body
            .groups()
            .zip(&self.groups)
            .all(|(theirs, ours)| theirs.messages <= ours.messages());
        if self.ending.number == 0 || !same_groups || !same_counts {
            return Err(PacketRefused::Impossible);
        }
        if matches!(self.state, State::Done | State::Failed(_)) {
            return Ok(());
        }
        self.losses.heard();
        self.awaited.receipt_came(now_ns);
        for (theirs, ours) in body.groups().zip(&mut self.groups) {
            ours.delivered_by_fin = theirs.delivered;
        }
        if self.groups.iter().all(|group| group.delivered_by_fin >= group.needed()) {
            // The receiver takes nothing more after this answer: its counts are final.
            for group in &mut self.groups {
                group.forgotten = group.delivered;
            }
            self.state = State::Done;
            self.close();
        } else if answers_last {
            self.ending.answered = true;
            self.go_on(now_ns);
        }
        Ok(())
    }

    /// The receiver has less than needed: finds out what is missing.
    fn go_on(&mut self, now_ns: u64) {
        for (group, &before) in self.groups.iter_mut().zip(&self.ending.delivered) {
            // It had more when it gave its receipts than it has now.
            let forgotten = before.saturating_sub(group.delivered_by_fin);
            group.forgotten = group.forgotten.max(forgotten);
        }
        let unreachable = |group: &super::group::Group| {
            u64::from(group.needed()) + u64::from(group.forgotten) > group.queued.into()
        };
        if self.groups.iter().any(unreachable) {
            let short = self.short();
            return self.fail(SendError::ReceiverLostState { short });
        }
        let delivered = self.groups.iter().map(|group| group.delivered_by_fin).sum();
        self.learn_slot(now_ns, self.ending.slot, delivered);
    }
}
