//! The least part of its advice that an approximate lane sends.
//!
//! A lane that loses more than its target sends an eighth of its advice at least. Behind a slow
//! link that no receiver sees, even that can lose most packets: then the part is halved. On a path
//! that loses packets at random a lower rate is no help, and the job ends later. So the lane tries
//! a quarter, and keeps it unless it loses more.

use crate::units::Share;
use bytemuck::{Pod, Zeroable};

/// The divisor of the highest part. Each level doubles it.
const DIVISOR_MIN: u64 = 4;
/// The level of an eighth.
const USUAL: u8 = 1;
/// The lowest part is less than any law's least rate: a law decides alone.
const LEVEL_MAX: u8 = 12;
/// The packets of a measurement: with a loss of a quarter its standard deviation is 0.04.
const PACKETS: u32 = 128;
/// After a change of the rate, as many evaluated epochs may be of packets from before.
const EPOCHS_SKIPPED: u8 = 4;
/// A loss that is higher by this share than before depends on the rate: three standard deviations.
const LOSS_RISE: u32 = Share::ONE.q16() / 6;
/// With more loss than this, a lower rate is better.
const LOSS_MAX: u32 = Share::ONE.q16() / 2;
/// Measurements between two tries of a higher part, and for which one of a quarter counts.
const WAIT: u8 = 32;

/// The floor of a lane, with the losses that it measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Floor {
    /// The packets of this measurement.
    sent_packets: u32,
    /// Packets of this measurement that arrived.
    acked_packets: u32,
    /// The least loss since an eighth was measured, Q16.
    loss: u32,
    /// Evaluated epochs of this measurement to leave out.
    skipped: u8,
    /// The divisor is `4 << level`.
    level: u8,
    /// The measurements until the next try.
    wait: u8,
    reserved: u8,
}

impl Floor {
    /// An eighth.
    pub const USUAL: Self = Self {
        sent_packets: 0,
        acked_packets: 0,
        loss: 0,
        skipped: 0,
        level: USUAL,
        wait: 0,
        reserved: 0,
    };

    /// The lane sends at least its advice divided by this.
    pub const fn divisor(self) -> u64 {
        // The mask is for the kernel, which must see that the shift is short.
        DIVISOR_MIN << (self.level & 15)
    }

    /// Takes in the packets of an epoch. `decides`: the lane's law would send less than an eighth.
    pub const fn observe(&mut self, decides: bool, sent_packets: u64, acked_packets: u64) {
        if !decides {
            // With a few packets an epoch, chance takes a law above and below an eighth.
            return;
        }
        if self.skipped < EPOCHS_SKIPPED {
            self.skipped += 1;
            return;
        }
        self.sent_packets = self.sent_packets.saturating_add(sent_packets as u32);
        self.acked_packets = self.acked_packets.saturating_add(acked_packets as u32);
        if self.sent_packets >= PACKETS {
            let lost = self.sent_packets.saturating_sub(self.acked_packets);
            self.measured((((lost as u64) << 16) / self.sent_packets as u64) as u32);
        }
    }

    const fn measured(&mut self, loss: u32) {
        (self.sent_packets, self.acked_packets) = (0, 0);
        let waits = self.wait > 0;
        self.wait = self.wait.saturating_sub(1);
        if self.level < USUAL {
            let has_risen = loss > self.loss.saturating_add(LOSS_RISE);
            if has_risen || loss > LOSS_MAX {
                self.begin(USUAL);
                self.wait = WAIT;
            } else if !waits {
                // Is it still so?
                self.begin(USUAL);
            } else if loss < self.loss {
                self.loss = loss;
            }
        } else if loss > LOSS_MAX {
            self.begin(if self.level < LEVEL_MAX { self.level + 1 } else { LEVEL_MAX });
            self.wait = WAIT;
        } else if !waits && (self.level == USUAL || loss < LOSS_MAX / 2) {
            self.loss = loss;
            self.begin(self.level - 1);
            self.wait = WAIT;
        }
    }

    const fn begin(&mut self, level: u8) {
        self.level = level;
        (self.sent_packets, self.acked_packets, self.skipped) = (0, 0, 0);
    }
}

impl Default for Floor {
    fn default() -> Self {
        Self::USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The divisors of a lane that loses `loss(divisor)` of its packets, with ten packets an epoch.
    fn divisors(loss: impl Fn(u64) -> f64, epochs: usize) -> Vec<u64> {
        let mut floor = Floor::USUAL;
        (0..epochs)
            .map(|epoch| {
                let loss = loss(floor.divisor());
                // Evenly, without chance: after each epoch, what was lost so far.
                let lost = |epoch: usize| (epoch as f64 * 10.0 * loss) as u64;
                floor.observe(true, 10, 10 - (lost(epoch + 1) - lost(epoch)));
                floor.divisor()
            })
            .collect()
    }

    /// The loss at a part of the advice on a slow link: `link` is its share of the advised line.
    fn overload(link: f64) -> impl Fn(u64) -> f64 {
        move |divisor| (1.0 - link * divisor as f64).max(0.0)
    }

    fn share_of(found: &[u64], divisor: u64) -> f64 {
        found.iter().filter(|found| **found == divisor).count() as f64 / found.len() as f64
    }

    #[test]
    fn floor__rises_where_losses_are_random() {
        let found = divisors(|_| 0.25, 2_000);
        assert_eq!(found[0], 8);
        assert!(share_of(&found, 4) > 0.9);
    }

    /// A link of a tenth of the line: a fifth is lost at an eighth of the advice.
    #[test]
    fn floor__falls_back_where_a_higher_rate_loses_more() {
        let found = divisors(overload(0.1), 5_000);
        assert!((0.001..0.05).contains(&share_of(&found, 4)));
        assert!(share_of(&found, 8) > 0.9);
    }

    /// A link of a hundredth of the line: the rate falls until it loses less than half.
    #[test]
    fn floor__falls_where_most_is_lost() {
        let found = divisors(overload(0.01), 5_000);
        assert!(share_of(&found, 64) > 0.8, "{}", share_of(&found, 64));
        assert!(divisors(|_| 0.99, 5_000).last() > Some(&1_000));
    }

    /// A try that failed isn't repeated earlier if the law decides meanwhile, and one that didn't
    /// isn't forgotten.
    #[test]
    fn observe__the_law_decides_now_and_then() {
        let mut floor = Floor::USUAL;
        (0..30).for_each(|_| floor.observe(true, 10, 8));
        assert_eq!(floor.divisor(), 4);
        floor.observe(false, 10, 10);
        assert_eq!(floor.divisor(), 4);
        (0..30).for_each(|_| floor.observe(true, 10, 4));
        assert_eq!(floor.divisor(), 8);
        floor.observe(false, 10, 10);
        (0..100).for_each(|_| {
            floor.observe(true, 10, 8);
            assert_eq!(floor.divisor(), 8);
        });
    }

    proptest! {
        #[test]
        fn observe__whatever_is_counted(
            epochs in proptest::collection::vec((any::<bool>(), any::<u64>(), any::<u64>()), 0..200),
        ) {
            let mut floor = Floor::USUAL;
            for (decides, sent, acked) in epochs {
                floor.observe(decides, sent, acked);
                prop_assert!((4..=4 << LEVEL_MAX).contains(&floor.divisor()));
            }
        }
    }
}
