//! One group of messages: its counts and its schedule.

use super::{
    config::{CompleteAt, GroupConfig, SenderConfig},
    ledger::MessageState,
    report::{GroupReport, Short},
    schedule::Schedule,
};
use atp_common::{laws::Rules, maps::GroupProgress, units::Msr};

/// One group of messages.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) config: GroupConfig,
    /// All messages are delivered, in order, as traffic that is not approximate.
    pub(crate) exact: bool,
    /// Messages with receipts: one bit each.
    pub(crate) confirmed: Vec<u64>,
    /// The id below which all messages have receipts.
    pub(crate) cumulative: u32,
    /// Messages queued.
    pub(crate) queued: u32,
    /// Messages with a receipt.
    pub(crate) delivered: u32,
    /// Messages of which some packet was never sent.
    pub(crate) untried: u32,
    /// Messages sent in full, some packet in flight.
    pub(crate) in_flight: u32,
    /// Messages tried in full, incomplete, nothing in flight.
    pub(crate) lost: u32,
    /// Messages that reached the peer's host in full, without a receipt.
    pub(crate) awaiting_receipt: u32,
    /// Messages delivered according to the last FIN-ACK.
    pub(crate) delivered_by_fin: u32,
    /// Messages that a restarted receiver has forgotten: as many more are needed.
    pub(crate) forgotten: u32,
    /// No more messages come: N is the number of queued ones.
    pub(crate) closed: bool,
    /// Every message is tried, even if enough of them is delivered before.
    pub(crate) tries_all: bool,
    /// The weight of the messages queued so far, by MRDF; `None` before the first.
    weight: Option<u32>,
    /// MRDF sends messages of less weight first, and they differ in it.
    pub(crate) shortest_first: bool,
    pub(crate) schedule: Schedule,
}

impl Group {
    pub(crate) fn new(config: GroupConfig, exact: bool, of: &SenderConfig) -> Self {
        // Messages that are delivered in order are best sent in order.
        let schedule = Schedule::new(of.mrdf && !exact, of.rank_by_bytes);
        let tries_all = tries_all(config, of.complete_at);
        Self {
            config,
            exact,
            confirmed: Vec::new(),
            cumulative: 0,
            queued: 0,
            delivered: 0,
            untried: 0,
            in_flight: 0,
            lost: 0,
            awaiting_receipt: 0,
            delivered_by_fin: 0,
            forgotten: 0,
            closed: false,
            tries_all,
            weight: None,
            shortest_first: false,
            schedule,
        }
    }

    /// Notes the packets and the bytes of a message. Returns whether the group is one from now on
    /// whose short messages come first.
    pub(crate) fn note_weight(&mut self, packets: u32, len_bytes: u32) -> bool {
        let Some(weight) = self.schedule.weight(packets, len_bytes) else { return false };
        let is_new = *self.weight.get_or_insert(weight) != weight && !self.shortest_first;
        self.shortest_first |= is_new;
        is_new
    }

    /// Changes the sampling rate.
    pub(crate) fn set_msr(&mut self, msr: Msr, complete_at: CompleteAt) {
        self.config.msr = msr;
        self.tries_all = tries_all(self.config, complete_at);
    }

    /// N as far as it is known by now.
    pub(crate) fn messages(&self) -> u32 {
        if self.closed { self.queued } else { self.config.total.unwrap_or(self.queued) }
    }

    /// Whether N won't change any more.
    pub(crate) fn is_total_known(&self) -> bool {
        self.closed || self.config.total.is_some()
    }

    /// `ceil(MSR * N)`.
    pub(crate) fn needed(&self) -> u32 {
        self.config.msr.needed(self.messages())
    }

    /// Whether the messages that reached the peer's host are enough.
    pub(crate) fn has_enough(&self) -> bool {
        let reached = u64::from(self.delivered) + u64::from(self.awaiting_receipt);
        self.is_total_known() && reached >= u64::from(self.needed()) + u64::from(self.forgotten)
    }

    /// Whether no more messages come.
    pub(crate) fn is_all_queued(&self) -> bool {
        self.closed || self.config.total == Some(self.queued)
    }

    /// Whether every message was queued and tried, and nothing is in flight.
    pub(crate) fn is_tried(&self) -> bool {
        self.is_all_queued() && self.untried == 0 && self.in_flight == 0
    }

    /// The counter of messages in one state.
    pub(crate) fn counter(&mut self, state: MessageState) -> &mut u32 {
        match state {
            MessageState::Untried => &mut self.untried,
            MessageState::InFlight => &mut self.in_flight,
            MessageState::Lost => &mut self.lost,
            MessageState::AwaitingReceipt => &mut self.awaiting_receipt,
        }
    }

    /// Messages that the receiver is known to have.
    pub(crate) fn confirmed(&self) -> u32 {
        let by_receipt = self.delivered.saturating_sub(self.forgotten);
        by_receipt.max(self.delivered_by_fin).min(self.messages())
    }

    pub(crate) fn short(&self) -> Option<Short> {
        let (delivered, needed) = (self.confirmed(), self.needed());
        (delivered < needed).then_some(Short { group: self.config.group, delivered, needed })
    }

    pub(crate) fn report(&self) -> GroupReport {
        let progress = self.progress();
        GroupReport {
            group: self.config.group,
            messages: self.messages(),
            delivered: progress.delivered,
            lost: progress.lost,
            needed: self.needed(),
            msr: self.config.msr,
            target_loss_rate: progress.target_loss_rate(Rules::default()),
        }
    }

    pub(crate) fn progress(&self) -> GroupProgress {
        // An expected N counts for the target loss rate only.
        let expected = if self.is_total_known() { 0 } else { self.config.expected };
        GroupProgress {
            messages: self.messages().max(expected),
            delivered: self.confirmed(),
            // A message that a FIN-ACK counted still counts as lost while it has no receipt.
            lost: self.lost.min(self.messages() - self.confirmed()),
            msr_parts_per_billion: self.config.msr.parts_per_billion(),
        }
    }
}

/// The indices of groups in the configuration, which are also those of their lanes, by id.
#[derive(Debug)]
pub(crate) struct GroupIndices {
    /// The index plus one, 0 for an unknown group.
    by_id: Box<[u16; 256]>,
}

impl GroupIndices {
    pub(crate) fn new(groups: &[GroupConfig]) -> Self {
        let mut by_id = Box::new([0; 256]);
        for (number, group) in (1..).zip(groups) {
            by_id[usize::from(group.group)] = number;
        }
        Self { by_id }
    }

    pub(crate) fn index(&self, group: u8) -> Option<u8> {
        self.by_id[usize::from(group)].checked_sub(1).map(|index| index as u8)
    }
}

/// Whether all messages are tried, also unneeded ones: always for an MSR of 0.
fn tries_all(config: GroupConfig, complete_at: CompleteAt) -> bool {
    complete_at == CompleteAt::EveryMessageTried || config.msr.parts_per_billion() == 0
}
