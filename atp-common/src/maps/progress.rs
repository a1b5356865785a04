use crate::{
    laws::{
        Rules,
        tlr::{self, GroupCount},
    },
    units::{Msr, Share},
};
use bytemuck::{Pod, Zeroable};

/// A sending library's counts of one group for its controller; element `group` of the job's
/// progress map. The library writes them, so they may be hostile. The worst values make the lane as
/// aggressive as a lane of MSR 0, which any job may request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct GroupProgress {
    /// N: messages of the group on this sender.
    pub messages: u32,
    /// Messages with a receipt.
    pub delivered: u32,
    /// Messages sent in full, incomplete at the receiver, with nothing in flight.
    pub lost: u32,
    /// MSR in parts per billion; more than 10^9 counts as exact.
    pub msr_parts_per_billion: u32,
}

const _: () = assert!(size_of::<GroupProgress>() == 16);

impl GroupProgress {
    /// The group's MSR; exact if the written value is impossible.
    pub const fn msr(&self) -> Msr {
        match Msr::from_parts_per_billion(self.msr_parts_per_billion) {
            Some(msr) => msr,
            None => Msr::EXACT,
        }
    }

    /// The sum of two parts of a group: its counts to two receivers, or in two windows. The MSR is
    /// the mean over the messages, rounded up.
    pub fn plus(self, other: Self) -> Self {
        let needed_parts = |progress: &Self| {
            u64::from(progress.messages) * u64::from(progress.msr_parts_per_billion)
        };
        let messages = self.messages.saturating_add(other.messages);
        let parts = needed_parts(&self).saturating_add(needed_parts(&other));
        Self {
            messages,
            delivered: self.delivered.saturating_add(other.delivered),
            lost: self.lost.saturating_add(other.lost),
            msr_parts_per_billion: match messages {
                0 => self.msr_parts_per_billion,
                _ => u32::try_from(parts.div_ceil(messages.into())).unwrap_or(u32::MAX),
            },
        }
    }

    /// The target loss rate (NetApprox §4.2, Eq. 1). Before N is known, the
    /// messages queued so far stand for it.
    pub fn target_loss_rate(&self, rules: Rules) -> Share {
        let Self { messages, delivered, lost, .. } = *self;
        tlr::target_loss_rate(self.msr(), GroupCount { messages, delivered, lost }, rules)
    }
}
