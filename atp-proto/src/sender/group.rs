//! What a sender keeps per group.

use super::{
    config::{CompleteAt, GroupConfig, SenderConfig},
    ledger::Standing,
    report::Short,
    schedule::Schedule,
};
use atp_common::{maps::GroupProgress, units::Msr};

/// One group of messages: its counts, and those of its messages that have something to send.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) config: GroupConfig,
    /// Everything comes, in order, as traffic that is not approximate.
    pub(crate) exact: bool,
    /// Messages with receipts: one bit each, and the id below which all have one.
    pub(crate) confirmed: Vec<u64>,
    pub(crate) cumulative: u32,
    /// Messages queued.
    pub(crate) queued: u32,
    /// Messages with a receipt.
    pub(crate) delivered: u32,
    /// Messages of which some packet was never sent.
    pub(crate) untried: u32,
    /// Messages sent in full, some packet's fate open.
    pub(crate) flying: u32,
    /// Messages tried in full, incomplete, nothing in flight.
    pub(crate) lost: u32,
    /// Messages that reached the peer's host whole, without a receipt.
    pub(crate) awaiting: u32,
    /// Delivered according to the last FIN-ACK.
    pub(crate) delivered_by_fin: u32,
    /// Receipts that the receiver has forgotten: so many more are needed.
    pub(crate) forgotten: u32,
    /// No more messages come: N is what was queued.
    pub(crate) closed: bool,
    /// Every message is tried, even if enough of them is delivered before.
    pub(crate) tries_all: bool,
    pub(crate) schedule: Schedule,
}

impl Group {
    pub(crate) fn new(config: GroupConfig, exact: bool, of: &SenderConfig) -> Self {
        // What has to come out in order is best sent in order.
        let schedule = Schedule::new(of.mrdf && !exact);
        let tries_all = tries_all(config, of.complete_at);
        Self {
            config,
            exact,
            confirmed: Vec::new(),
            cumulative: 0,
            queued: 0,
            delivered: 0,
            untried: 0,
            flying: 0,
            lost: 0,
            awaiting: 0,
            delivered_by_fin: 0,
            forgotten: 0,
            closed: false,
            tries_all,
            schedule,
        }
    }

    /// Takes another sampling rate.
    pub(crate) fn set_msr(&mut self, msr: Msr, complete_at: CompleteAt) {
        self.config.msr = msr;
        self.tries_all = tries_all(self.config, complete_at);
    }

    /// N as far as it is known.
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

    /// Whether enough is delivered once the receipts for what reached the host come.
    pub(crate) fn has_enough(&self) -> bool {
        let reached = u64::from(self.delivered) + u64::from(self.awaiting);
        self.is_total_known() && reached >= u64::from(self.needed()) + u64::from(self.forgotten)
    }

    /// Whether no more messages come.
    pub(crate) fn is_all_queued(&self) -> bool {
        self.closed || self.config.total == Some(self.queued)
    }

    /// Whether every message was queued and tried, and nothing is in flight.
    pub(crate) fn is_tried(&self) -> bool {
        self.is_all_queued() && self.untried == 0 && self.flying == 0
    }

    /// The counter of messages of one standing.
    pub(crate) fn counter(&mut self, standing: Standing) -> &mut u32 {
        match standing {
            Standing::Untried => &mut self.untried,
            Standing::Flying => &mut self.flying,
            Standing::Lost => &mut self.lost,
            Standing::Awaiting => &mut self.awaiting,
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

    pub(crate) fn progress(&self) -> GroupProgress {
        // What is only expected counts for the target loss rate, and for nothing else.
        let expected = if self.is_total_known() { 0 } else { self.config.expected };
        GroupProgress {
            messages: self.messages().max(expected),
            delivered: self.confirmed(),
            // What a FIN-ACK counted may still be called lost for want of a receipt.
            lost: self.lost.min(self.messages() - self.confirmed()),
            msr_parts_per_billion: self.config.msr.parts_per_billion(),
        }
    }
}

/// A group that needs nothing is tried all the same.
fn tries_all(config: GroupConfig, complete_at: CompleteAt) -> bool {
    complete_at == CompleteAt::EveryMessageTried || config.msr.parts_per_billion() == 0
}
