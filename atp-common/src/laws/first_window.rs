//! A sender's first window: one and a half bandwidth-delay products, from the RTT of earlier jobs.
//!
//! The RTT of an earlier job contains queueing. The minimum over some time contains the least of
//! it. The minimum of long ago may be that of another route.
//!
//! The minimum is that of a short packet on an idle path. With one bandwidth-delay product of it,
//! senders on a path with some traffic wait for their first ACK.

use super::rtt::Rtt;
use crate::units::Rate;

/// The least first window: one packet alone can't show that a later one overtook it.
pub const PACKETS_MIN: u32 = 2;
/// The minimum covers one to two times this, as long as BBR's (10 s).
const PERIOD_NS: u64 = 10_000_000_000;

/// The least packets in flight of a sender that awaits advice: a queue of the profile `default`
/// holds those of six lanes.
pub const AWAITING_PACKETS_MIN: u32 = 16;
/// Milliseconds of a second.
const AWAITING_PER_S: u64 = 1_000;

/// Longer RTTs count as this one: about 134 ms.
const RTT_NS_MAX: u64 = 1 << 27;

/// The packets of a first window: as many of `packet_bytes` as `line` sends in one and a half times
/// `rtt_min_ns`, but from [`PACKETS_MIN`] to `packets_max`. `packets_max` if no RTT is known (0).
///
/// Overflow: a rate of 5 * 10^10 times 1.5 * 2^27 is below 2^64.
pub const fn packets(packets_max: u32, line: Rate, packet_bytes: u32, rtt_min_ns: u64) -> u32 {
    if rtt_min_ns == 0 || packet_bytes == 0 {
        return packets_max;
    }
    let rtt_ns = if rtt_min_ns > RTT_NS_MAX { RTT_NS_MAX } else { rtt_min_ns };
    let bytes = line.bytes_per_s() * (rtt_ns + rtt_ns / 2) / 1_000_000_000;
    let packets = bytes.div_ceil(packet_bytes as u64);
    let least = if packets_max < PACKETS_MIN { packets_max } else { PACKETS_MIN };
    if packets >= packets_max as u64 {
        packets_max
    } else if packets <= least as u64 {
        least
    } else {
        packets as u32
    }
}

/// The most packets in flight of a sender that was answered and awaits its first advice: as many of
/// `packet_bytes` as `line` sends in a millisecond, and 16 at least. A sender of a fast lane asks
/// for an ACK about once in that time, and a busy host reads them no faster.
///
/// Overflow: a rate of 5 * 10^10.
pub const fn awaiting_packets(line: Rate, packet_bytes: u32) -> u32 {
    let bytes = line.bytes_per_s() / AWAITING_PER_S;
    let packets = bytes / if packet_bytes == 0 { 1 } else { packet_bytes } as u64;
    if packets < AWAITING_PACKETS_MIN as u64 { AWAITING_PACKETS_MIN } else { packets as u32 }
}

/// The RTTs that earlier jobs measured on the path to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlierRtt {
    last: Rtt,
    /// The minimum of the current period, and of the one before; 0 if nothing was measured.
    minima_ns: [u64; 2],
    /// The number of the current period.
    period: u64,
}

impl EarlierRtt {
    /// Takes in the current estimate of a job whose newest sample is `sample_ns`.
    pub fn note(&mut self, now_ns: u64, rtt: Rtt, sample_ns: u64) {
        self.turn(now_ns);
        self.last = rtt;
        self.minima_ns[0] = least_known([self.minima_ns[0], sample_ns]);
    }

    /// The last estimate, for timeouts.
    pub const fn last(&self) -> Rtt {
        self.last
    }

    /// The minimum of the current period and the one before, nanoseconds; 0 if nothing was
    /// measured in them.
    pub fn min_ns(&mut self, now_ns: u64) -> u64 {
        self.turn(now_ns);
        least_known(self.minima_ns)
    }

    fn turn(&mut self, now_ns: u64) {
        let period = now_ns / PERIOD_NS;
        if period != self.period {
            let before_ns = if period == self.period + 1 { self.minima_ns[0] } else { 0 };
            (self.minima_ns, self.period) = ([0, before_ns], period);
        }
    }
}

fn least_known(ns: [u64; 2]) -> u64 {
    ns.into_iter().filter(|ns| *ns > 0).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: Rate = Rate::from_bytes_per_s(5_000_000_000);

    proptest! {
        #[test]
        fn packets__is_one_and_a_half_bandwidth_delay_products_within_bounds(
            packets_max in 1u32..10_000,
            line in 1_000_000u64..50_000_000_000,
            packet_bytes in 74u32..9_014,
            rtt_ns in 1u64..130_000_000,
        ) {
            let found = packets(packets_max, Rate::from_bytes_per_s(line), packet_bytes, rtt_ns);
            let product = 1.5 * line as f64 * rtt_ns as f64 / 1e9 / f64::from(packet_bytes);
            let bounded = product.clamp(f64::from(packets_max.min(2)), f64::from(packets_max));
            prop_assert!((f64::from(found) - bounded).abs() <= 1.0 + product * 1e-6, "{found} {product}");
            prop_assert!(found >= 1 && found <= packets_max);
        }

        // The minimum of the last period at least, and of the last two at most.
        #[test]
        fn min_ns__is_of_one_to_two_periods(
            steps in proptest::collection::vec((0u64..8_000_000_000, 1u64..100_000), 1..60),
        ) {
            let (mut earlier, mut now_ns, mut samples) = (EarlierRtt::default(), 0, vec![]);
            for (gap_ns, sample_ns) in steps {
                now_ns += gap_ns;
                earlier.note(now_ns, Rtt::default(), sample_ns);
                samples.push((now_ns, sample_ns));
                let least_since = |since_ns: u64| {
                    let recent = samples.iter().filter(|(at_ns, _)| *at_ns >= since_ns);
                    recent.map(|(_, sample_ns)| *sample_ns).min().unwrap()
                };
                let found = earlier.min_ns(now_ns);
                prop_assert!(found <= least_since(now_ns.saturating_sub(PERIOD_NS - 1)));
                prop_assert!(found >= least_since(now_ns.saturating_sub(2 * PERIOD_NS)));
            }
        }
    }

    #[test]
    fn packets__without_an_rtt_is_the_most() {
        assert_eq!(packets(16, LINE, 1_500, 0), 16);
        assert_eq!(packets(16, LINE, 1_500, 1), 2);
        assert_eq!(packets(16, LINE, 1_500, 2_400), 12);
        assert_eq!(packets(16, LINE, 1_500, 2_402), 13);
        assert_eq!(packets(16, LINE, 1_500, 1_000_000), 16);
        assert_eq!(packets(1, LINE, 1_500, 1), 1);
    }

    #[test]
    fn min_ns__forgets_what_is_old() {
        let mut earlier = EarlierRtt::default();
        assert_eq!(earlier.min_ns(0), 0);
        earlier.note(1, Rtt::default(), 700);
        assert_eq!(earlier.min_ns(2 * PERIOD_NS - 1), 700);
        assert_eq!(earlier.min_ns(2 * PERIOD_NS), 0);
    }
}
