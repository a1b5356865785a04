//! Decides how many packets of a lane may leave together, and whether each of them gets an ACK.
//!
//! A burst that is longer than the queue it meets loses its complete tail. A burst of half the
//! queue's depth leaves the other half to other traffic. The limit of a millisecond keeps a slow
//! lane from holding a link for longer than its neighbors' RTTs. See `docs/src/results/laws.md` for
//! the losses of bursts by queue depth.

use super::queue;
use crate::units::Rate;

/// The longest burst, in packets. An IP packet of 64 KiB holds 44 packets of 1,472 bytes, and
/// sender and receiver have room for as many.
pub const PACKETS_MAX: u32 = 44;

/// The longest duration of a burst at its lane's rate.
const DURATION_NS_MAX: u64 = 1_000_000;

/// The packets per millisecond from which on a lane uses PROBEs. One PROBE per millisecond, or per
/// 64 packets, costs less than an ACK for each packet. A slower lane needs every ACK at once.
const NO_ACK_PACKETS_PER_MS: u64 = 32;

/// The number of packets of `packet_bytes` that may leave together from a lane at `rate` in
/// `queue`, whose buffer holds `depth_packets`. Queue 0 has no limit by depth.
///
/// Overflow: 400 Gbit/s carry 50 MB in a millisecond.
pub fn packets(rate: Rate, packet_bytes: u32, queue: u8, depth_packets: u32) -> u32 {
    let packet_bytes = if packet_bytes == 0 { 1 } else { packet_bytes };
    let by_rate = rate.bytes_in(DURATION_NS_MAX) / packet_bytes as u64;
    let by_depth = if queue == queue::EXACT { PACKETS_MAX } else { depth_packets / 2 };
    let n = if by_rate < by_depth as u64 { by_rate as u32 } else { by_depth };
    n.clamp(1, PACKETS_MAX)
}

/// Whether a lane at `rate` sends PROBEs instead of getting an ACK for each packet.
pub fn uses_probes(rate: Rate, packet_bytes: u32) -> bool {
    rate.bytes_in(1_000_000) >= NO_ACK_PACKETS_PER_MS * packet_bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // n <= min(44, rate * 1 ms / packet, max(1, depth / 2)), and at least one.
        #[test]
        fn packets__keeps_to_every_bound(
            rate in 0u64..50_000_000_000,
            packet_bytes in 1u32..9_200,
            queue in 0u8..8,
            depth in 0u32..1_000,
        ) {
            let n = packets(Rate::from_bytes_per_s(rate), packet_bytes, queue, depth);
            prop_assert!((1..=PACKETS_MAX).contains(&n));
            if n > 1 {
                let by_rate = rate as f64 / 1e3 / f64::from(packet_bytes);
                prop_assert!(f64::from(n) <= by_rate * (1.0 + 1e-9));
                prop_assert!(queue == queue::EXACT || n <= depth / 2);
            }
        }
    }

    #[test]
    fn packets__of_the_queues_of_the_default_profile() {
        let gigabit = Rate::from_bytes_per_s(125_000_000);
        let slow = Rate::from_bytes_per_s(2_500_000);
        let of = |rate, queue, depth| packets(rate, 1_474, queue, depth);
        assert_eq!([of(gigabit, 7, 1), of(gigabit, 4, 4), of(gigabit, 1, 7)], [1, 2, 3]);
        assert_eq!((of(gigabit, 0, 0), of(slow, 0, 0)), (44, 1));
    }

    #[test]
    fn uses_probes__on_fast_lanes_only() {
        let at = |mbit: u64| uses_probes(Rate::from_bytes_per_s(mbit * 125_000), 1_474);
        assert_eq!([at(20), at(200), at(400), at(10_000)], [false, false, true, true]);
    }
}
