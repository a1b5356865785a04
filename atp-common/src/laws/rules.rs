//! Selects the rate law and its rules.
//!
//! The selection is plain data: the daemon, the library's own datapath and the eBPF programs all
//! use the same. All zero is the default.

use super::{RateLaw, rate};
use crate::units::Share;
use bytemuck::{Pod, Zeroable};

/// A rule that is on unless it is switched off. The paper does not state the first six. The last
/// two are the paper's own dynamic settings (NetApprox §7.1.2). See docs/src/control/laws.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A loss that equals the target raises the rate. Without the rule, such a loss leaves the rate
    /// unchanged, at TLR 0 permanently.
    RaiseAtTarget,
    /// An epoch is evaluated no earlier than one smoothed RTT after its last packet left. Without
    /// it, an epoch is evaluated as soon as it ends, with ACKs still in flight.
    EvaluateLate,
    /// TLR is at most 1 - MSR. Without it, at most 1.
    CappedTarget,
    /// A starved lane climbs queues.
    StarvationRecovery,
    /// The least rate is a packet per max(RTT, epoch). Without it, a packet per RTT
    /// (NetApprox §4.2).
    FloorPerEpoch,
    /// An idle lane keeps its rate.
    HoldWhenIdle,
    /// TLR follows Eq. 1. Without it, TLR stays at 1 - MSR.
    DynamicTarget,
    /// The queue follows TLR. Without it, the lane stays in the queue of 1 - MSR.
    DynamicQueue,
}

impl Rule {
    /// Every rule with its name.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::RaiseAtTarget, "raise-at-target"),
        (Self::EvaluateLate, "evaluate-late"),
        (Self::CappedTarget, "capped-target"),
        (Self::StarvationRecovery, "starvation-recovery"),
        (Self::FloorPerEpoch, "floor-per-epoch"),
        (Self::HoldWhenIdle, "hold-when-idle"),
        (Self::DynamicTarget, "dynamic-target"),
        (Self::DynamicQueue, "dynamic-queue"),
    ];

    /// One line for help texts.
    pub const fn description(self) -> &'static str {
        match self {
            Self::RaiseAtTarget => "a loss equal to the target raises the rate",
            Self::EvaluateLate => "an epoch is evaluated one RTT after its last packet",
            Self::CappedTarget => "the target loss rate is at most 1 - MSR",
            Self::StarvationRecovery => "a starved lane moves to queues of higher priority",
            Self::FloorPerEpoch => "at least one packet per RTT or per epoch, whichever is longer",
            Self::HoldWhenIdle => "an idle lane keeps its rate",
            Self::DynamicTarget => "the target loss rate follows NetApprox, Eq. 1",
            Self::DynamicQueue => "the queue follows the target loss rate",
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The protocols that the paper compares with each other (NetApprox §7.1.2 and §7.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// Packets leave at Rmax, with messages in order, and lost packets are retransmitted. Nothing
    /// is dynamic.
    Base,
    /// Base with the rate law, and TLR fixed at 1 - MSR.
    Rc,
    /// RC with minimal remaining data first. It equals FixTLR, because a fixed TLR fixes the queue
    /// too.
    Mrdf,
    /// The complete protocol, but TLR, and with it the queue, is fixed at 1 - MSR.
    FixTlr,
    /// The complete protocol, but the lane stays in its first queue.
    FixPrio,
    /// The complete protocol.
    #[default]
    Full,
}

impl Variant {
    /// Every variant with its name.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Base, "base"),
        (Self::Rc, "rc"),
        (Self::Mrdf, "mrdf"),
        (Self::FixTlr, "fix-tlr"),
        (Self::FixPrio, "fix-prio"),
        (Self::Full, "full"),
    ];

    /// One line for help texts.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Base => "packets leave at the highest rate, messages in order",
            Self::Rc => "base with the rate law",
            Self::Mrdf => "rc with minimal remaining data first",
            Self::FixTlr => "full with a fixed target loss rate and a fixed queue",
            Self::FixPrio => "full with a fixed queue",
            Self::Full => "the complete protocol",
        }
    }

    /// Whether the sender schedules by minimal remaining data first, MRDF (NetApprox §4.3). The
    /// transport schedules, because a lane has no messages.
    pub const fn mrdf(self) -> bool {
        !matches!(self, Self::Base | Self::Rc)
    }
}

/// A rate law and rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Rules {
    /// The number of a [`RateLaw`]. Any other number means the default law.
    law: u32,
    /// A bit for each [`Rule`] that is off.
    off: u32,
    /// m of Eq. 2, Q16. 0 means the default.
    step_q16: u32,
}

const _: () = assert!(size_of::<Rules>() == 12);

impl Rules {
    /// A law with every rule.
    pub const fn new(law: RateLaw) -> Self {
        Self { law: law as u32, off: 0, step_q16: 0 }
    }

    /// A variant of the paper with a law. ATP Base has no law.
    pub const fn variant(variant: Variant, law: RateLaw) -> Self {
        match variant {
            Variant::Base => Self::fixed(RateLaw::None),
            Variant::Rc | Variant::Mrdf | Variant::FixTlr => Self::fixed(law),
            Variant::FixPrio => {
                Self::new(law).without(Rule::DynamicQueue).without(Rule::StarvationRecovery)
            }
            Variant::Full => Self::new(law),
        }
    }

    /// A law with TLR and queue fixed.
    const fn fixed(law: RateLaw) -> Self {
        Self::variant(Variant::FixPrio, law).without(Rule::DynamicTarget)
    }

    /// Switches a rule off.
    pub const fn without(self, rule: Rule) -> Self {
        Self { off: self.off | rule.bit(), ..self }
    }

    /// Sets m of Eq. 2 (NetApprox §4.2): the share of the distance to Rmax by which the rate grows
    /// in an epoch. A share of 0 means the default.
    pub const fn with_step(self, step: Share) -> Self {
        Self { step_q16: step.q16(), ..self }
    }

    /// m of Eq. 2.
    pub const fn step(self) -> Share {
        match self.step_q16 {
            0 => rate::DEFAULT_STEP,
            step_q16 => Share::from_q16(step_q16),
        }
    }

    /// The rate law.
    pub const fn law(self) -> RateLaw {
        RateLaw::from_number(self.law)
    }

    /// Whether a rule is on.
    pub const fn has(self, rule: Rule) -> bool {
        self.off & rule.bit() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules__all_zero_is_the_default_with_every_rule() {
        let zero = Rules::zeroed();
        assert_eq!(zero, Rules::default());
        assert_eq!(zero, Rules::variant(Variant::default(), RateLaw::default()));
        assert!(Rule::ALL.into_iter().all(|(rule, _)| zero.has(rule)));
        assert_eq!(zero.law(), RateLaw::default());
    }

    #[test]
    fn step__is_at_most_one_and_kept_by_every_change() {
        assert_eq!(Rules::default().step(), rate::DEFAULT_STEP);
        let step = Share::from_q16(20_000);
        let rules = Rules::new(RateLaw::Pi).with_step(step).without(Rule::DynamicQueue);
        assert_eq!((rules.step(), rules.law()), (step, RateLaw::Pi));
        let hostile: Rules = bytemuck::cast([0, 0, u32::MAX]);
        assert_eq!(hostile.step(), Share::ONE);
    }

    #[test]
    fn rules__each_is_switched_off_alone() {
        for (off, _) in Rule::ALL {
            for (law, _) in RateLaw::ALL {
                let rules = Rules::new(law).without(off);
                assert!(Rule::ALL.into_iter().all(|(rule, _)| rules.has(rule) == (rule != off)));
                assert_eq!(rules.law(), law);
            }
        }
    }

    #[test]
    fn law__of_any_bytes_is_some_law() {
        for number in [0, 1, 77, u32::MAX] {
            let rules: Rules = bytemuck::cast([number, u32::MAX, number]);
            assert!(RateLaw::ALL.iter().any(|(law, _)| *law == rules.law()));
        }
    }

    #[test]
    fn variant__each_adds_to_the_one_before() {
        // NetApprox §7.1.3: Base, + rate control, + MRDF, + dynamic TLR and queue.
        let parts = |variant: Variant| {
            let rules = Rules::variant(variant, RateLaw::Paper);
            let law = rules.law() != RateLaw::None;
            [law, variant.mrdf(), rules.has(Rule::DynamicTarget), rules.has(Rule::DynamicQueue)]
        };
        assert_eq!(parts(Variant::Base), [false, false, false, false]);
        assert_eq!(parts(Variant::Rc), [true, false, false, false]);
        assert_eq!(parts(Variant::Mrdf), [true, true, false, false]);
        assert_eq!(parts(Variant::FixTlr), [true, true, false, false]);
        assert_eq!(parts(Variant::FixPrio), [true, true, true, false]);
        assert_eq!(parts(Variant::Full), [true, true, true, true]);
    }
}
