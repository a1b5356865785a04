//! `recv --query`: shows the answer while records arrive.

use approx_session::{Pace, Session};
use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// The time between two live lines on a terminal, and elsewhere.
const LIVE: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// The line on standard error with the state of the answer.
pub struct LiveLine {
    /// Whether standard error is a terminal on which the line can be overwritten.
    draws: bool,
    /// Whether a line is there.
    is_drawn: bool,
    pace: Pace,
}

impl LiveLine {
    pub fn new() -> Self {
        let draws = atp_output::draws(&io::stderr());
        Self { draws, is_drawn: false, pace: Pace::new(LIVE[usize::from(!draws)], Instant::now()) }
    }

    /// Says the warnings of the session at once, and prints its state now and then.
    pub fn show(&mut self, session: &mut Session) {
        for warning in session.take_warnings() {
            self.clear();
            tracing::warn!("{warning}");
        }
        let began = Instant::now();
        if !self.pace.is_due(began) {
            return;
        }
        if let Some(line) = session.line() {
            self.clear();
            let after = if self.draws { "" } else { "\n" };
            // A closed standard error doesn't stop the query.
            let _ = write!(io::stderr(), "{line}{after}");
            let _ = io::stderr().flush();
            self.is_drawn = self.draws;
        }
        self.pace.printed(began, Instant::now());
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
