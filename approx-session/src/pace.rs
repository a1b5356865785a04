//! The times of the live lines.

use std::time::{Duration, Instant};

/// Lines take at most one part in this number of the time.
const COST: u32 = 10;

/// The times of lines that show a session's state: an interval apart, and never so close that lines
/// take much of the time. An answer with many keys may take longer than the interval.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    next: Instant,
}

impl Pace {
    /// A first line is due after the interval.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now + interval }
    }

    /// Whether the next line is due.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// A line was made and printed in this time.
    pub fn printed(&mut self, began: Instant, ended: Instant) {
        self.next = ended + self.interval.max(COST * (ended - began));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_due__leaves_time_for_messages() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::new(Duration::from_millis(200), start);
        assert!(!pace.is_due(ms(199)) && pace.is_due(ms(200)));
        // A quick line.
        pace.printed(ms(200), ms(201));
        assert!(!pace.is_due(ms(400)) && pace.is_due(ms(401)));
        // A line that takes longer than the interval.
        pace.printed(ms(401), ms(2_401));
        assert!(!pace.is_due(ms(22_400)) && pace.is_due(ms(22_401)));
    }
}
