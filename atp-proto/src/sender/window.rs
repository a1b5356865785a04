//! One window of a job: its messages, its state and its end.

use super::{
    awaiting_receipt::AwaitingReceipt,
    buckets::Ranks,
    config::{CompleteAt, GroupConfig, SenderConfig},
    ending::Ending,
    group::Group,
    ledger::Ledger,
    report::{GroupReport, SendError, Short, State},
    told_by::ToldBy,
};
use atp_common::units::Msr;

/// One window of a job, which has at least one.
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
    /// Messages that had a receipt before the receiver's current process named any.
    pub(crate) named_before: u32,
    /// The processes whose receipts have named messages, and whose counts are final.
    pub(crate) told_by: ToldBy,
}

impl Window {
    fn new(number: u32, before_slot: u32, groups: Vec<Group>, ending: Ending) -> Self {
        Self {
            number,
            before_slot,
            state: State::Open,
            ledger: Ledger::new(groups.len()),
            groups,
            ranks: Ranks::default(),
            awaiting_receipt: AwaitingReceipt::new(),
            ending,
            delivered: 0,
            named_before: 0,
            told_by: ToldBy::Nobody,
        }
    }

    /// The first window, or the only one.
    pub(crate) fn first(config: &SenderConfig) -> Self {
        let new = |group: &GroupConfig| Group::new(*group, group.msr.is_exact(), config);
        let mut ending = Ending::default();
        if !config.windows {
            ending.set_last();
        }
        Self::new(0, 0, config.groups.iter().map(new).collect(), ending)
    }

    /// The window after this one, which begins after the slot `before_slot`. `sizes` gives each
    /// group's N, known or expected.
    pub(crate) fn next(
        &self,
        config: &SenderConfig,
        before_slot: u32,
        sizes: impl Fn(&GroupConfig) -> (Option<u32>, u32),
    ) -> Self {
        let mut announced = 0;
        let next = |(group, configured): (&Group, &GroupConfig)| {
            let (total, expected) = sizes(&group.config);
            // The receiver would refuse an N above the limit, so it isn't announced.
            let total = total.filter(|total| *total <= config.messages_max - announced);
            announced += total.unwrap_or(0);
            let next = GroupConfig { total, expected, msr: configured.msr, ..group.config };
            Group::new(next, group.exact, config)
        };
        let groups = self.groups.iter().zip(&config.groups).map(next).collect();
        Self::new(self.number.wrapping_add(1), before_slot, groups, self.ending.next_window())
    }

    pub(crate) fn is_odd(&self) -> bool {
        self.number % 2 == 1
    }

    /// Whether all groups are exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.groups.iter().all(|group| group.exact)
    }

    /// Whether it has ended, or its job has failed.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Ended | State::Failed(_))
    }

    /// Whether no more data is sent: the end is forced, or the receiver has confirmed it.
    pub(crate) fn sends_only_fin(&self) -> bool {
        self.ending.is_forced() || self.ending.is_settled()
    }

    /// Whether a slot that was sent is of this window or of a later one. `next_slot`: that of the
    /// next packet.
    pub(crate) fn is_in_or_after(&self, slot: u32, next_slot: u32) -> bool {
        // A window may have more slots than serial arithmetic tells apart.
        let last_slot = next_slot.wrapping_sub(1);
        let in_window = last_slot.wrapping_sub(self.before_slot);
        self.number == 0 || last_slot.wrapping_sub(slot) < in_window
    }

    /// The groups that have less than they need.
    pub(crate) fn short(&self) -> Vec<Short> {
        self.groups.iter().filter_map(Group::short).collect()
    }

    pub(crate) fn reports(&self) -> Vec<GroupReport> {
        self.groups.iter().map(Group::report).collect()
    }

    /// Announces that no more messages come. Returns whether the terms have changed by that.
    pub(crate) fn finish(&mut self) -> bool {
        if self.state != State::Open {
            return false;
        }
        self.state = State::Finishing;
        let told = |group: &Group| group.is_total_known().then(|| group.messages());
        let before: Vec<_> = self.groups.iter().map(told).collect();
        for group in &mut self.groups {
            group.closed = true;
        }
        !self.groups.iter().map(told).eq(before)
    }

    /// Forces the end: from now on only FIN is sent.
    pub(crate) fn end_now(&mut self) {
        if !self.is_over() && !self.sends_only_fin() {
            self.state = State::Finishing;
            self.ending.force();
        }
    }

    /// Forces the end, and doesn't wait for the names of lost messages any more.
    pub(crate) fn cancel(&mut self) {
        match !self.is_over() && self.ending.is_settled() {
            true => self.end(),
            false => self.end_now(),
        }
    }

    /// Makes the window need no more messages, unless its end is forced already: its receiver has
    /// decided by what it needed, or will.
    pub(crate) fn need_nothing(&mut self, complete_at: CompleteAt) {
        if !(self.is_over() || self.sends_only_fin()) {
            for group in &mut self.groups {
                group.set_msr(Msr::NONE, complete_at);
            }
        }
    }

    /// Ends the window with the counts that the receiver has stated.
    pub(crate) fn end(&mut self) {
        for group in &mut self.groups {
            group.forgotten = group.delivered;
        }
        let enough = self.groups.iter().all(|group| group.delivered_by_fin >= group.needed());
        if self.ending.is_last() {
            self.ending.confirm();
        }
        self.close(if enough { State::Done } else { State::Ended });
    }

    /// Fails, unless the receiver has confirmed the end.
    pub(crate) fn fail(&mut self, error: SendError) {
        if self.is_over() {
            return;
        }
        match self.ending.is_settled() {
            true => self.end(),
            false => self.close(State::Failed(error)),
        }
    }

    /// Releases all messages.
    fn close(&mut self, state: State) {
        self.state = state;
        self.awaiting_receipt.clear();
        self.ledger.release_all();
    }
}
