//! The throughput equation of TFRC (RFC 5348 §3.1) and its inverse.

use super::loss_history::INTERVAL_MAX;
use crate::units::Rate;

/// The greatest `f` in `X = s / (R f(p))` (RFC 5348 §3.1 with `b = 1` and `t_RTO = 4 R`). An `f`
/// above two asks for less than a packet in two RTTs, which is below any lane's floor.
const F_MAX_Q31: u64 = 2 << 31;
/// RTTs above two seconds count as two seconds.
const RTT_NS_MAX: u64 = 1 << 31;

/// RFC 5348 §3.1, with `p` one over the interval:
/// `X = s / (R (sqrt(2p/3) + 12 sqrt(3p/8) p (1 + 32 p^2)))`.
///
/// Overflow: f is at most 33 * 12 * 0.62 in Q31, below 2^40; capped at 2^32 it is multiplied by an
/// RTT below 2^31. A packet of 2^16 bytes times 10^9 in Q8 stays below 2^54. Nothing grows with the
/// rate.
pub(super) fn rate_at(packet_bytes: u32, rtt_ns: u64, interval_q8: u64) -> Rate {
    // With `max` last, and not `clamp`, the eBPF compiler sees that the interval is not zero.
    let interval_q8 = interval_q8.min(u64::from(INTERVAL_MAX) << 8).max(1 << 8);
    // Q62 under the roots: 2^63/3 and 3 * 2^59 over the interval. The shift is for an interval in
    // Q8.
    let first_q31 = root((((1 << 63) / 3) / interval_q8) << 8);
    let second_q31 = root(((3 << 59) / interval_q8) << 8);
    let p_q31 = (1 << 39) / interval_q8;
    let p_squared_q31 = (p_q31 * p_q31) >> 31;
    // 1 + 32 p^2 in Q26: 32 p^2 in Q26 is the same number as p^2 in Q31.
    let grown_q26 = (1 << 26) + p_squared_q31;
    let timeouts_q31 = 12 * ((((second_q31 * p_q31) >> 31) * grown_q26) >> 26);
    let f_q31 = (first_q31 + timeouts_q31).min(F_MAX_Q31);
    // The time between packets, in 1/256 ns. At 400 Gbit/s it is 30 ns.
    let interval_q8_ns = (rtt_ns.min(RTT_NS_MAX) * f_q31) >> 23;
    Rate::from_bytes_per_s(u64::from(packet_bytes) * (1_000_000_000 << 8) / interval_q8_ns.max(1))
}

/// The loss interval at which [`rate_at`] gives `rate`: the assumed past at the first loss
/// (RFC 5348 §6.3.1). With W the packets per RTT it is `2/3 W^2 + 18 W / (W + 2.5)`. The second
/// part is fitted to the equation's timeouts.
///
/// Overflow: W in Q8 is limited to 2^24, so its square stays below 2^48.
pub(super) fn interval_at(rate: Rate, packet_bytes: u32, rtt_ns: u64) -> u32 {
    // At most 5 * 10^10 * 2^31 / 10^3.
    let bytes = rate.bytes_per_s() * (rtt_ns.min(RTT_NS_MAX) / 1_000) / 1_000_000;
    let window_q8 = ((bytes << 8) / u64::from(packet_bytes.max(1))).min(1 << 24);
    let square_q16 = window_q8 * window_q8 * 2 / 3;
    let timeouts_q16 = ((18 * window_q8) << 16) / (window_q8 + 640);
    let rounded = (square_q16 + timeouts_q16 + (1 << 15)) >> 16;
    rounded.clamp(1, u64::from(INTERVAL_MAX)) as u32
}

/// The integer part of the square root of a number below 2^63, by Newton's method from a power of
/// two, at most twice the root. Each step squares the relative error: after five it is below 2^-49,
/// and a root has 32 bits. (`u64::isqrt` needs 128-bit products, which eBPF lacks.)
fn root(square: u64) -> u64 {
    const STEPS: u32 = 5;
    let bits = u64::BITS - square.leading_zeros();
    let mut root = 1u64 << bits.div_ceil(2);
    for _ in 0..STEPS {
        // The divisor is odd, so it is never zero. The comparison below corrects the error.
        root = (root + square / (root | 1)) / 2;
    }
    if root * root > square {
        root - 1
    } else if (root + 1) * (root + 1) <= square {
        root + 1
    } else {
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 5348 §3.1, packets per RTT.
    fn window(p: f64) -> f64 {
        let f = (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
        1.0 / f.min(2.0)
    }

    proptest! {
        #[test]
        fn root__is_the_integer_part(any: u64, shift in 1u32..64, exact in 1u64..3_000_000_000) {
            for square in [any >> shift, exact * exact - 1, exact * exact, exact * exact + 1] {
                prop_assert_eq!(root(square), square.isqrt());
            }
        }

        // RFC 5348 §3.1 against floating point: within 0.1 % and a byte/s, up to intervals of 10^7
        // packets and 400 Gbit/s.
        #[test]
        fn rate_at__matches_the_equation(
            interval in 1.0f64..1e7,
            rtt_ns in 10_000u64..2_000_000_000,
            packet_bytes in 64u32..9_100,
        ) {
            let interval_q8 = (interval * 256.0) as u64;
            let rate = rate_at(packet_bytes, rtt_ns, interval_q8).bytes_per_s() as f64;
            let p = 256.0 / interval_q8 as f64;
            let expected = f64::from(packet_bytes) * 1e9 / rtt_ns as f64 * window(p);
            let expected = expected.min(Rate::MAX.bytes_per_s() as f64);
            prop_assert!((rate - expected).abs() <= 1.0 + expected * 0.001, "{rate} {expected}");
        }

        // The inverse of RFC 5348 §3.1: the equation gives the rate back within 8 %, from three
        // packets per RTT on.
        #[test]
        fn interval_at__inverts_the_equation(window in 3.0f64..10_000.0, rtt_ns in 100_000u64..1_000_000_000) {
            let packet_bytes = 1_500;
            let bytes_per_s = window * f64::from(packet_bytes) * 1e9 / rtt_ns as f64;
            prop_assume!(bytes_per_s < Rate::MAX.bytes_per_s() as f64);
            let rate = Rate::from_bytes_per_s(bytes_per_s as u64);
            let interval = interval_at(rate, packet_bytes, rtt_ns);
            let back = rate_at(packet_bytes, rtt_ns, u64::from(interval) << 8).bytes_per_s() as f64;
            prop_assert!((back / bytes_per_s - 1.0).abs() < 0.08, "{window}: {interval}, {back} {bytes_per_s}");
        }
    }
}
