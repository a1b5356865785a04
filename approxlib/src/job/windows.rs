//! Ends the windows of a job one by one, and begins the next.

use super::{Job, failed, shared::Command, thread_died};
use crate::{error::Error, report::WindowReport};
use atp_proto::ConfigError;

/// The application's place in the windows of its job.
#[derive(Debug)]
pub struct WindowInput {
    /// The job ends with its first window: see [`crate::JobBuilder::windows`].
    is_only: bool,
    /// The next window may begin before the last one has ended.
    overlaps: bool,
    /// The input of the current window has ended, and the next has not begun.
    between: bool,
    /// Windows whose input has ended and whose reports were not returned.
    awaited: u32,
    /// Announced N of the next window, by group.
    sizes: Vec<(u8, u32)>,
}

impl WindowInput {
    pub fn new(is_only: bool, overlaps: bool) -> Self {
        Self { is_only, overlaps, between: false, awaited: 0, sizes: Vec::new() }
    }

    /// Whether the next message begins a window.
    pub fn is_between(&self) -> bool {
        self.between
    }
}

impl Job {
    /// Ends the input of the current window, and waits for the window's end: every group has
    /// `ceil(MSR * N)` messages, or the window's deadline has passed. [`WindowReport::complete`]
    /// tells which. Reports of earlier windows that were not taken are dropped.
    ///
    /// Each window has its own messages, sampling rate and end. Examples are windowed analytics,
    /// and training with one window per step:
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// # let (steps, gradients): (u32, Vec<Vec<u8>>) = (10, vec![]);
    /// use std::time::Duration;
    /// let mut job = approxlib::Job::builder()
    ///     .msr(0.95)
    ///     .window_deadline(Duration::from_millis(200))
    ///     .connect("10.0.0.9:4747")?;
    /// for step in 0..steps {
    ///     for part in &gradients {
    ///         job.send(part)?;
    ///     }
    ///     let report = job.end_window()?;
    ///     if !report.complete {
    ///         println!("step {step}: {} came in time", report.groups[0].delivered);
    ///     }
    /// }
    /// job.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::Short`]: the job as a whole has failed. A missed deadline is no error.
    /// - [`Error::EndedByReceiver`]: the receiver has ended the job in an earlier window.
    /// - [`Error::Ended`]: this side has ended the job.
    /// - [`Error::Options`]: N was announced without the option
    ///   [`windows`](crate::JobBuilder::windows).
    pub fn end_window(&mut self) -> Result<WindowReport, Error> {
        self.begin_end_window()?;
        loop {
            let outcome = self.shared.window_outcome();
            let report = self.window_ended(outcome)?;
            if self.windows.awaited == 0 {
                return Ok(report);
            }
        }
    }

    /// Ends the input of the current window without waiting for its end: [`Job::end_window`] in two
    /// steps. [`Job::next_window`] or [`Job::try_window`] is the second. Further calls before that
    /// change nothing, and messages are [`Error::WindowEnding`].
    ///
    /// With overlapping windows each call ends a window. If nothing was sent since the last call,
    /// that window is empty, and the call waits while two windows have not ended.
    ///
    /// # Errors
    /// [`Error::Options`]: as [`Job::end_window`].
    pub fn begin_end_window(&mut self) -> Result<(), Error> {
        if self.windows.is_only {
            return Err(ConfigError::OneWindow.into());
        }
        if self.windows.awaited == 0 || self.windows.overlaps {
            self.begin_if_between();
            self.shared.command(Command::FinishWindow);
            self.windows.awaited += 1;
            self.windows.between = self.windows.overlaps;
        }
        Ok(())
    }

    /// As [`Job::begin_end_window`], but returns `false` instead of waiting while two windows have
    /// not ended. [`Job::changed_fd`] shows when to try again.
    ///
    /// # Errors
    /// As [`Job::begin_end_window`].
    pub fn try_begin_end_window(&mut self) -> Result<bool, Error> {
        let may_begin = self.may_begin();
        if may_begin {
            self.begin_end_window()?;
        }
        Ok(may_begin)
    }

    /// Waits for the end of the oldest window that [`Job::begin_end_window`] has ended and whose
    /// report was not returned. `None` if there is none.
    ///
    /// With [`JobBuilder::overlap_windows`](crate::JobBuilder::overlap_windows) the next window is
    /// sent meanwhile:
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// # let (steps, gradients): (u32, Vec<Vec<u8>>) = (10, vec![]);
    /// let builder = approxlib::Job::builder().msr(0.95).overlap_windows(true);
    /// let mut job = builder.connect("10.0.0.9:4747")?;
    /// for step in 0..steps {
    ///     for part in &gradients {
    ///         job.send(part)?; // waits while two earlier windows have not ended
    ///     }
    ///     job.begin_end_window()?;
    ///     if step > 0 && let Some(report) = job.next_window()? {
    ///         println!("window {}: {}", report.window, report.groups[0].delivered);
    ///     }
    /// }
    /// job.next_window()?; // the last step's
    /// job.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Job::end_window`].
    pub fn next_window(&mut self) -> Result<Option<WindowReport>, Error> {
        if !self.awaits_window() {
            return Ok(None);
        }
        let outcome = self.shared.window_outcome();
        self.window_ended(outcome).map(Some)
    }

    /// As [`Job::next_window`], but returns `None` instead of waiting. [`Job::changed_fd`] shows
    /// when to try again.
    ///
    /// # Errors
    /// As [`Job::end_window`].
    pub fn try_window(&mut self) -> Result<Option<WindowReport>, Error> {
        if !self.awaits_window() {
            return Ok(None);
        }
        let outcome = self.shared.try_window_outcome();
        outcome.map(|outcome| self.window_ended(outcome)).transpose()
    }

    /// The second step of [`Job::end_window`] without waiting: the report of the window that was
    /// ended last, once all have ended. `None` before that.
    ///
    /// # Errors
    /// As [`Job::end_window`].
    pub fn try_last_window(&mut self) -> Result<Option<WindowReport>, Error> {
        while let Some(report) = self.try_window()? {
            if !self.awaits_window() {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// Whether [`Job::next_window`] has a window to wait for.
    pub fn awaits_window(&self) -> bool {
        self.windows.awaited > 0
    }

    /// Announces N, the number of messages of a group, for the windows that begin after this call.
    /// The first one began when the job was opened: its N is the option
    /// [`messages`](crate::JobBuilder::messages).
    ///
    /// Without a call, the number given to the builder holds. Without that too, N is the number of
    /// messages sent in the window; until the window's end, the previous window's N is the
    /// estimate.
    pub fn set_messages(&mut self, group: u8, messages: u32) {
        self.windows.sizes.retain(|(id, _)| *id != group);
        self.windows.sizes.push((group, messages));
    }

    /// Begins the next window if the input of the last one has ended. Waits while two have not
    /// ended.
    pub(super) fn begin_window(&mut self) -> Result<(), Error> {
        if self.awaits_window() && !self.windows.overlaps {
            return Err(Error::WindowEnding);
        }
        self.begin_if_between();
        Ok(())
    }

    /// As [`Job::begin_window`], but returns `false` instead of waiting.
    pub(super) fn try_begin_window(&mut self) -> Result<bool, Error> {
        let may_begin = self.may_begin();
        if may_begin {
            self.begin_window()?;
        }
        Ok(may_begin)
    }

    fn may_begin(&self) -> bool {
        !self.windows.between || self.shared.can_begin_window()
    }

    fn begin_if_between(&mut self) {
        if std::mem::take(&mut self.windows.between) {
            self.shared.begin_window(self.windows.sizes.clone());
        }
    }

    fn window_ended(&mut self, outcome: Option<WindowReport>) -> Result<WindowReport, Error> {
        let Some(report) = outcome else {
            return Err(match self.shared.ended_by_receiver() {
                Some(true) => Error::EndedByReceiver,
                Some(false) => Error::Ended,
                None => self.shared.failure().map_or_else(thread_died, failed),
            });
        };
        self.windows.awaited -= 1;
        self.windows.between |= !self.windows.overlaps;
        Ok(report)
    }
}
