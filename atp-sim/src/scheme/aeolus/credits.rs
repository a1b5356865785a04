//! The rate of credits: ExpressPass's Algorithm 1 in integers, and its jitter.

use crate::net::{CREDIT_BYTES, FlowId, credit_ps, topology::mixed};

/// A share of 1, in parts per billion.
const ALL: u64 = 1_000_000_000;
/// Target share of lost credits. It makes a flow keep probing for a higher rate.
const TARGET_LOSS: u64 = ALL / 10;
/// Largest step towards the maximum rate.
const STEP_MAX: u64 = ALL / 2;
/// Smallest step.
const STEP_MIN: u64 = ALL / 100;
/// Initial step, and initial rate as a share of the maximum (as in ns2-xpass's large networks).
const STEP_FIRST: u64 = ALL / 16;
const RATE_FIRST: u64 = ALL / 2;

/// Largest deviation of the gap between credits, as a share of its mean.
const JITTER: u64 = ALL / 10;
/// Lengths of the shortest and the longest credit on the wire.
const CREDIT_BYTES_MIN: u32 = 84;
const CREDIT_BYTES_MAX: u32 = 92;

/// A receiver's rate law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Credit rate as a share of the rate that fills the line, parts per billion.
    rate: u64,
    /// The rate of one credit per round trip.
    rate_min: u64,
    /// Size of the next step: the paper's w, its aggressiveness.
    step: u64,
    was_increasing: bool,
}

impl Law {
    /// Makes the law for a line of `bits_per_s`.
    pub fn new(bits_per_s: u64, round_trip_ps: u64) -> Self {
        let between_ps = credit_ps(CREDIT_BYTES, bits_per_s);
        // At most a second of round trip, and credits 10^4 ps apart at 400 Gbit/s: no overflow.
        let rate_min = (between_ps * ALL / round_trip_ps.max(1)).clamp(1, ALL);
        let rate = RATE_FIRST.max(rate_min);
        Self { rate, rate_min, step: STEP_FIRST, was_increasing: false }
    }

    /// Updates the rate. Of the `credits` sent at this rate, `lost` were not used.
    ///
    /// The rate is at most 1.1 * 10^9, the step 5 * 10^8, and products stay below 2^63.
    pub fn update(&mut self, credits: u32, lost: u32) {
        if credits == 0 {
            return;
        }
        let loss = u64::from(lost) * ALL / u64::from(credits);
        if loss <= TARGET_LOSS {
            if self.was_increasing {
                self.step = (self.step + STEP_MAX) / 2;
            }
            let most = ALL + TARGET_LOSS;
            self.rate = ((ALL - self.step) * self.rate + self.step * most) / ALL;
            self.was_increasing = true;
        } else {
            let kept = self.rate * (ALL - loss) / ALL;
            self.rate = (kept * (ALL + TARGET_LOSS) / ALL).max(self.rate_min);
            self.step = (self.step / 2).max(STEP_MIN);
            self.was_increasing = false;
        }
    }

    /// Time from credit `number` of the flow to the next one.
    pub fn gap_ps(&self, bits_per_s: u64, flow: FlowId, number: u32) -> u64 {
        let mean_ps = credit_ps(CREDIT_BYTES, bits_per_s) * ALL / self.rate;
        let chance = u64::from(mixed(mixed(flow ^ 0x6a77_3e0b).wrapping_add(number)));
        let share = ALL - JITTER + ((2 * JITTER * chance) >> 32);
        (u128::from(mean_ps) * u128::from(share) / u128::from(ALL)) as u64
    }
}

/// Length on the wire of credit `number` of the flow.
pub fn credit_bytes(flow: FlowId, number: u32) -> u32 {
    let chance = u64::from(mixed(mixed(flow ^ 0x1f83_d9ab).wrapping_add(number)));
    let lengths = u64::from(CREDIT_BYTES_MAX - CREDIT_BYTES_MIN + 1);
    CREDIT_BYTES_MIN + ((chance * lengths) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BITS_PER_S: u64 = 40_000_000_000;
    const ROUND_TRIP_PS: u64 = 8_000_000;

    fn law() -> Law {
        Law::new(BITS_PER_S, ROUND_TRIP_PS)
    }

    /// ExpressPass, Algorithm 1, in floating point.
    #[derive(Clone, Copy)]
    struct Reference {
        rate: f64,
        step: f64,
        was_increasing: bool,
    }

    impl Reference {
        fn update(&mut self, credits: u32, lost: u32, rate_min: f64) {
            let loss = f64::from(lost) / f64::from(credits);
            if loss <= 0.1 {
                if self.was_increasing {
                    self.step = (self.step + 0.5) / 2.0;
                }
                self.rate = (1.0 - self.step) * self.rate + self.step * 1.1;
                self.was_increasing = true;
            } else {
                self.rate = (self.rate * (1.0 - loss) * 1.1).max(rate_min);
                self.step = (self.step / 2.0).max(0.01);
                self.was_increasing = false;
            }
        }
    }

    proptest! {
        /// The law follows ExpressPass's Algorithm 1 within the error of rounding down. A step
        /// loses at most three parts per billion of the rate. It is a contraction except for the
        /// factor of 1.1, which comes with a loss of a tenth and more.
        #[test]
        fn law__is_algorithm_1(steps in proptest::collection::vec((1u32..50, 0u32..50), 0..200)) {
            let mut law = law();
            let rate_min = law.rate_min as f64 / 1e9;
            let mut reference = Reference { rate: 0.5, step: 1.0 / 16.0, was_increasing: false };
            for (count, (credits, lost)) in (1u32..).zip(steps) {
                let lost = lost.min(credits);
                law.update(credits, lost);
                reference.update(credits, lost, rate_min);
                let error = (law.rate as f64 / 1e9 - reference.rate).abs();
                prop_assert!(error <= 5e-9 * f64::from(count), "{law:?} is off by {error}");
                prop_assert!(law.step <= STEP_MAX && law.step >= STEP_MIN);
                prop_assert!(law.rate <= ALL + TARGET_LOSS && law.rate >= law.rate_min);
            }
        }

        /// Gaps deviate by at most a tenth, and their mean is right.
        #[test]
        fn gap_ps__is_jittered(flow in any::<u32>(), first in any::<u32>()) {
            let law = Law { rate: ALL, ..law() };
            let mean_ps = credit_ps(CREDIT_BYTES, BITS_PER_S);
            let gaps: Vec<u64> =
                (0..1_000).map(|more| law.gap_ps(BITS_PER_S, flow, first.wrapping_add(more))).collect();
            prop_assert!(gaps.iter().all(|gap| gap.abs_diff(mean_ps) <= mean_ps / 10 + 1));
            // The mean of a thousand samples of this uniform distribution deviates by 0.0018.
            let sum: u64 = gaps.iter().sum();
            prop_assert!((sum / 1_000).abs_diff(mean_ps) < mean_ps / 100);
        }
    }

    /// The mean length is the one by which ports limit credits.
    #[test]
    fn credit_bytes__have_the_mean_length() {
        let lengths: Vec<u32> = (0..100_000).map(|number| credit_bytes(3, number)).collect();
        assert!(lengths.iter().all(|bytes| (84..=92).contains(bytes)));
        let mean = lengths.iter().sum::<u32>() as f64 / 1e5;
        assert!((mean - f64::from(CREDIT_BYTES)).abs() < 0.05, "{mean}");
    }

    /// A flow keeps at least one credit per round trip (ns2-xpass).
    #[test]
    fn law__has_a_floor() {
        let mut law = law();
        law.update(100, 100);
        assert_eq!(law.rate, law.rate_min);
        let gap_ps = credit_ps(CREDIT_BYTES, BITS_PER_S) * ALL / law.rate;
        assert!(gap_ps.abs_diff(ROUND_TRIP_PS) < ROUND_TRIP_PS / 1_000, "{gap_ps}");
    }
}
