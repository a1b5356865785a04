//! The law of exact lanes: DCTCP (RFC 8257), on a rate instead of a window.
//!
//! Exact lanes share queue 0 with all other traffic and behave like it. They back off by the
//! fraction of marked packets where switches mark, halve where switches drop, and grow by a packet
//! per RTT. Where the network's RTT is known, the rate keeps a window: it falls as the RTT grows.

use super::{
    Law, LawSettings,
    arithmetic::{doubled, initial_rate, scaled},
    paper,
};
use crate::{
    laws::sample::{EPOCHS, EpochSample},
    units::{PodBool, Rate, Share},
};
use bytemuck::{Pod, Zeroable};

/// The RTT assumed until one is known: that of a busy data center.
const RTT_GUESS_NS: u64 = 10_000_000;
/// The value of `cut` without a recent cut. No epoch has this number.
const NO_CUT: u32 = u32::MAX;

/// Slow start, the congestion average, and the RTT window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Dctcp {
    /// Slow start: no congestion so far.
    starting: PodBool,
    /// The epoch that was open at the last rate cut, while older epochs may still be evaluated;
    /// else [`NO_CUT`].
    cut: u32,
    alpha: Alpha,
    /// The current rate times this is the window; 0 if there is none yet.
    window_ns: u64,
    /// The RTT at the last call of [`Self::same_window`].
    rtt_ns: u64,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self {
            starting: PodBool::TRUE,
            cut: NO_CUT,
            alpha: Alpha::default(),
            window_ns: 0,
            rtt_ns: 0,
        }
    }
}

impl Law for Dctcp {
    /// An initial window per RTT, because other traffic shares the queue.
    fn first_rate(lane: &LawSettings) -> Rate {
        initial_rate(lane.packet_bytes, RTT_GUESS_NS, lane.rate_max)
    }

    fn on_first_rtt(&self, lane: &LawSettings, rate: Rate, rtt_ns: u64) -> Rate {
        if self.window_ns == 0 && self.starting.is_true() && rtt_ns > 0 {
            return rate.max(initial_rate(lane.packet_bytes, rtt_ns, lane.rate_max));
        }
        rate
    }

    fn skip_start(&mut self) {
        self.starting = PodBool::FALSE;
    }

    fn on_epoch(&mut self, lane: &LawSettings, rate: Rate, sample: &EpochSample) -> Rate {
        let loss = sample.count.loss();
        let congestion = loss.max(sample.count.marked());
        self.alpha.observe(congestion);
        if congestion > Share::ZERO {
            self.starting = PodBool::FALSE;
            if self.was_cut_since(sample) {
                return rate;
            }
            self.cut = u32::from(sample.open_epoch);
            return self.alpha.decreased(rate, loss > Share::ZERO);
        }
        if sample.idle {
            return rate;
        }
        if self.starting.is_true() {
            return doubled(rate, sample.delivery_rate(), lane.rate_max);
        }
        increased(lane, rate, sample.rtt_ns, sample.duration_ns)
    }
}

impl Dctcp {
    /// Whether the lane is in slow start: no congestion so far.
    pub(in crate::laws) const fn is_starting(&self) -> bool {
        self.starting.is_true()
    }

    /// The smoothed congestion of the lane: alpha in RFC 8257 §3.3.
    pub(in crate::laws) const fn congestion(&self) -> Share {
        Share::from_q16(self.alpha.q24 >> 8)
    }

    /// Ends slow start at the first mark, with the cut that the evaluation of its epoch would make.
    /// Until that evaluation, a doubling rate would fill any buffer.
    pub(in crate::laws) fn end_start(&mut self, rate: Rate, open_epoch: u16) -> Rate {
        self.starting = PodBool::FALSE;
        self.cut = u32::from(open_epoch);
        self.alpha.decreased(rate, false)
    }

    /// The rate that keeps the window: as many bytes in flight over `rtt_ns` as `rate` had over the
    /// RTT of the last call. As a queue grows, the RTT grows with it, and the lanes in that queue
    /// slow down without a signal. The bounds `rate_min` and `rate_max` limit the rate, but don't
    /// change the window.
    ///
    /// Overflow: see [`scaled`].
    pub(in crate::laws) fn same_window(
        &mut self,
        rate: Rate,
        rtt_ns: u64,
        rate_min: Rate,
        rate_max: Rate,
    ) -> Rate {
        if self.rtt_ns == rtt_ns || rtt_ns == 0 {
            return rate;
        }
        let is_new = core::mem::replace(&mut self.rtt_ns, rtt_ns) == 0;
        let before_ns = core::mem::replace(&mut self.window_ns, rtt_ns);
        if is_new {
            return rate;
        }
        let wanted = scaled(rate.bytes_per_s(), before_ns, rtt_ns);
        let bounded = wanted.min(rate_max.bytes_per_s()).max(rate_min.bytes_per_s());
        if bounded != wanted {
            self.window_ns = scaled(before_ns, rate.bytes_per_s(), bounded).max(1);
        }
        Rate::from_bytes_per_s(bounded)
    }

    /// Whether the rate was cut since packets of this epoch left: one cut per congestion event
    /// (RFC 8257 §3.3: once per window).
    fn was_cut_since(&mut self, sample: &EpochSample) -> bool {
        if self.cut == NO_CUT {
            return false;
        }
        // Epochs are evaluated in order, and at most a ring of them is unevaluated.
        let before = usize::from((self.cut as u16).wrapping_sub(sample.epoch)) < EPOCHS;
        if !before {
            self.cut = NO_CUT;
        }
        before
    }
}

/// g of RFC 8257 §3.3: 1/16, as a shift.
const GAIN_SHIFT: u32 = 4;
/// One in Q24. In Q16, an average with this gain would stop short of zero.
const ONE_Q24: u32 = 1 << 24;

/// The smoothed congestion of a lane: alpha in RFC 8257 §3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
struct Alpha {
    q24: u32,
}

impl Default for Alpha {
    /// One, so that the first mark halves the rate (RFC 8257 §4.1).
    fn default() -> Self {
        Self { q24: ONE_Q24 }
    }
}

impl Alpha {
    /// RFC 8257 §3.3: `alpha <- (1 - g) alpha + g F`, once per epoch.
    ///
    /// `congestion`: F, the greater of the share of packets lost and the share of ACKs marked.
    const fn observe(&mut self, congestion: Share) {
        let f_q24 = congestion.q16() << 8;
        self.q24 = self.q24 - (self.q24 >> GAIN_SHIFT) + (f_q24 >> GAIN_SHIFT);
    }

    /// RFC 8257 §3.3 and §3.5: `R <- R (1 - alpha / 2)` for marks, `R <- R / 2` for losses. A loss
    /// means that a queue was full, not only long.
    ///
    /// Overflow: R * 2^24 is at most 5 * 10^10 * 2^24 = 8.4 * 10^17 at 400 Gbit/s, below 2^60.
    const fn decreased(self, rate: Rate, lost: bool) -> Rate {
        let alpha_q24 = if lost { ONE_Q24 } else { self.q24 };
        let cut = (rate.bytes_per_s() * alpha_q24 as u64) >> 25;
        Rate::from_bytes_per_s(rate.bytes_per_s() - cut)
    }
}

/// Growth without congestion: a packet per RTT (RFC 5681 §3.1) for each RTT of the epoch. It never
/// exceeds Eq. 2's step, because an epoch can be many RTTs and feedback comes only after it.
///
/// Overflow: the number of RTTs is limited to 4,096, which is 2^20 in Q8. Times a rate of 5 * 10^10
/// that is 5.3 * 10^16.
fn increased(lane: &LawSettings, rate: Rate, rtt_ns: u64, duration_ns: u64) -> Rate {
    let &LawSettings { step, rate_max, packet_bytes, .. } = lane;
    let rtt_ns = rtt_ns.max(1);
    let per_rtt = Rate::from_bytes_per_s(u64::from(packet_bytes) * 1_000_000_000 / rtt_ns);
    let rtts_q8 = ((duration_ns.min(1 << 55) << 8) / rtt_ns).min(1 << 20);
    let grown = rate.bytes_per_s() + ((per_rtt.bytes_per_s() * rtts_q8) >> 8);
    Rate::from_bytes_per_s(grown).min(paper::increased(rate, step, rate_max))
}

#[cfg(test)]
mod tests {
    use super::super::{
        LawState,
        testing::{RTT_NS, at, exact, sample},
    };
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // RFC 8257 §3.3 against floating point: alpha within 2^-19, the rounding of the shifts (at
        // most 2 units of Q24 an epoch, sixteen epochs long), and the rate with it.
        #[test]
        fn observe__matches_the_average(
            epochs in proptest::collection::vec(0..=65536u32, 1..300),
            rate in 1_000u64..=Rate::MAX.bytes_per_s(),
        ) {
            let mut alpha = Alpha::default();
            let mut reference = 1.0f64;
            for f in epochs {
                alpha.observe(Share::from_q16(f));
                reference += (f64::from(f) / 65536.0 - reference) / 16.0;
                let error = f64::from(alpha.q24) / f64::from(ONE_Q24) - reference;
                prop_assert!(error.abs() <= 2f64.powi(-19), "{error}");
                let next = alpha.decreased(Rate::from_bytes_per_s(rate), false).bytes_per_s() as f64;
                let expected = rate as f64 * (1.0 - reference / 2.0);
                prop_assert!((next - expected).abs() <= 1.0 + rate as f64 * 2f64.powi(-20));
            }
        }

        // Against floating point: within a thousandth of the growth, the Q8 of the RTTs, and a
        // byte/s.
        #[test]
        fn increased__matches_the_formula(
            rate in 1_000u64..=Rate::MAX.bytes_per_s(),
            max in 1_000u64..=Rate::MAX.bytes_per_s(),
            packet_bytes in 64u32..9_100,
            rtt_ns in 10_000u64..10_000_000_000,
            rtts in 1.0f64..1_000.0,
        ) {
            let rate = rate.min(max);
            let duration_ns = (rtt_ns as f64 * rtts) as u64;
            let rate_max = Rate::from_bytes_per_s(max);
            let lane = LawSettings { rate_max, packet_bytes, ..exact() };
            let next = increased(&lane, Rate::from_bytes_per_s(rate), rtt_ns, duration_ns);
            let per_rtt = f64::from(packet_bytes) * 1e9 / rtt_ns as f64;
            let additive = per_rtt * duration_ns as f64 / rtt_ns as f64;
            let paper = (max - rate) as f64 * f64::from(lane.step.q16()) / 65536.0;
            let expected = additive.min(paper).min((max - rate) as f64);
            let grown = (next.bytes_per_s() - rate) as f64;
            // Rounding takes up to one byte/s per RTT, for every RTT.
            let bound = 2.0 + rtts + additive / 200.0;
            prop_assert!((grown - expected).abs() <= bound, "{grown} {expected}");
        }
    }

    #[test]
    fn decreased__a_loss_halves_and_a_rare_mark_hardly_slows() {
        let rate = Rate::from_bytes_per_s(1_000_000);
        let mut alpha = Alpha::default();
        assert_eq!(alpha.decreased(rate, false).bytes_per_s(), 500_000);
        for _ in 0..100 {
            alpha.observe(Share::ZERO);
        }
        assert!(alpha.decreased(rate, false).bytes_per_s() > 999_000);
        assert_eq!(alpha.decreased(rate, true).bytes_per_s(), 500_000);
    }

    #[test]
    fn on_epoch__starts_with_a_window_and_doubles() {
        let exact = exact();
        let (mut law, first) = (LawState::default(), LawState::first_rate(&exact));
        assert_eq!(first, at(1_500_000), "ten packets in 10 ms");
        let rate = law.on_first_rtt(&exact, first, RTT_NS);
        assert_eq!(rate, at(15_000_000), "ten packets per RTT");
        assert_eq!(law.on_first_rtt(&exact, first, 0), first);
        let rate = at(5_000_000);
        let doubled = law.on_epoch(&exact, rate, &sample(0, rate, 0, 0));
        assert_eq!(doubled, at(10_000_000));
        // The next evaluated epoch was still sent at the old rate, so it doesn't raise the new one.
        assert_eq!(law.on_epoch(&exact, doubled, &sample(1, rate, 0, 0)), doubled);
    }

    #[test]
    fn on_epoch__halves_once_for_a_loss() {
        let exact = exact();
        let mut law = LawState::default();
        let rate = at(20_000_000);
        let cut = law.on_epoch(&exact, rate, &sample(10, rate, 1, 0));
        assert_eq!(cut, at(10_000_000));
        // Epochs 11 and 12 were open before the cut.
        assert_eq!(law.on_epoch(&exact, cut, &sample(11, rate, 4, 0)), cut);
        assert_eq!(law.on_epoch(&exact, cut, &sample(12, rate, 4, 0)), cut);
        assert_eq!(law.on_epoch(&exact, cut, &sample(13, cut, 1, 0)), at(5_000_000));
        // A packet per RTT from then on.
        let slow = at(5_000_000);
        assert_eq!(law.on_epoch(&exact, slow, &sample(16, slow, 0, 0)), at(6_500_000));
    }

    #[test]
    fn on_epoch__backs_off_by_the_share_of_marks() {
        let exact = exact();
        let mut law = LawState::default();
        let rate = at(24_000_000);
        // Sixteen packets an epoch; every epoch one mark, long enough for alpha to settle at 1/16.
        for epoch in 0..400 {
            law.on_epoch(&exact, rate, &sample(epoch, rate, 0, 1));
        }
        law.dctcp.cut = NO_CUT;
        let next = law.on_epoch(&exact, rate, &sample(400, rate, 0, 1));
        let share = next.bytes_per_s() as f64 / rate.bytes_per_s() as f64;
        assert!((share - (1.0 - 1.0 / 32.0)).abs() < 0.001, "{share}");
    }

    proptest! {
        // Against floating point: the bytes in flight stay the same, within the Q16 rounding of the
        // ratio and a byte/s, and the rate never exceeds Rmax.
        #[test]
        fn same_window__keeps_the_bytes_in_flight(
            rate in 100_000u64..=24_000_000,
            before_ns in 1_000u64..100_000_000,
            change in 0.01f64..200.0,
        ) {
            let rate_max = exact().rate_max;
            let mut law = Dctcp::default();
            let same = |law: &mut Dctcp, rate, rtt_ns| {
                law.same_window(rate, rtt_ns, at(1_000), rate_max)
            };
            prop_assert_eq!(same(&mut law, at(rate), before_ns), at(rate));
            let rtt_ns = (before_ns as f64 / change).max(1.0) as u64;
            let next = same(&mut law, at(rate), rtt_ns);
            let ratio = before_ns as f64 / rtt_ns as f64;
            let expected = (rate as f64 * ratio).clamp(1_000.0, rate_max.bytes_per_s() as f64);
            let error = (next.bytes_per_s() as f64 - expected).abs();
            prop_assert!(error <= 1.0 + rate as f64 / 65536.0, "{next:?}, {expected}");
            prop_assert!(next <= rate_max);
            // The first RTT gives the first rate back, less the rounding, even if a bound applied.
            let back = same(&mut law, next, before_ns).bytes_per_s() as f64;
            let lost = 4.0 + rate as f64 * 0.001 + 65_536.0 * change.recip().max(change) * 0.01;
            prop_assert!(back <= rate as f64 + 4.0 && back >= rate as f64 - lost, "{rate} {back}");
        }
    }

    #[test]
    fn end_start__cuts_once_for_the_marks_of_a_round_trip() {
        let exact = exact();
        let mut law = LawState::default();
        assert!(law.dctcp.is_starting());
        let rate = law.dctcp.end_start(at(20_000_000), 5);
        assert_eq!((rate, law.dctcp.is_starting()), (at(10_000_000), false));
        // The epoch in which the marks were seen, and one that left after the cut.
        assert_eq!(law.on_epoch(&exact, rate, &sample(5, rate, 0, 4)), rate);
        assert!(law.on_epoch(&exact, rate, &sample(6, rate, 0, 4)) < rate);
    }
}
