//! The windows of a plain consumer: sums by event time, closed by the rule of the bridge.

use std::collections::BTreeMap;

use crate::line::Answer;
use crate::{now_ms, window_of};

/// The open windows of a partition.
pub struct Sums {
    partition: u32,
    length_ms: u64,
    /// The share of the records that the topic has.
    share: f64,
    open: BTreeMap<i64, (u64, f64)>,
    open_from: i64,
}

impl Sums {
    pub fn new(partition: u32, length_ms: u64, share: f64) -> Self {
        Self { partition, length_ms, share, open: BTreeMap::new(), open_from: i64::MIN }
    }

    /// Adds a record. Returns the answers to the windows that it closes: those that end at its
    /// event time or before.
    pub fn add(&mut self, time_ms: i64, number: f64) -> Vec<Answer> {
        let window = window_of(time_ms, self.length_ms).max(self.open_from);
        let mut answers = Vec::new();
        if window > self.open_from {
            self.open_from = window;
            let later = self.open.split_off(&window);
            let closed = std::mem::replace(&mut self.open, later);
            answers.extend(closed.into_iter().map(|(window, sum)| self.answer(window, sum)));
        }
        let sum = self.open.entry(window).or_default();
        *sum = (sum.0 + 1, sum.1 + number);
        answers
    }

    fn answer(&self, window: i64, (received, sum): (u64, f64)) -> Answer {
        Answer {
            partition: self.partition,
            window,
            received,
            count: received as f64 / self.share,
            mean: sum / received as f64,
            at_ms: now_ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add__answers_windows_that_have_ended() {
        let mut sums = Sums::new(3, 1_000, 0.5);
        assert!(sums.add(1_000, 4.0).is_empty() && sums.add(1_999, 6.0).is_empty());
        let answers = sums.add(2_000, 1.0);
        assert_eq!(answers.len(), 1);
        let Answer { partition, window, received, count, mean, .. } = answers[0];
        assert_eq!((partition, window, received, count, mean), (3, 1, 2, 4.0, 5.0));
        // A late record goes into the open window, as in the bridge.
        assert!(sums.add(1_500, 3.0).is_empty());
        let answers = sums.add(9_000, 1.0);
        assert_eq!((answers.len(), answers[0].received, answers[0].mean), (1, 2, 2.0));
    }
}
