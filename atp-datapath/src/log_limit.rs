//! The limit of lines about packets: any stranger can cause a line per packet.

use std::time::{Duration, Instant};

/// Journald's default limit for a service is 10,000 lines in 30 s. Over it the daemon's other lines
/// are lost as well. The lines of two intervals leave room for them.
const INTERVAL: Duration = Duration::from_secs(30);
const LINES_MAX: u64 = 4_000;

/// Admits the first lines of each interval, and counts the others.
#[derive(Debug, Default)]
pub struct LogLimit {
    interval_start: Option<Instant>,
    /// Lines of the interval.
    lines: u64,
    left_out: u64,
}

/// The answer for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub is_printed: bool,
    /// Whether it is the first line of an interval.
    pub is_first: bool,
}

impl LogLimit {
    /// Counts a line.
    pub fn admit(&mut self, now: Instant) -> Verdict {
        let is_first = self.interval_start.is_none_or(|start| now - start >= INTERVAL);
        if is_first {
            (self.interval_start, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        let is_printed = self.lines <= LINES_MAX;
        self.left_out += u64::from(!is_printed);
        Verdict { is_printed, is_first }
    }

    /// The lines over the limit so far.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admit__the_first_lines_of_each_interval() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let mut printed = |now, lines| {
            let verdicts = (0..lines).map(|_| limit.admit(now)).collect::<Vec<_>>();
            let printed = verdicts.iter().filter(|verdict| verdict.is_printed).count() as u64;
            (printed, verdicts[0].is_first, limit.left_out())
        };
        assert_eq!(printed(start, LINES_MAX - 1), (LINES_MAX - 1, true, 0));
        assert_eq!(printed(start + INTERVAL / 2, 3), (1, false, 2));
        assert_eq!(printed(start + INTERVAL, LINES_MAX + 5), (LINES_MAX, true, 7));
    }
}
