//! The rate law (NetApprox §4.2, Eq. 2 and 3).

use crate::units::{Rate, Share};

/// m of Eq. 2, Q16: 0.1. From 0.1 to 0.3 works; below 0.03 the lane is up to 1.9 times slower.
pub const DEFAULT_STEP: Share = Share::from_q16(6554);

/// NetApprox §4.2, Eq. 2: `R <- (1 - m) R + m Rmax`, for an epoch whose loss was within its target.
///
/// Overflow: (Rmax - R) * m is at most 5 * 10^10 * 2^16 = 3.3 * 10^15 at 400 Gbit/s, far below 2^63.
pub fn increased(rate: Rate, step: Share, rate_max: Rate) -> Rate {
    let gap = rate_max.bytes_per_s().saturating_sub(rate.bytes_per_s());
    let grown = rate.bytes_per_s() + ((gap * u64::from(step.q16())) >> 16);
    Rate::from_bytes_per_s(grown.min(rate_max.bytes_per_s()))
}

/// NetApprox §4.2, Eq. 3: `R <- R (1 - loss / 2)`, for an epoch that lost more than its target.
///
/// Overflow: as above.
pub fn decreased(rate: Rate, loss: Share) -> Rate {
    let cut = (rate.bytes_per_s() * u64::from(loss.q16())) >> 17;
    Rate::from_bytes_per_s(rate.bytes_per_s() - cut)
}

/// Slow start: twice the rate in an epoch, but no more than twice what arrives (RFC 5348 §4.3), which
/// keeps it to one doubling per round trip however many epochs are on their way. Never down.
///
/// Overflow: twice 5 * 10^10 at 400 Gbit/s.
pub fn doubled(rate: Rate, delivered: Rate, rate_max: Rate) -> Rate {
    let doubled = 2 * rate.bytes_per_s().min(delivered.bytes_per_s());
    Rate::from_bytes_per_s(doubled).max(rate).min(rate_max)
}

/// The least rate of a lane: one packet per `max(RTT, epoch)` (NetApprox §4.2, "Preventing
/// Starvation"). The epoch is part of it because one packet per RTT overloads a port by itself when
/// senders outnumber the packets that fit in one bandwidth-delay product.
pub fn floor(packet_bytes: u32, rtt_ns: u64, epoch_ns: u64) -> Rate {
    let interval_ns = rtt_ns.max(epoch_ns).max(1);
    Rate::from_bytes_per_s(u64::from(packet_bytes) * 1_000_000_000 / interval_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates() -> impl Strategy<Value = u64> {
        prop_oneof![1_000u64..1_000_000, 1_000_000..=Rate::MAX.bytes_per_s()]
    }

    proptest! {
        // NetApprox §4.2, Eq. 2, against floating point: within one byte/s per operation.
        #[test]
        fn increased__matches_the_equation(rate in rates(), max in rates(), step in 0..=65536u32) {
            let (rate, rate_max) = (rate.min(max), max);
            let m = f64::from(step) / 65536.0;
            let expected = (1.0 - m) * rate as f64 + m * rate_max as f64;
            let next = increased(
                Rate::from_bytes_per_s(rate), Share::from_q16(step), Rate::from_bytes_per_s(rate_max));
            prop_assert!((next.bytes_per_s() as f64 - expected).abs() <= 1.0 + expected * 1e-12);
            prop_assert!(next.bytes_per_s() >= rate && next.bytes_per_s() <= rate_max);
        }

        // NetApprox §4.2, Eq. 3, against floating point: within one byte/s.
        #[test]
        fn decreased__matches_the_equation(rate in rates(), loss in 0..=65536u32) {
            let expected = rate as f64 * (1.0 - f64::from(loss) / 65536.0 / 2.0);
            let next = decreased(Rate::from_bytes_per_s(rate), Share::from_q16(loss));
            prop_assert!((next.bytes_per_s() as f64 - expected).abs() <= 1.0 + expected * 1e-12);
            prop_assert!(next.bytes_per_s() >= rate / 2);
        }
    }

    #[test]
    fn doubled__no_more_than_twice_what_arrives() {
        let at = Rate::from_bytes_per_s;
        assert_eq!(doubled(at(1_000), at(1_000), at(9_000)), at(2_000));
        assert_eq!(doubled(at(1_000), at(700), at(9_000)), at(1_400));
        assert_eq!(doubled(at(1_000), at(0), at(9_000)), at(1_000));
        assert_eq!(doubled(Rate::MAX, Rate::MAX, at(9_000)), at(9_000));
    }

    #[test]
    fn floor__is_one_packet_per_longer_interval() {
        assert_eq!(floor(1500, 200_000, 10_000_000), Rate::from_bytes_per_s(150_000));
        assert_eq!(floor(1500, 20_000_000, 10_000_000), Rate::from_bytes_per_s(75_000));
    }

    #[test]
    fn increased__never_leaves_a_lane_above_a_lowered_maximum() {
        let next = increased(Rate::MAX, DEFAULT_STEP, Rate::from_bytes_per_s(1000));
        assert_eq!(next, Rate::from_bytes_per_s(1000));
    }
}
