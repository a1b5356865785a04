//! The windows of a stream that are open: the present one, and while its end is being confirmed,
//! the one before it.
//!
//! Every phase works on `Sender::window`. For the closing window, [`Sender::in_window`] puts that
//! one there while the phase runs.

use super::{
    Sender,
    awaiting_receipt::AwaitingReceipt,
    buckets::Ranks,
    config::{GroupConfig, SenderConfig},
    ending::Ending,
    group::Group,
    ledger::Ledger,
    report::{GroupReport, LostIds, State},
    sent_packets::Transmission,
    told_by::ToldBy,
};

/// One window of a stream; the only one of another job.
#[derive(Debug)]
pub(crate) struct Window {
    /// Counted from 0.
    pub(crate) number: u32,
    /// The last slot before its first packet.
    pub(crate) before_slot: u32,
    pub(crate) state: State,
    /// By id.
    pub(crate) groups: Vec<Group>,
    pub(crate) ledger: Ledger,
    pub(crate) ranks: Ranks,
    pub(crate) awaiting_receipt: AwaitingReceipt,
    pub(crate) ending: Ending,
    /// Messages that have a receipt.
    pub(crate) delivered: u32,
    /// Those that had one before the receiver's present process named any.
    pub(crate) named_before: u32,
    /// Whose messages receipts have named, and whose counts are final.
    pub(crate) told_by: ToldBy,
}

impl Window {
    pub(crate) fn new(number: u32, before_slot: u32, groups: Vec<Group>) -> Self {
        Self {
            number,
            before_slot,
            state: State::Open,
            ledger: Ledger::new(groups.len()),
            groups,
            ranks: Ranks::default(),
            awaiting_receipt: AwaitingReceipt::new(),
            ending: Ending::default(),
            delivered: 0,
            named_before: 0,
            told_by: ToldBy::Nobody,
        }
    }

    pub(crate) fn is_odd(&self) -> bool {
        self.number % 2 == 1
    }

    /// Whether it has ended, or its job has failed.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Ended | State::Failed(_))
    }

    /// Releases all messages.
    pub(crate) fn close(&mut self) {
        self.awaiting_receipt.clear();
        self.ledger.release_all();
    }
}

/// A window that ended while the next one was open: see [`Sender::take_ended_window`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedWindow {
    /// Counted from 0.
    pub window: u32,
    /// Every group has what it needs.
    pub is_done: bool,
    /// The groups, by id.
    pub groups: Vec<GroupReport>,
    /// For each of `groups`, what [`Sender::lost_ids`] says of a job.
    pub lost_ids: Vec<LostIds>,
}

impl Sender {
    /// The open windows, the older one first.
    pub(super) fn windows(&self) -> impl Iterator<Item = &Window> {
        self.closing.as_deref().into_iter().chain([&self.window])
    }

    /// Works on the window of this number, if it is open.
    pub(super) fn in_window<T>(
        &mut self,
        number: u32,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        if self.window.number == number {
            return Some(work(self));
        }
        let is_closing = self.closing.as_ref().is_some_and(|closing| closing.number == number);
        if is_closing { self.in_closing(work) } else { None }
    }

    /// Works on the window of a transmission, if it is open.
    pub(super) fn in_window_of<T>(
        &mut self,
        transmission: &Transmission,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        match self.window.is_odd() == transmission.odd_window {
            true => Some(work(self)),
            false => self.in_closing(work),
        }
    }

    /// Works on the closing window, if there is one.
    pub(super) fn in_closing<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let closing = self.closing.as_deref_mut()?;
        let was_over = closing.is_over();
        std::mem::swap(&mut self.window, closing);
        let result = work(self);
        let closing = self.closing.as_deref_mut()?;
        std::mem::swap(&mut self.window, closing);
        if !was_over && closing.is_over() {
            let is_odd = closing.is_odd();
            self.sent_packets.void_window(is_odd);
        }
        Some(result)
    }

    /// Works on each open window, the older one first.
    pub(super) fn in_each_window(&mut self, mut work: impl FnMut(&mut Self)) {
        self.in_closing(&mut work);
        work(self);
    }

    /// Whether the next window may begin: the present one has ended, or it only waits for its end,
    /// and the receiver takes windows that overlap.
    pub fn can_begin_window(&self) -> bool {
        let overlaps =
            self.config.overlap && self.takes_overlap && self.window.state == State::Finishing;
        let is_over = matches!(self.window.state, State::Done | State::Ended);
        !self.is_last_window() && self.closing.is_none() && (is_over || overlaps)
    }

    /// Begins the next window of a stream, if [`Sender::can_begin_window`] allows it. `sizes` gives
    /// each group's N, known or expected. Ids are counted from 0 again. Returns whether it began.
    ///
    /// If the present window has not ended, it goes on beside the next one, and
    /// [`Sender::take_ended_window`] tells its end.
    pub fn begin_window(&mut self, sizes: impl Fn(&GroupConfig) -> (Option<u32>, u32)) -> bool {
        if !self.can_begin_window() {
            return false;
        }
        let before_slot = self.sent_packets.next_slot().wrapping_sub(1);
        let groups = next_groups(&self.window.groups, &self.config, sizes);
        let next = Window {
            ending: self.window.ending.next_window(),
            ..Window::new(self.window.number.wrapping_add(1), before_slot, groups)
        };
        let mut last = std::mem::replace(&mut self.window, next);
        if last.is_over() {
            self.sent_packets.void_all();
            self.window.ledger.take_released(&mut last.ledger);
        } else {
            self.closing = Some(last.into());
        }
        self.announcement.begin_window(self.window.number, self.report.packets_sent);
        true
    }

    /// Whether a slot that was sent is of a window or of a later one.
    pub(super) fn is_in_or_after(&self, window: &Window, slot: u32) -> bool {
        // A window may have more slots than serial arithmetic tells apart.
        let last_slot = self.sent_packets.next_slot().wrapping_sub(1);
        let in_window = last_slot.wrapping_sub(window.before_slot);
        window.number == 0 || last_slot.wrapping_sub(slot) < in_window
    }

    /// The number of the window before the present one, if it has not ended.
    pub fn closing_window(&self) -> Option<u32> {
        self.closing.as_ref().filter(|closing| !closing.is_over()).map(|closing| closing.number)
    }

    /// Takes the outcome of a window that has ended while the next one was open. The window after
    /// that can begin then.
    pub fn take_ended_window(&mut self) -> Option<EndedWindow> {
        let has_ended =
            |closing: &mut Box<Window>| matches!(closing.state, State::Done | State::Ended);
        let ended = self.closing.take_if(has_ended)?;
        let mut ended = *ended;
        self.window.ledger.take_released(&mut ended.ledger);
        let groups: Vec<_> = ended.groups.iter().map(Group::report).collect();
        Some(EndedWindow {
            window: ended.number,
            is_done: ended.state == State::Done,
            lost_ids: ended.lost_ids(self.config.names_lost),
            groups,
        })
    }
}

/// The groups of the window after the one of `groups`.
fn next_groups(
    groups: &[Group],
    config: &SenderConfig,
    sizes: impl Fn(&GroupConfig) -> (Option<u32>, u32),
) -> Vec<Group> {
    let mut announced = 0;
    let next = |(group, configured): (&Group, &GroupConfig)| {
        let (total, expected) = sizes(&group.config);
        // The receiver would refuse an N above the limit, so it isn't announced.
        let total = total.filter(|total| *total <= config.messages_max - announced);
        announced += total.unwrap_or(0);
        let next = GroupConfig { total, expected, msr: configured.msr, ..group.config };
        Group::new(next, group.exact, config)
    };
    groups.iter().zip(&config.groups).map(next).collect()
}
