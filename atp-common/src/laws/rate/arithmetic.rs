//! Arithmetic that several laws share: slow start, initial window, floor.

use crate::units::Rate;

/// The initial window, packets (RFC 6928).
const INITIAL_WINDOW: u32 = 10;

/// Slow start doubles the rate in an epoch, but not beyond twice the delivery rate (RFC 5348 §4.3).
/// That bound allows one doubling per RTT for any number of epochs in flight. The rate never falls.
///
/// Overflow: twice 5 * 10^10 at 400 Gbit/s.
pub(super) fn doubled(rate: Rate, delivery_rate: Rate, rate_max: Rate) -> Rate {
    let doubled = 2 * rate.bytes_per_s().min(delivery_rate.bytes_per_s());
    Rate::from_bytes_per_s(doubled).max(rate).min(rate_max)
}

/// The initial window over `rtt_ns`, at most Rmax.
pub(super) fn initial_rate(packet_bytes: u32, rtt_ns: u64, rate_max: Rate) -> Rate {
    floor(INITIAL_WINDOW * packet_bytes, rtt_ns, 0).min(rate_max)
}

/// The least rate of a lane: one packet per `max(RTT, epoch)` (NetApprox §4.2, "Preventing
/// Starvation"). The epoch is part of it because one packet per RTT overloads a port by itself when
/// senders outnumber the packets of one bandwidth-delay product.
pub fn floor(packet_bytes: u32, rtt_ns: u64, epoch_ns: u64) -> Rate {
    let interval_ns = rtt_ns.max(epoch_ns).max(1);
    Rate::from_bytes_per_s(u64::from(packet_bytes) * 1_000_000_000 / interval_ns)
}

/// `value * up / down`, rounded down.
///
/// Overflow: `value` and `up` are limited to 2^36, which is more than 400 Gbit/s in bytes/s and
/// more than a minute in ns. The ratio in Q16 is limited to 2^26.
pub(super) fn scaled(value: u64, up: u64, down: u64) -> u64 {
    let ratio_q16 = ((up.min(1 << 36) << 16) / down.max(1)).min(1 << 26);
    (value.min(1 << 36) * ratio_q16) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled__no_more_than_twice_the_delivery_rate() {
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
}
