//! The records of a key in one message.

use crate::total::Total;

/// Records of one key in one message, and their totals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub records: u64,
    /// Records whose `x` is one: they are counted, which takes less time than to add them up.
    ones: u64,
    /// The total of the others.
    x: Total,
    pub y: Total,
}

impl Tally {
    pub fn add(&mut self, x: f64, y: f64) {
        self.records += 1;
        if x == 1.0 {
            self.ones += 1;
        } else {
            self.x.add(&Total::of(x));
        }
        self.y.add(&Total::of(y));
    }

    pub fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.ones += other.ones;
        self.x.add(&other.x);
        self.y.add(&other.y);
    }

    /// The total of all `x`.
    pub fn x(&self) -> Total {
        let mut x = self.x;
        x.add(&Total::of(self.ones as f64));
        x
    }
}
