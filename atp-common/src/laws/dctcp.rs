//! The law of exact lanes: DCTCP (RFC 8257), on a rate instead of a window.
//!
//! What can't lose anything shares queue 0 with everybody else's traffic and behaves like it: it
//! backs off by the fraction of marked packets where switches mark, halves where they drop, and grows
//! by a packet per RTT.

use super::rate;
use crate::units::{Rate, Share};
use bytemuck::{Pod, Zeroable};

/// g of RFC 8257 §3.3: 1/16, as a shift.
const GAIN_SHIFT: u32 = 4;
/// Alpha in Q24: in Q16 an average with this gain would stop short of zero.
const ONE_Q24: u32 = 1 << 24;

/// The smoothed congestion of a lane, alpha in RFC 8257 §3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Alpha {
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
    pub const fn observe(&mut self, congestion: Share) {
        let f_q24 = congestion.q16() << 8;
        self.q24 = self.q24 - (self.q24 >> GAIN_SHIFT) + (f_q24 >> GAIN_SHIFT);
    }

    /// RFC 8257 §3.3 and §3.5: `R <- R (1 - alpha / 2)` for marks, `R <- R / 2` for losses, which
    /// say that a queue was full and not only long.
    ///
    /// Overflow: R * 2^24 is at most 5 * 10^10 * 2^24 = 8.4 * 10^17 at 400 Gbit/s, below 2^60.
    pub const fn decreased(self, rate: Rate, lost: bool) -> Rate {
        let alpha_q24 = if lost { ONE_Q24 } else { self.q24 };
        let cut = (rate.bytes_per_s() * alpha_q24 as u64) >> 25;
        Rate::from_bytes_per_s(rate.bytes_per_s() - cut)
    }
}

/// Growth without congestion: a packet per RTT (RFC 5681 §3.1) for each RTT of the epoch, but never
/// more than Eq. 2's step, for an epoch can be many RTTs and all that is known came after it.
///
/// Overflow: a rate of 5 * 10^10 times 2^20 (4,096 RTTs in Q8, where the count is cut off) is 5.3 *
/// 10^16.
pub fn increased(
    rate: Rate,
    step: Share,
    rate_max: Rate,
    packet_bytes: u32,
    rtt_ns: u64,
    duration_ns: u64,
) -> Rate {
    let rtt_ns = rtt_ns.max(1);
    let per_rtt = Rate::from_bytes_per_s(u64::from(packet_bytes) * 1_000_000_000 / rtt_ns);
    let rtts_q8 = ((duration_ns.min(1 << 55) << 8) / rtt_ns).min(1 << 20);
    let grown = rate.bytes_per_s() + ((per_rtt.bytes_per_s() * rtts_q8) >> 8);
    Rate::from_bytes_per_s(grown).min(rate::increased(rate, step, rate_max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // RFC 8257 §3.3 against floating point: alpha within 2^-19, what the shifts cut off (at most
        // 2 units of Q24 an epoch, sixteen epochs long), and the rate with it.
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

        // Against floating point: within a thousandth of the growth, the Q8 of the RTTs, and a byte/s.
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
            let next = increased(
                Rate::from_bytes_per_s(rate), rate::DEFAULT_STEP, Rate::from_bytes_per_s(max),
                packet_bytes, rtt_ns, duration_ns);
            let per_rtt = f64::from(packet_bytes) * 1e9 / rtt_ns as f64;
            let additive = per_rtt * duration_ns as f64 / rtt_ns as f64;
            let paper = (max - rate) as f64 * f64::from(rate::DEFAULT_STEP.q16()) / 65536.0;
            let expected = additive.min(paper).min((max - rate) as f64);
            let grown = (next.bytes_per_s() - rate) as f64;
            // One byte/s that is cut off per RTT counts for every RTT.
            let bound = 2.0 + rtts + additive / 200.0;
            prop_assert!((grown - expected).abs() <= bound, "{grown} {expected}");
        }
    }

    #[test]
    fn decreased__a_loss_halves_and_a_rare_mark_hardly_matters() {
        let rate = Rate::from_bytes_per_s(1_000_000);
        let mut alpha = Alpha::default();
        assert_eq!(alpha.decreased(rate, false).bytes_per_s(), 500_000);
        for _ in 0..100 {
            alpha.observe(Share::ZERO);
        }
        assert!(alpha.decreased(rate, false).bytes_per_s() > 999_000);
        assert_eq!(alpha.decreased(rate, true).bytes_per_s(), 500_000);
    }
}
