//! Intervals between loss events, and their mean (RFC 5348 §5).

use crate::units::PodBool;
use bytemuck::{Pod, Zeroable};

/// How many loss intervals are kept.
const INTERVALS: usize = 8;
/// RFC 5348 §5.4: the weights, newest interval first, here times five.
const WEIGHTS: [u64; INTERVALS] = [5, 5, 5, 5, 4, 3, 2, 1];
/// The longest interval, packets. A longer one makes no difference to any possible rate.
pub(super) const INTERVAL_MAX: u32 = 1 << 30;

/// Packets between loss events: the closed intervals, newest first, and the open one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LossHistory {
    open: u32,
    closed: [u32; INTERVALS],
    known: u32,
    /// The last epoch had a loss event whose RTT may extend into the next epoch.
    unfinished: PodBool,
}

impl LossHistory {
    /// Whether there was no loss yet.
    pub(super) const fn is_clean(&self) -> bool {
        self.known == 0
    }

    /// Adds an epoch of `packets` over `rtts` RTTs (at least one), of which `lost` were lost or
    /// marked.
    ///
    /// All losses within one RTT of a first loss are one event (RFC 5348 §5.2). Their times within
    /// the epoch are unknown. An epoch of several RTTs counts one event per RTT, but no more events
    /// than lost packets. The losses of a one-RTT epoch belong to the event of a lossy epoch before
    /// it. Otherwise nearly every overflow of a queue would count twice, and a lane would get 0.4
    /// of a fair share beside CUBIC.
    pub(super) fn record(&mut self, packets: u32, lost: u64, rtts: u64) {
        let events = lost.min(rtts).min(INTERVALS as u64) as u32;
        let goes_on = self.unfinished.is_true() && rtts == 1;
        self.unfinished = (events > 0 && !goes_on).into();
        let Some(each) = packets.checked_div(events).filter(|_| !goes_on) else {
            self.open = self.open.saturating_add(packets).min(INTERVAL_MAX);
            return;
        };
        self.close(events, self.open.saturating_add(each), each);
        self.open = 0;
    }

    /// Begins the history at the first loss, with an assumed interval for the past
    /// (RFC 5348 §6.3.1).
    pub(super) fn begin(&mut self, interval: u32) {
        self.close(1, interval, interval);
        self.unfinished = PodBool::TRUE;
    }

    /// Puts `events` intervals before the known ones: the oldest of them with `oldest` packets,
    /// each of the rest with `others`. In one pass, because the verifier follows every path.
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

    /// RFC 5348 §5.4: the weighted mean of the intervals in Q8 packets, with the open one if that
    /// makes it longer.
    ///
    /// Overflow: eight times 5 * 2^30 in Q8 stays below 2^44.
    pub(super) fn mean_interval_q8(&self) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // RFC 5348 §5.4 against floating point: within 1/256 packet.
        #[test]
        fn mean_interval__matches_the_weights(
            epochs in proptest::collection::vec((1u32..10_000, 0u32..4), 1..60),
        ) {
            let mut history = LossHistory::default();
            // Newest first, the open interval at the front.
            let mut reference = vec![0.0f64];
            for (packets, events) in epochs {
                // Enough RTTs that no event extends into the next epoch.
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
    fn record__an_event_extends_into_the_next_rtt_only() {
        let (quiet, lossy) = ((50, 0, 1), (50, 2, 1));
        assert_eq!(intervals(&[lossy, lossy, quiet]), (vec![50], 100));
        assert_eq!(intervals(&[lossy, lossy, lossy]), (vec![100, 50], 0));
        assert_eq!(intervals(&[lossy, quiet, lossy]), (vec![100, 50], 0));
        // An event ends in an epoch of several RTTs.
        assert_eq!(intervals(&[lossy, (60, 2, 3)]), (vec![30, 30, 50], 0));
    }
}
