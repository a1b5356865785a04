//! Yields to exact traffic in a queue that all traffic shares, without help from switches: few
//! packets in flight, and a pause in each second.
//!
//! A lane with more packets in flight than its rate needs on an idle path has filled a queue, and
//! exact packets wait in it. With exactly as many, every packet that waits holds the next one back,
//! so a queue of others slows the lane down within one RTT.
//!
//! The RTT of an idle path is the least of the current and the previous period ([`PathDelay`]).
//! Lanes that fill the line together would learn their own queue as part of it. So all lanes of all
//! hosts slow down at the same time, once in a second: their queue drains, and each learns the
//! path's RTT again.
//! Hosts whose clocks differ by more than a few milliseconds drain at different times.

use super::{path_delay::PathDelay, rtt::Rtt};
use crate::units::Rate;

/// The time between two drains: shorter than a period of the least RTT, so each of these has one.
const DRAIN_INTERVAL_NS: u64 = 1_000_000_000;
const _: () = assert!(DRAIN_INTERVAL_NS < PathDelay::PERIOD_NS);
/// The longest time between two looks at the clock of a controller whose lanes drain.
pub const TICK_NS_MAX: u64 = 2_000_000;
/// A drain lasts as long as two such ticks, and some RTTs.
const DRAIN_NS: u64 = 4_000_000;
const DRAIN_RTTS: u64 = 2;
/// The part of the rate, and with it of the window, that a drain leaves.
const DRAIN_DIVISOR: u64 = 4;
/// An interrupt delays ACKs by as much.
const OVERDUE_NS_MIN: u64 = 250_000;
/// Longer RTTs are not multiplied exactly. A rate of 5 * 10^10 times 2^28 is below 2^64.
const EXACT_NS_MAX: u64 = 1 << 28;
/// The mean length of packets takes one part in sixteen of each packet's.
const GAIN_SHIFT: u32 = 4;
/// Longer drains would leave too little of a second.
const DRAIN_NS_MAX: u64 = DRAIN_INTERVAL_NS / 4;

/// The window of a lane: its most packets in flight, those in its host's queues too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The mean length of the lane's packets, bytes on the wire in Q8.
    packet_bytes_q8: u32,
}

impl Window {
    /// The window of a lane that has sent nothing. `packet_bytes`: of a full packet.
    pub const fn new(packet_bytes: u32) -> Self {
        Self { packet_bytes_q8: packet_bytes << 8 }
    }

    /// Notes a packet of `wire_bytes` that leaves. A lane of short packets needs more of them in
    /// flight for the same rate.
    pub const fn on_sent(&mut self, wire_bytes: u32) {
        let (mean_q8, packet_q8) = (self.packet_bytes_q8, wire_bytes << 8);
        self.packet_bytes_q8 = mean_q8 - (mean_q8 >> GAIN_SHIFT) + (packet_q8 >> GAIN_SHIFT);
    }

    /// The packets that `rate` sends in `path_ns` and until its ACK is read, one at least.
    /// `rate`: that of a drain while there is one. `path_ns`: the path's own time
    /// ([`PathDelay::covered_ns`]). `read_late_ns`: the mean time from the arrival of an ACK to its
    /// reading. 0: no limit, because no RTT is known yet (`path_ns` is 0).
    pub const fn packets(&self, rate: Rate, path_ns: u64, read_late_ns: u64) -> u32 {
        if path_ns == 0 {
            return 0;
        }
        // ACKs that are read together have waited for between nothing and twice the mean.
        let ns = path_ns.saturating_add(read_late_ns).saturating_add(read_late_ns / 2);
        let bytes = match ns < EXACT_NS_MAX {
            true => rate.bytes_per_s() * ns / 1_000_000_000,
            false => rate.bytes_in(ns),
        };
        let packet_bytes = self.packet_bytes_q8 >> 8;
        let packets = bytes.div_ceil(if packet_bytes == 0 { 1 } else { packet_bytes } as u64);
        if packets == 0 {
            1
        } else if packets > u32::MAX as u64 {
            u32::MAX
        } else {
            packets as u32
        }
    }
}

/// How long after its departure a packet without an ACK takes no room in the window any more,
/// nanoseconds. ACKs that a queue of others delays lengthen it, as they lengthen `rtt`.
pub const fn overdue_ns(rtt: Rtt, read_late_ns: u64) -> u64 {
    let late_ns = rtt.late_ns();
    let late_ns = if late_ns < OVERDUE_NS_MIN { OVERDUE_NS_MIN } else { late_ns };
    late_ns.saturating_add(2 * read_late_ns)
}

/// Whether lanes drain the queue at `shared_ns` of a clock that hosts share, as CLOCK_REALTIME.
/// `idle_ns`: the RTT of the idle path.
pub const fn drains(shared_ns: u64, idle_ns: u64) -> bool {
    let ns = DRAIN_NS.saturating_add(idle_ns.saturating_mul(DRAIN_RTTS));
    shared_ns % DRAIN_INTERVAL_NS < if ns < DRAIN_NS_MAX { ns } else { DRAIN_NS_MAX }
}

/// The rate of a lane that drains.
pub const fn drained(rate: Rate) -> Rate {
    Rate::from_bytes_per_s(rate.bytes_per_s() / DRAIN_DIVISOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    proptest! {
        // Of any rate and RTT: the product with the RTT, rounded up, and one packet at least.
        #[test]
        fn packets__is_the_rate_s_product(
            bytes_per_s in 0u64..50_000_000_000,
            base_ns in 1u64..10_000_000_000,
            read_late_ns in 0u64..10_000_000,
            packet_bytes in 60u32..9_100,
        ) {
            let rate = Rate::from_bytes_per_s(bytes_per_s);
            let of = |late_ns| Window::new(packet_bytes).packets(rate, base_ns, late_ns);
            let expected = |late_ns: u64| {
                let ns = base_ns as f64 + 1.5 * late_ns as f64;
                (bytes_per_s as f64 * ns / 1e9 / f64::from(packet_bytes)).clamp(1.0, u32::MAX.into())
            };
            for late_ns in [0, read_late_ns] {
                let (found, expected) = (f64::from(of(late_ns)), expected(late_ns));
                let rounding = 1.0 + expected * 1e-4;
                prop_assert!((found - expected).abs() <= rounding, "{found} {expected}");
            }
        }
    }

    #[test]
    fn packets__has_no_limit_without_an_rtt() {
        assert_eq!(Window::new(1_500).packets(Rate::MAX, 0, MS), 0);
        assert_eq!(Window::new(0).packets(Rate::MAX, u64::MAX, u64::MAX), u32::MAX);
    }

    #[test]
    fn packets__of_half_the_length_are_twice_as_many() {
        let rate = Rate::from_bytes_per_s(150_000_000);
        let mut window = Window::new(1_500);
        assert_eq!(window.packets(rate, MS, 0), 100);
        (0..200).for_each(|_| window.on_sent(750));
        assert!(window.packets(rate, MS, 0).abs_diff(200) <= 1, "{window:?}");
        // Long and short packets in turn count as their mean.
        (0..200).for_each(|packet| window.on_sent(if packet % 2 == 0 { 1_500 } else { 100 }));
        assert!(window.packets(rate, MS, 0).abs_diff(188) <= 8, "{window:?}");
    }

    #[test]
    fn overdue_ns__is_longer_than_most_rtts() {
        let rtt = |ns| (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(ns));
        assert_eq!(overdue_ns(rtt(MS / 50), 0), OVERDUE_NS_MIN);
        assert!((20 * MS..21 * MS).contains(&overdue_ns(rtt(20 * MS), 0)));
        assert_eq!(overdue_ns(rtt(MS / 50), MS), OVERDUE_NS_MIN + 2 * MS);
        // RTTs that differ much.
        let rtt = (0..40).fold(Rtt::default(), |rtt, n| rtt.observe(MS + (n % 2) * MS));
        assert!(overdue_ns(rtt, 0) > 2 * MS);
    }

    #[test]
    fn drains__at_each_full_second() {
        let base_ns = MS;
        let is_draining = |ms: u64| drains(7_000 * MS + ms * MS, base_ns);
        assert!((0..6).all(is_draining) && !(6..1_000).any(is_draining));
        // A path of any length leaves three quarters of a second.
        assert!(!drains(250 * MS, u64::MAX) && drains(249 * MS, u64::MAX));
        assert_eq!(drained(Rate::from_bytes_per_s(1_000)).bytes_per_s(), 250);
    }
}
