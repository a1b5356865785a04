//! The receiving side of one (source, job): assembles messages, writes receipts, confirms the end.
//!
//! | file | contents |
//! |---|---|
//! | `assemble`, `partial` | incomplete messages, within limits |
//! | `on_packed` | packets of several whole messages |
//! | `budget` | the memory that all receivers of a process share |
//! | `group`, `delivered`, `sparse` | complete messages, and those that wait for earlier ones |
//! | `receipt` | when a receipt is due, and which messages it names |
//! | `advice` | the host's advice, which receipts carry |
//! | `terms` | what the sender tells of the job: N, MSR and name of each group |
//! | `requests` | what the application asks of the sender |
//! | `end`, `stated_end` | FIN, and FIN-ACK |
//! | `window`, `place` | the windows that are open: the current one, and perhaps the one before |
//! | `outcome` | the types that callers get |

mod advice;
mod assemble;
mod budget;
mod config;
mod delivered;
mod end;
mod group;
mod on_packed;
mod outcome;
mod partial;
mod place;
mod receipt;
mod requests;
mod sparse;
mod stated_end;
mod terms;
#[cfg(test)]
mod tests;
mod window;

pub use budget::{Account, Budget, Part, Share};
pub use config::ReceiverConfig;
pub use outcome::{
    DropReason, GroupSummary, Message, Outcome, ReceiverStats, Summary, reset_header,
};
pub use stated_end::StatedEnd;
pub use terms::Terms;

use advice::{GivenAdvice, Moved};
use assemble::Assembly;
use atp_common::wire::{Advice, Features, Flags, HEADER_LEN, Header, ResetReason};
use end::is_later;
use group::RECORD_BYTES_MAX;
use partial::Piece;
use place::{Known, Place};
use receipt::{RECEIPT_BYTES_MIN, Reported};
use requests::Requests;
use std::{collections::VecDeque, sync::Arc};
use terms::KnownTerms;
use window::Window;

/// The number of contradicting packets that are dropped silently, because a damaged packet can look
/// like one. Further ones are refused with a RESET.
const CONTRADICTIONS_MAX: u64 = 16;

/// Bytes that may be sent for each received byte. Source addresses are unproven, and a forged one
/// must not make this host an amplifier (the factor of RFC 9000 §8.1).
const AMPLIFICATION_MAX: u64 = 3;
/// The limit of the credit that a sender can collect: enough for many receipts.
const CREDIT_BYTES_MAX: u64 = 1 << 16;

/// The receiving side of one (source, job).
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    job: u32,
    cookie: u32,
    /// The memory of the sender's address.
    share: Option<Arc<Share>>,
    /// The current window, or the one that ended last; while the one before is worked on, that.
    window: Window,
    /// The window before it, if windows overlap. It may have ended.
    closing: Option<Box<Window>>,
    /// How the current window's number is known.
    known: Known,
    /// The clock when this receiver began, as on the wire. It tells this process from another one.
    begun: u32,
    /// The slot of the first packet that came.
    first_slot: u32,
    /// This process joined in the current window, so that the one before it may be open too.
    may_open_before: bool,
    /// Messages that are ready for the application.
    ready: VecDeque<Message>,
    /// The number of receipts written.
    receipt_number: u32,
    given_advice: GivenAdvice,
    stats: ReceiverStats,
    /// The latest slot that was read.
    slot: u32,
    /// When the sender's last packet came.
    received_ns: u64,
    /// Bytes that may be sent to the source.
    credit_bytes: u64,
    terms: KnownTerms,
    requests: Requests,
    /// The summaries of ended windows, until they are taken.
    summaries: VecDeque<Summary>,
}

impl Receiver {
    /// A receiver for the sender whose first packet (DATA or FIN) has the header `first`. Pass that
    /// packet to [`Receiver::on_data`] or [`Receiver::on_fin`] afterwards.
    pub fn new(config: ReceiverConfig, now_ns: u64, first: &Header) -> Self {
        Self::with_share(config, now_ns, first, None)
    }

    /// A receiver that takes its memory from the `share` of the sender's address.
    pub fn with_share(
        config: ReceiverConfig,
        now_ns: u64,
        first: &Header,
        share: Option<Arc<Share>>,
    ) -> Self {
        Self {
            job: first.job(),
            cookie: first.cookie(),
            window: Window::new(config, share.clone()),
            closing: None,
            terms: KnownTerms::new(share.clone()),
            share,
            known: Known::Modulo,
            begun: Header::time_of(now_ns),
            first_slot: first.slot(),
            may_open_before: true,
            ready: VecDeque::new(),
            receipt_number: 0,
            given_advice: GivenAdvice::default(),
            stats: ReceiverStats::default(),
            slot: first.slot(),
            received_ns: now_ns,
            credit_bytes: 0,
            requests: Requests::default(),
            summaries: VecDeque::new(),
            config,
        }
    }

    /// The job's id.
    pub fn job(&self) -> u32 {
        self.job
    }

    /// The sender's cookie. Packets with another one belong to another run of the job.
    pub fn cookie(&self) -> u32 {
        self.cookie
    }

    /// Takes in one DATA packet: its parsed header, and the data behind the header.
    pub fn on_data(&mut self, now_ns: u64, header: &Header, data: &[u8]) -> Outcome {
        if !self.is_ours(header) {
            self.stats.packets_foreign += 1;
            return Outcome::Dropped(DropReason::Foreign);
        }
        let place = self.place_of_data(header);
        self.note_packet(now_ns, header, data.len());
        self.stats.packets_arrived += 1;
        let in_place = |receiver: &mut Self| receiver.on_data_of_window(now_ns, header, data);
        let outcome = match place {
            Ok(place) => self.in_place(place, in_place),
            Err(reason) => {
                if reason == DropReason::UnknownWindow {
                    // A receipt brings the terms, which tell the window.
                    self.window.receipts.arrived(now_ns);
                }
                Some(Outcome::Dropped(reason))
            }
        };
        let outcome = outcome.unwrap_or(Outcome::Dropped(DropReason::Ended));
        self.count(&outcome);
        outcome
    }

    fn on_data_of_window(&mut self, now_ns: u64, header: &Header, data: &[u8]) -> Outcome {
        self.window.receipts.arrived(now_ns);
        let flags = header.flags();
        let ordered = flags.contains(Flags::ORDERED);
        if flags.contains(Flags::PACKED) {
            return self.on_packed(now_ns, header, data);
        }
        let (group, message, count) = (header.group(), header.message(), header.count());
        let (index, segmentation) = (header.index(), header.segmentation());
        let piece = Piece { message, group, index, count, segmentation, data };
        self.on_piece(now_ns, &piece, ordered)
    }

    /// Takes in one packet of a message, or a message of a packed packet.
    fn on_piece(&mut self, now_ns: u64, piece: &Piece<'_>, ordered: bool) -> Outcome {
        let &Piece { message, group, index, count, .. } = piece;
        if message >= self.config.messages_max {
            return Outcome::Refused(ResetReason::TooMany);
        }
        if self.window.groups.contains(group, message) {
            self.window.receipts.repeat(now_ns, self.window.groups.entry(group), message);
            return Outcome::Duplicate;
        }
        if self.window.end.is_some() {
            return Outcome::Dropped(DropReason::Ended);
        }
        if !self.can_record(group, message) {
            return Outcome::Refused(ResetReason::NoRoom);
        }
        let assembly = if index < count {
            self.window.assembler.insert(now_ns, piece, &mut self.stats)
        } else {
            Assembly::Contradiction
        };
        self.on_assembly(now_ns, piece, ordered, assembly)
    }

    /// Counts the outcome of a packet.
    fn count(&mut self, outcome: &Outcome) {
        let stats = &mut self.stats;
        *match outcome {
            Outcome::Complete | Outcome::Incomplete => return,
            Outcome::Duplicate => &mut stats.packets_duplicate,
            Outcome::Dropped(DropReason::NoRoom) | Outcome::Refused(ResetReason::NoRoom) => {
                &mut stats.packets_no_room
            }
            Outcome::Dropped(DropReason::Ended | DropReason::Stale) => &mut stats.packets_late,
            Outcome::Dropped(DropReason::UnknownWindow) => &mut stats.packets_window_unknown,
            Outcome::Dropped(DropReason::Contradiction)
            | Outcome::Refused(ResetReason::Inconsistent) => &mut stats.packets_contradicting,
            Outcome::Dropped(DropReason::Malformed) => &mut stats.packets_malformed,
            Outcome::Dropped(DropReason::Foreign) => &mut stats.packets_foreign,
            Outcome::Refused(_) => &mut stats.packets_refused,
        } += 1;
    }

    /// Whether all packets of a message of `bytes` bytes may go to [`Receiver::on_complete`] at
    /// once, instead of one by one to [`Receiver::on_data`]. `first` is the header of the first.
    /// The message must be new, and nothing else must depend on its packets.
    pub fn accepts_complete(&self, first: &Header, bytes: usize) -> bool {
        let (group, message) = (first.group(), first.message());
        self.is_ours(first)
            && !first.flags().contains(Flags::PACKED)
            && self.stats.packets_arrived > 0
            && self.window.end.is_none()
            && self.is_surely_present(first)
            && message < self.config.messages_max
            && bytes <= self.config.message_bytes_max as usize
            && !self.window.groups.contains(group, message)
            && self.can_record(group, message)
            && !self.window.assembler.has_begun(group, message)
    }

    /// Takes in all packets of a message at once, with the same result as one by one in order.
    /// `data` is the data of all of them, `first` the header of the first. They have consecutive
    /// slots. Only for messages that [`Receiver::accepts_complete`] accepts.
    pub fn on_complete(&mut self, now_ns: u64, first: &Header, data: Vec<u8>) -> Outcome {
        let packets = first.count();
        self.note_packet(now_ns, first, data.len() + (packets as usize - 1) * HEADER_LEN);
        let last = first.slot().wrapping_add(packets - 1);
        self.note_read(last);
        self.stats.packets_arrived += u64::from(packets);
        self.window.receipts.arrived(now_ns);
        let ordered = first.flags().contains(Flags::ORDERED);
        let outcome = self.deliver(now_ns, (first.group(), first.message()), ordered, data);
        self.count(&outcome);
        outcome
    }

    fn on_assembly(
        &mut self,
        now_ns: u64,
        piece: &Piece<'_>,
        ordered: bool,
        assembly: Assembly,
    ) -> Outcome {
        match assembly {
            Assembly::Complete(data) => self.deliver(now_ns, piece.key(), ordered, data),
            Assembly::Incomplete => Outcome::Incomplete,
            Assembly::Duplicate => Outcome::Duplicate,
            Assembly::NoRoom => Outcome::Dropped(DropReason::NoRoom),
            Assembly::BudgetUsed => Outcome::Refused(ResetReason::NoRoom),
            Assembly::TooLarge => Outcome::Refused(ResetReason::TooLarge),
            Assembly::Stale => Outcome::Dropped(DropReason::Stale),
            Assembly::Contradiction => match self.stats.packets_contradicting {
                CONTRADICTIONS_MAX.. => Outcome::Refused(ResetReason::Inconsistent),
                _ => Outcome::Dropped(DropReason::Contradiction),
            },
        }
    }

    /// Makes a complete message ready for the application, or holds it until earlier ones are
    /// complete.
    fn deliver(
        &mut self,
        now_ns: u64,
        (id, message): (u8, u32),
        ordered: bool,
        data: Vec<u8>,
    ) -> Outcome {
        let bytes = data.len() as u64;
        let (is_new_group, group) =
            (self.window.groups.get(id).is_none(), self.window.groups.entry(id));
        let record_bytes = if is_new_group { 0 } else { group.record_bytes() };
        let waits = ordered && !group.is_next(message);
        if waits && let Err(refused) = self.window.assembler.set_aside(bytes) {
            return match refused {
                Assembly::BudgetUsed => Outcome::Refused(ResetReason::NoRoom),
                _ => Outcome::Dropped(DropReason::NoRoom),
            };
        }
        group.delivered.insert(message);
        self.window.receipts.completed(now_ns, group, message, bytes);
        self.window.record_account.take(group.record_bytes() - record_bytes);
        self.stats.messages_delivered += 1;
        self.stats.bytes_delivered += bytes;
        if waits {
            group.hold(message, data);
            return Outcome::Complete;
        }
        let window = self.window.number;
        self.ready.push_back(Message { window, group: id, message, data });
        while let Some((message, data)) = group.release(false) {
            self.window.assembler.take_back(data.len() as u64);
            self.ready.push_back(Message { window, group: id, message, data });
        }
        Outcome::Complete
    }

    /// Whether the budget has room for the record of a complete message.
    fn can_record(&self, group: u8, message: u32) -> bool {
        self.window.groups.has_entry(group, message)
            || self.window.record_account.fits(RECORD_BYTES_MAX)
    }

    /// Drops the incomplete messages that the sender seems to have abandoned, because other senders
    /// need the room.
    pub fn drop_abandoned(&mut self, now_ns: u64) {
        for window in self.closing.as_deref_mut().into_iter().chain([&mut self.window]) {
            window.assembler.drop_abandoned(now_ns, &mut self.stats);
        }
    }

    /// Makes all held messages ready, in order, although earlier ones are missing.
    fn release_all(&mut self) {
        for group in self.window.groups.iter_mut() {
            while let Some((message, data)) = group.release(true) {
                self.window.assembler.take_back(data.len() as u64);
                let window = self.window.number;
                self.ready.push_back(Message { window, group: group.id, message, data });
            }
        }
    }

    /// The next message for the application. Each comes once, those of an exact group in order.
    pub fn next_message(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }

    /// Sets the host's advice to the lane of `group`, for the receipts from now on. If it has
    /// changed much, a receipt is due one receipt delay after the last one.
    pub fn set_advice(&mut self, group: u8, advice: Advice) {
        self.given_advice.set(group, advice);
    }

    /// Whether a receipt is due now.
    pub fn receipt_due(&self, now_ns: u64) -> bool {
        self.receipt_due_ns().is_some_and(|at_ns| at_ns <= now_ns)
    }

    /// When the next receipt or REQUEST is due if nothing arrives before. It may lie in the past.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.receipt_due_ns().into_iter().chain(self.request_due_ns()).min()
    }

    fn receipt_due_ns(&self) -> Option<u64> {
        let due_ns = self.windows().filter_map(|window| self.receipt_due_ns_of(window)).min();
        due_ns.filter(|_| self.credit_bytes >= RECEIPT_BYTES_MIN)
    }

    /// When the next receipt of a window is due. Those of the current one carry the advice.
    fn receipt_due_ns_of(&self, window: &Window) -> Option<u64> {
        let moved = match window.number == self.window.number {
            true => self.given_advice.moved(),
            false => Moved::No,
        };
        window.receipts.due_ns(moved)
    }

    /// Writes a receipt, header and body, into `out` and returns its length: at most 1,196 bytes.
    /// The length is 0 if `out` is shorter than 44 bytes, or if three times the received bytes were
    /// sent already. It is of the window whose receipt is due first.
    pub fn write_receipt(&mut self, now_ns: u64, out: &mut [u8]) -> usize {
        let due_ns = |window| self.receipt_due_ns_of(window).unwrap_or(u64::MAX);
        let closing_ns = self.closing.as_deref().map_or(u64::MAX, due_ns);
        let place = if closing_ns < due_ns(&self.window) { Place::Closing } else { Place::Present };
        let written = self.in_place(place, |receiver| receiver.write_receipt_of(now_ns, out));
        written.unwrap_or(0)
    }

    /// As [`Receiver::write_receipt`], but of the window of this number, if it is open.
    pub fn write_receipt_of_window(&mut self, now_ns: u64, number: u32, out: &mut [u8]) -> usize {
        let place = self.place_of_number(number).unwrap_or(Place::Present);
        let written = self.in_place(place, |receiver| receiver.write_receipt_of(now_ns, out));
        written.unwrap_or(0)
    }

    fn write_receipt_of(&mut self, now_ns: u64, out: &mut [u8]) -> usize {
        let room = out.len().min(self.credit_bytes as usize);
        self.receipt_number = self.receipt_number.wrapping_add(1);
        let features = Features::PACKED.with(Features::TERMS).with(Features::OVERLAP);
        let features = features.with(Features::ORDER);
        let reported = Reported {
            job: self.job,
            cookie: self.cookie,
            number: self.receipt_number,
            window: self.window.number,
            slot: self.slot,
            begun: self.begun,
            packets_arrived: self.stats.packets_arrived as u32,
            features: match self.config.gives_advice || self.given_advice.is_given() {
                true => features.with(Features::ADVICE),
                false => features,
            },
            terms: self.terms.revision(),
        };
        let out = &mut out[..room];
        let (window, advice) = (&mut self.window, &mut self.given_advice);
        let len = window.receipts.write(now_ns, &mut window.groups, &reported, advice, out);
        self.credit_bytes -= len as u64;
        len
    }

    /// The summary of the job's or the last window's end, which is returned once. Take all messages
    /// of [`Receiver::next_message`] first.
    pub fn take_summary(&mut self) -> Option<Summary> {
        self.summaries.pop_front()
    }

    /// Whether the job has ended: a FIN ended the window, and no other window follows.
    pub fn is_finished(&self) -> bool {
        self.window.end.as_ref().is_some_and(|end| !end.more())
    }

    /// How long ago the last FIN of an ended job came, if its sender may not know of the end.
    pub fn unknown_end_age_ns(&self, now_ns: u64) -> Option<u64> {
        let end = self.window.end.as_ref().filter(|end| !end.more() && !end.is_known)?;
        Some(now_ns.saturating_sub(end.fin_ns))
    }

    /// Takes the bytes of a repeated answer from those that this receiver may still send. Returns
    /// `false` if three times the received bytes were sent already.
    pub fn spend(&mut self, bytes: usize) -> bool {
        let left = self.credit_bytes.checked_sub(bytes as u64);
        self.credit_bytes = left.unwrap_or(self.credit_bytes);
        left.is_some()
    }

    /// Whether the sender has been silent for so long before the end that it counts as gone.
    fn is_abandoned(&self, now_ns: u64) -> bool {
        let silence_ns = now_ns.saturating_sub(self.received_ns);
        !self.is_finished() && silence_ns >= self.config.silence_ns
    }

    /// Whether this receiver can be dropped: it has lingered after the end, or the sender is gone.
    pub fn expired(&self, now_ns: u64) -> bool {
        match &self.window.end {
            Some(end) if !end.more() => now_ns.saturating_sub(end.fin_ns) >= self.config.linger_ns,
            _ => self.is_abandoned(now_ns),
        }
    }

    /// When the last packet of the sender came.
    pub fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// The memory that it holds of its address's share, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let bytes =
            |window: &Window| window.assembler.memory_bytes() + window.record_account.bytes();
        self.windows().map(bytes).sum::<u64>() + self.terms.memory_bytes()
    }

    /// The counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// The number of complete messages of `group` in the current window.
    pub fn delivered(&self, group: u8) -> u32 {
        self.window.groups.delivered(group)
    }

    /// The number of complete messages of each group in the current window, of groups with any.
    pub fn delivered_by_group(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        self.window.groups.iter().map(|group| (group.id, group.delivered.number()))
    }

    /// The current window, counted from 0, or the one that ended last.
    pub fn window(&self) -> u32 {
        self.window.number
    }

    fn is_ours(&self, header: &Header) -> bool {
        header.job() == self.job && header.cookie() == self.cookie
    }

    /// Notes the time of a packet of the sender, and the bytes that may be sent for it.
    fn note_bytes(&mut self, now_ns: u64, body_bytes: usize) {
        self.received_ns = now_ns;
        let bytes = (HEADER_LEN + body_bytes) as u64;
        self.credit_bytes = (self.credit_bytes + AMPLIFICATION_MAX * bytes).min(CREDIT_BYTES_MAX);
    }

    fn note_packet(&mut self, now_ns: u64, header: &Header, body_bytes: usize) {
        self.note_bytes(now_ns, body_bytes);
        self.note_read(header.slot());
    }

    fn note_read(&mut self, slot: u32) {
        if is_later(slot, self.slot) {
            self.slot = slot;
            self.window.follow(slot);
            if let Some(closing) = &mut self.closing {
                closing.follow(slot);
            }
        }
    }
}
