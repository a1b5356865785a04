//! Uneven gaps between packets.
//!
//! Lanes at the same advised rate stay in step: their packets meet in a queue of a few packets
//! again and again. With uneven gaps they don't.

use crate::units::Rate;

/// The most that a gap is longer or shorter than the rate says, Q16: 0.3.
const JITTER_Q16: u64 = 19_661;
/// Faster lanes, of which few fit a port, have even gaps.
const RATE_MAX_SHARE: u64 = 8;

/// The bytes that a packet of `bytes` counts for in the pacing of an advised lane. Their mean over
/// `numbers`, which may be any of a packet's that no other packet has, is `bytes`.
#[inline(always)]
pub const fn jittered_bytes(bytes: u32, rate: Rate, rate_max: Rate, number: u32) -> u32 {
    if rate.bytes_per_s() >= rate_max.bytes_per_s() / RATE_MAX_SHARE {
        return bytes;
    }
    // 0 to 2^17 - 1 times 0.3, around 0.7: 0.7 to 1.3 in Q16.
    let random = (hash(number) >> 15) as u64;
    let factor_q16 = (1 << 16) - JITTER_Q16 + ((random * JITTER_Q16) >> 16);
    ((bytes as u64 * factor_q16) >> 16) as u32
}

/// The finalizer of MurmurHash3.
const fn hash(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jittered_bytes__keep_the_rate_on_average() {
        let at = |number| jittered_bytes(1_474, Rate::from_bytes_per_s(9), Rate::MAX, number);
        let all: Vec<u32> = (0..10_000).map(at).collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        assert!((1_031..1_040).contains(least) && (1_908..=1_916).contains(most), "{least} {most}");
        let mean = all.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / 10_000.0;
        assert!((mean - 1_474.0).abs() < 10.0, "{mean}");
        let next = all.windows(2).map(|pair| f64::from(pair[0].abs_diff(pair[1]))).sum::<f64>();
        assert!((next / 9_999.0 - 1_474.0 * 0.2).abs() < 10.0, "neighbors depend on each other");
    }

    #[test]
    fn jittered_bytes__are_even_at_an_eighth_of_the_line() {
        let rate_max = Rate::from_bytes_per_s(800);
        let at = |rate, number| jittered_bytes(999, Rate::from_bytes_per_s(rate), rate_max, number);
        assert!((0..100).all(|number| at(100, number) == 999));
        assert!((0..100).any(|number| at(99, number) != 999));
    }
}
