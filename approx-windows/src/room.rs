//! How much more than MSR a sender sends while there is room.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// A window that is confirmed later than this share of the time between two windows shows that
/// there is no room: the network or the receiving application is behind.
const SLOW: u32 = 4;
/// One that is confirmed earlier than this share shows that there is.
const FAST: u32 = 8;
/// The closings whose mean distance is the time between two windows.
const CLOSINGS: usize = 9;
const RAISE: f64 = 0.125;
const LOWER: f64 = 0.5;

/// The share of the records beyond MSR that a stream's next window sends, from 0 to 1.
///
/// It follows the time from the close of a window to its confirmation, which network and receiving
/// application lengthen alike: so a slow application asks for less without a word. It rises by
/// steps and halves, as TCP's congestion window does, and begins with 1: the first windows show
/// whether there is room.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    share: f64,
    /// When the windows that aren't confirmed were closed.
    closed: VecDeque<Instant>,
    /// When the last windows were closed. Several may be closed at once.
    last: VecDeque<Instant>,
    lowered: Option<Instant>,
}

impl Default for Room {
    fn default() -> Self {
        Self { share: 1.0, closed: VecDeque::new(), last: VecDeque::new(), lowered: None }
    }
}

impl Room {
    /// The share of the next window.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Notes that a window was closed.
    pub fn closed(&mut self, now: Instant) {
        self.last.push_back(now);
        if self.last.len() > CLOSINGS {
            self.last.pop_front();
        }
        if let Some(&oldest) = self.closed.front() {
            self.evaluate(oldest, now, false);
        }
        self.closed.push_back(now);
    }

    /// Notes that the oldest window was confirmed.
    pub fn confirmed(&mut self, now: Instant) {
        if let Some(closed) = self.closed.pop_front() {
            self.evaluate(closed, now, true);
        }
    }

    /// The mean time between windows, of the last ones; `None` before the second.
    fn interval(&self) -> Option<Duration> {
        let (first, last) = (self.last.front()?, self.last.back()?);
        let gaps = u32::try_from(self.last.len() - 1).ok().filter(|gaps| *gaps > 0)?;
        Some(last.saturating_duration_since(*first) / gaps)
    }

    fn evaluate(&mut self, closed: Instant, now: Instant, is_confirmed: bool) {
        let Some(interval) = self.interval() else { return };
        let took = now.saturating_duration_since(closed);
        if took > interval / SLOW {
            // Windows that were closed before the share fell say nothing about the new one.
            if self.lowered.is_none_or(|lowered| closed > lowered) {
                (self.share, self.lowered) = (self.share * LOWER, Some(now));
            }
        } else if is_confirmed && took < interval / FAST {
            self.share = (self.share + RAISE).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share after `windows` windows of a second, each of which is confirmed after `took_ms`.
    fn after(room: &mut Room, begin: Instant, windows: u64, took_ms: u64) -> f64 {
        let mut events: Vec<(u64, bool)> = Vec::new();
        for window in 0..windows {
            events.push((window * 1_000, false));
            events.push((window * 1_000 + took_ms, true));
        }
        events.sort_unstable();
        for (at_ms, is_confirmed) in events {
            let at = begin + Duration::from_millis(at_ms);
            if is_confirmed { room.confirmed(at) } else { room.closed(at) }
        }
        room.share()
    }

    #[test]
    fn share__falls_while_confirmations_are_late_and_rises_again() {
        let (mut room, begin) = (Room::default(), Instant::now());
        assert_eq!(after(&mut room, begin, 20, 10), 1.0);
        let later = begin + Duration::from_secs(20);
        assert!(after(&mut room, later, 20, 400) < 0.01);
        let last = begin + Duration::from_secs(40);
        assert_eq!(after(&mut room, last, 20, 10), 1.0);
    }

    /// A watermark that closes two windows at once, as Flink's interval of watermarks may.
    #[test]
    fn share__stays_if_windows_close_in_pairs() {
        let (mut room, begin) = (Room::default(), Instant::now());
        for pair in 0..20 {
            let at = begin + Duration::from_millis(200 * pair);
            [at, at].into_iter().for_each(|at| room.closed(at));
            let soon = at + Duration::from_millis(5);
            [soon, soon].into_iter().for_each(|at| room.confirmed(at));
        }
        assert_eq!(room.share(), 1.0);
    }

    /// Several windows that wait at once are one sign, not several.
    #[test]
    fn share__falls_once_for_what_it_has_caused() {
        let (mut room, begin) = (Room::default(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        [0, 1_000, 2_000].into_iter().for_each(|ms| room.closed(at(ms)));
        assert_eq!(room.share(), 0.5);
        room.confirmed(at(2_100));
        room.confirmed(at(2_200));
        assert_eq!(room.share(), 0.5, "both were closed before it fell");
        // Closed at the moment when it fell, confirmed between the two bounds.
        room.confirmed(at(2_230));
        assert_eq!(room.share(), 0.5);
    }
}
