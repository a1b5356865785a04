//! Progress of a run on standard error: a live line on a terminal, plain lines elsewhere. Results
//! go to standard output.

use std::io::stderr;
use std::time::Duration;

use atp_output::{OutputError, complain, draws, write};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

pub struct Progress {
    bar: ProgressBar,
    moves: bool,
}

impl Progress {
    pub fn new() -> Progress {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        Progress { bar, moves: draws(&stderr()) }
    }

    /// Begins a step of unknown length.
    pub fn begin(&self, what: &str) {
        if !self.moves {
            complain!("{what} ...");
        }
        self.restart("{spinner} {msg}", 0, what);
    }

    /// Begins a job of `total` messages.
    pub fn begin_messages(&self, what: &str, total: usize) {
        self.restart("{spinner} {msg} {bar:30} {pos} of {len} messages", total as u64, what);
    }

    /// Goes on with a step as a measurement of `total` windows.
    pub fn begin_windows(&self, what: &str, total: usize) {
        self.restart("{spinner} {msg} {bar:30} {pos} of {len} windows", total as u64, what);
    }

    fn restart(&self, template: &str, total: u64, what: &str) {
        if !self.moves {
            return;
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_message(what.to_owned());
        self.bar.enable_steady_tick(TICK);
    }

    pub fn delivered(&self, number: usize) {
        self.bar.set_position(number as u64);
    }

    /// Prints a line that is not overwritten.
    pub fn line(&self, text: &str) {
        if self.moves {
            self.bar.println(text);
        } else {
            complain!("{text}");
        }
    }

    /// Prints a result to standard output, where no live line is.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn say(&self, text: &str) -> Result<(), OutputError> {
        self.bar.suspend(|| write(format!("{text}\n")))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
