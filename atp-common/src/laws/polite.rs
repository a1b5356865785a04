//! A TCP flow's share, for networks without priority queues.
//!
//! In one queue for all, a lane that sends until it loses its slack takes what others need. Here its
//! rate is what a TCP would have at its loss and RTT: the throughput equation of TFRC (RFC 5348
//! §3.1) over an average of loss intervals (§5.4). The slack is spent on not sending again.

use crate::units::{PodBool, Rate};
use bytemuck::{Pod, Zeroable};

/// How many loss intervals are remembered.
const INTERVALS: usize = 8;
/// RFC 5348 §5.4: weights of the newest to the oldest, here times five.
const WEIGHTS: [u64; INTERVALS] = [5, 5, 5, 5, 4, 3, 2, 1];
/// RFC 5348 §3.1 with `b = 1` and `t_RTO = 4 R`: `X = s / (R f(p))`. An `f` above two asks for less
/// than a packet in two RTTs, which is below any lane's floor.
const F_MAX_Q31: u64 = 2 << 31;
/// Longer round trips than two seconds are taken for two seconds.
const RTT_NS_MAX: u64 = 1 << 31;
/// A longer interval, in packets, makes no difference to any rate that there is.
const INTERVAL_MAX: u32 = 1 << 30;

/// Packets between loss events: those closed by one, newest first, and what came since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LossHistory {
    open: u32,
    closed: [u32; INTERVALS],
    known: u32,
    /// The epoch before had a loss event, whose RTT may reach into this one.
    unfinished: PodBool,
}

impl LossHistory {
    /// Whether nothing was ever lost.
    pub const fn is_clean(&self) -> bool {
        self.known == 0
    }

    /// Takes in an epoch of `packets` over `rtts` round trips (at least one), of which `lost` were lost
    /// or marked.
    ///
    /// All that is lost within one RTT of a first loss is one event (RFC 5348 §5.2). Where in the epoch
    /// it was isn't known: an epoch of several RTTs is taken to have had one event in each, unless fewer
    /// packets were lost; one of a single RTT that follows on a loss belongs to that event. Without
    /// this nearly every overflow of a queue counted twice, and a lane got 0.4 of a fair share beside
    /// CUBIC.
    pub fn record(&mut self, packets: u32, lost: u64, rtts: u64) {
        let events = lost.min(rtts).min(INTERVALS as u64) as u32;
        let goes_on = self.unfinished.is_yes() && rtts == 1;
        self.unfinished = (events > 0 && !goes_on).into();
        let Some(each) = packets.checked_div(events).filter(|_| !goes_on) else {
            self.open = self.open.saturating_add(packets).min(INTERVAL_MAX);
            return;
        };
        self.close(events, self.open.saturating_add(each), each);
        self.open = 0;
    }

    /// Begins the history at the first loss with an interval that stands for the past
    /// (RFC 5348 §6.3.1).
    pub fn begin(&mut self, interval: u32) {
        self.close(1, interval, interval);
        self.unfinished = PodBool::YES;
    }

    /// Puts so many intervals before the known ones: of `oldest` packets the first, of `others` those
    /// after it. In one pass: the programs' verifier goes every way that there is.
    fn close(&mut self, events: u32, oldest: u32, others: u32) {
        let events = events as usize;
        for at in (0..INTERVALS).rev() {
            self.closed[at] = match at + 1 {
                after if after > events => self.closed[(at - events) % INTERVALS],
                after if after == events => oldest.clamp(1, INTERVAL_MAX),
                _ => others.clamp(1, INTERVAL_MAX),
            };
        }
        self.known = (self.known + events as u32).min(INTERVALS as u32);
    }

    /// RFC 5348 §5.4: the weighted mean of the intervals, with the open one if that makes it longer;
    /// Q8 packets.
    ///
    /// Overflow: eight times 5 * 2^30 in Q8 stays below 2^44.
    pub fn mean_interval_q8(&self) -> u64 {
        let known = self.known as usize;
        let (mut with_open, mut without, mut weights) = (0, 0, 0);
        let mut newer = self.open;
        for ((&weight, &interval), _) in WEIGHTS.iter().zip(&self.closed).zip(0..known) {
            with_open += weight * u64::from(newer);
            without += weight * u64::from(interval);
            weights += weight;
            newer = interval;
        }
        (without.max(with_open) << 8).checked_div(weights).unwrap_or(u64::from(INTERVAL_MAX) << 8)
    }
}

/// RFC 5348 §3.1, `p` being one over the interval:
/// `X = s / (R (sqrt(2p/3) + 12 sqrt(3p/8) p (1 + 32 p^2)))`.
///
/// Overflow: f is at most 33 * 12 * 0.62 in Q31, below 2^40; capped at 2^32 it is multiplied by an RTT
/// below 2^31. A packet of 2^16 bytes times 10^9 in Q8 stays below 2^54. Nothing grows with the rate.
pub fn rate_at(packet_bytes: u32, rtt_ns: u64, interval_q8: u64) -> Rate {
    // In this order, and not `clamp`: the compiler then sees, also for eBPF, that it is not zero.
    let interval_q8 = interval_q8.min(u64::from(INTERVAL_MAX) << 8).max(1 << 8);
    // Q62 under the roots: 2^63/3 and 3 * 2^59 by Q0 intervals, so by Q8 ones shifted once more.
    let first_q31 = root((((1 << 63) / 3) / interval_q8) << 8);
    let second_q31 = root(((3 << 59) / interval_q8) << 8);
    let p_q31 = (1 << 39) / interval_q8;
    let p_squared_q31 = (p_q31 * p_q31) >> 31;
    // 1 + 32 p^2 in Q26: 32 of Q31 are 1 of Q26.
    let grown_q26 = (1 << 26) + p_squared_q31;
    let timeouts_q31 = 12 * ((((second_q31 * p_q31) >> 31) * grown_q26) >> 26);
    let f_q31 = (first_q31 + timeouts_q31).min(F_MAX_Q31);
    // Between packets, in 1/256 ns: at 400 Gbit/s that is 30 ns.
    let interval_q8_ns = (rtt_ns.min(RTT_NS_MAX) * f_q31) >> 23;
    Rate::from_bytes_per_s(u64::from(packet_bytes) * (1_000_000_000 << 8) / interval_q8_ns.max(1))
}

/// The loss interval at which [`rate_at`] would give `rate`: what stands for the past at the first
/// loss (RFC 5348 §6.3.1). With W the packets per RTT: `2/3 W^2 + 18 W / (W + 2.5)`, whose second
/// part is fitted to what the timeouts of the equation take.
///
/// Overflow: W in Q8 is cut off at 2^24, so its square stays below 2^48.
pub fn interval_at(rate: Rate, packet_bytes: u32, rtt_ns: u64) -> u32 {
    // At most 5 * 10^10 * 2^31 / 10^3.
    let bytes = rate.bytes_per_s() * (rtt_ns.min(RTT_NS_MAX) / 1_000) / 1_000_000;
    let window_q8 = ((bytes << 8) / u64::from(packet_bytes.max(1))).min(1 << 24);
    let square_q16 = window_q8 * window_q8 * 2 / 3;
    let timeouts_q16 = ((18 * window_q8) << 16) / (window_q8 + 640);
    let rounded = (square_q16 + timeouts_q16 + (1 << 15)) >> 16;
    rounded.clamp(1, u64::from(INTERVAL_MAX)) as u32
}

/// The whole part of the square root of a number below 2^63, by Newton's method from above: 32 halvings
/// at most and some steps more. No way depends on the number, for the programs' verifier goes them all:
/// digit by digit they were 2^32.
fn root(square: u64) -> u64 {
    const STEPS: u32 = 38;
    let mut root = 1u64 << 32;
    for _ in 0..STEPS {
        // Odd, and so not zero; what that takes from it is put right below.
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
        fn root__is_the_whole_part(any: u64, shift in 1u32..64, whole in 1u64..3_000_000_000) {
            for square in [any >> shift, whole * whole - 1, whole * whole, whole * whole + 1] {
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

        // The inverse of RFC 5348 §3.1: the equation gives the rate back within 8 %, from three packets
        // per RTT on.
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

        // RFC 5348 §5.4 against floating point: within 1/256 packet.
        #[test]
        fn mean_interval__matches_the_weights(
            epochs in proptest::collection::vec((1u32..10_000, 0u32..4), 1..60),
        ) {
            let mut history = LossHistory::default();
            // Newest first, the open one at the front.
            let mut reference = vec![0.0f64];
            for (packets, events) in epochs {
                // So many RTTs that no event reaches into the next epoch.
                history.record(packets, events.into(), 8);
                match packets.checked_div(events).map(f64::from) {
                    None => reference[0] += f64::from(packets),
                    Some(each) => {
                        reference[0] = (reference[0] + each).max(1.0);
                        (1..events).for_each(|_| reference.insert(0, each.max(1.0)));
                        reference.insert(0, 0.0);
                        reference.truncate(9);
                    }
                }
            }
            let weights = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
            let known = reference.len() - 1;
            prop_assert_eq!(history.is_clean(), known == 0);
            prop_assume!(known > 0);
            let mean = |from: usize| {
                let total: f64 = (0..known).map(|i| weights[i] * reference[from + i]).sum();
                total / weights[..known].iter().sum::<f64>()
            };
            let expected = mean(0).max(mean(1));
            let found = history.mean_interval_q8() as f64 / 256.0;
            prop_assert!((found - expected).abs() <= 1.0 / 256.0 + expected * 1e-9, "{found} {expected}");
        }
    }

    fn intervals(epochs: &[(u32, u64, u64)]) -> (Vec<u32>, u32) {
        let mut history = LossHistory::default();
        for (packets, lost, rtts) in epochs {
            history.record(*packets, *lost, *rtts);
        }
        (history.closed[..history.known as usize].to_vec(), history.open)
    }

    #[test]
    fn record__one_event_per_rtt_and_one_per_packet() {
        assert_eq!(intervals(&[(100, 0, 1)]), (vec![], 100));
        assert_eq!(intervals(&[(100, 0, 1), (50, 9, 1)]), (vec![150], 0));
        assert_eq!(intervals(&[(100, 3, 10)]), (vec![33; 3], 0));
        assert_eq!(intervals(&[(100, 50, 5)]), (vec![20; 5], 0));
        assert_eq!(intervals(&[(80, u64::MAX, u64::MAX)]), (vec![10; 8], 0));
    }

    #[test]
    fn record__an_event_reaches_into_the_next_rtt_and_no_further() {
        let (quiet, lossy) = ((50, 0, 1), (50, 2, 1));
        assert_eq!(intervals(&[lossy, lossy, quiet]), (vec![50], 100));
        assert_eq!(intervals(&[lossy, lossy, lossy]), (vec![100, 50], 0));
        assert_eq!(intervals(&[lossy, quiet, lossy]), (vec![100, 50], 0));
        // In an epoch of several RTTs it ends.
        assert_eq!(intervals(&[lossy, (60, 2, 3)]), (vec![30, 30, 50], 0));
    }
}
