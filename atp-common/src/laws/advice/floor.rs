//! The least part of its advice that an approximate lane sends.
//!
//! A lane that loses more than it may sends an eighth of its advice. Behind a slow link that no
//! receiver sees, a higher rate would only lose more. On a path that loses packets at random it
//! would not, and the job would end sooner. So the lane tries a quarter, and keeps it unless it
//! loses more.

use crate::units::Share;
use bytemuck::{Pod, Zeroable};

/// The usual part of the advice, and the higher one.
const DIVISORS: [u64; 2] = [8, 4];
/// The packets of a measurement: with a loss of a quarter its standard deviation is 0.04.
const PACKETS: u32 = 128;
/// After a change of the rate, as many evaluated epochs may be of packets from before.
const EPOCHS_SKIPPED: u8 = 4;
/// A loss that is higher by this share than before depends on the rate: three standard deviations.
const LOSS_RISE: u32 = Share::ONE.q16() / 6;
/// With more loss than this, a higher rate is no help.
const LOSS_MAX: u32 = Share::ONE.q16() / 2;
/// Measurements between two tries.
const WAIT: u8 = 32;

/// Whether a lane's losses depend on its rate, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Floor {
    /// The packets of this measurement.
    sent_packets: u32,
    /// Those of them that arrived.
    acked_packets: u32,
    /// The loss at the usual part of the advice, Q16.
    loss: u32,
    /// Evaluated epochs of this measurement to leave out.
    skipped: u8,
    /// Whether the higher part is in use: the position in [`DIVISORS`].
    is_high: u8,
    /// The measurements until the next try.
    wait: u8,
    reserved: u8,
}

impl Floor {
    /// The lane sends at least its advice divided by this.
    pub const fn divisor(self) -> u64 {
        DIVISORS[(self.is_high & 1) as usize]
    }

    /// Takes in the packets of an epoch. `decides`: the lane's law would send less than the floor.
    pub const fn observe(&mut self, decides: bool, sent_packets: u64, acked_packets: u64) {
        if !decides {
            // The law decides again, at a rate that it has found.
            self.begin(0);
            self.wait = 0;
            return;
        }
        if self.skipped < EPOCHS_SKIPPED {
            self.skipped += 1;
            return;
        }
        self.sent_packets = self.sent_packets.saturating_add(sent_packets as u32);
        self.acked_packets = self.acked_packets.saturating_add(acked_packets as u32);
        if self.sent_packets < PACKETS {
            return;
        }
        let lost = self.sent_packets.saturating_sub(self.acked_packets);
        let loss = (((lost as u64) << 16) / self.sent_packets as u64) as u32;
        let is_high = self.is_high != 0;
        let has_risen = loss > self.loss.saturating_add(LOSS_RISE);
        if is_high && (has_risen || loss > LOSS_MAX) {
            self.begin(0);
            self.wait = WAIT;
        } else if is_high {
            (self.sent_packets, self.acked_packets) = (0, 0);
        } else if self.wait > 0 || loss > LOSS_MAX {
            (self.sent_packets, self.acked_packets) = (0, 0);
            self.wait = self.wait.saturating_sub(1);
        } else {
            self.loss = loss;
            self.begin(1);
        }
    }

    const fn begin(&mut self, is_high: u8) {
        self.is_high = is_high;
        (self.sent_packets, self.acked_packets, self.skipped) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The divisors of a lane that loses these shares at an eighth and at a quarter of its advice,
    /// with ten packets an epoch.
    fn divisors(low: f64, high: f64, epochs: usize) -> Vec<u64> {
        let mut floor = Floor::default();
        (0..epochs)
            .map(|epoch| {
                let loss = if floor.divisor() == 4 { high } else { low };
                // Evenly, without chance: after each epoch, what was lost so far.
                let lost = |epoch: usize| (epoch as f64 * 10.0 * loss) as u64;
                floor.observe(true, 10, 10 - (lost(epoch + 1) - lost(epoch)));
                floor.divisor()
            })
            .collect()
    }

    #[test]
    fn floor__rises_where_losses_are_random() {
        let found = divisors(0.25, 0.25, 200);
        assert_eq!((found[0], found[199]), (8, 4));
        assert!(found.iter().filter(|divisor| **divisor == 4).count() > 170);
    }

    /// A link of a tenth of the line: a fifth is lost at an eighth of the advice.
    #[test]
    fn floor__falls_back_where_a_higher_rate_loses_more() {
        let found = divisors(0.2, 0.6, 5_000);
        let high = found.iter().filter(|divisor| **divisor == 4).count();
        assert!((1..5_000 / 20).contains(&high), "{high}");
    }

    #[test]
    fn floor__stays_where_most_is_lost() {
        assert!(divisors(0.7, 0.7, 1_000).iter().all(|divisor| *divisor == 8));
    }

    #[test]
    fn observe__the_law_decides_again() {
        let mut floor = Floor::default();
        (0..100).for_each(|_| floor.observe(true, 10, 8));
        assert_eq!(floor.divisor(), 4);
        floor.observe(false, 10, 10);
        assert_eq!(floor.divisor(), 8);
    }

    proptest! {
        #[test]
        fn observe__whatever_is_counted(
            epochs in proptest::collection::vec((any::<bool>(), any::<u64>(), any::<u64>()), 0..200),
        ) {
            let mut floor = Floor::default();
            for (decides, sent, acked) in epochs {
                floor.observe(decides, sent, acked);
                prop_assert!([4, 8].contains(&floor.divisor()));
            }
        }
    }
}
