//! A stream: a job divided into windows.

use super::{Job, failed, shared::Command, thread_died};
use crate::{
    error::Error,
    report::{Report, WindowReport},
};
use std::{ops::Range, sync::Arc};

/// A job divided into windows, each with its own messages, sampling rate and end. Examples are
/// windowed analytics, and training with one window per step.
///
/// Open one with [`JobBuilder::stream`](crate::JobBuilder::stream).
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// # let (steps, gradients): (u32, Vec<Vec<u8>>) = (10, vec![]);
/// use std::time::Duration;
/// let mut stream = approxlib::Job::builder()
///     .msr(0.95)
///     .window_deadline(Duration::from_millis(200))
///     .stream("10.0.0.9:4747")?;
/// for step in 0..steps {
///     for part in &gradients {
///         stream.send(part)?;
///     }
///     let report = stream.end_window()?;
///     if !report.complete {
///         println!("step {step}: {} came in time", report.groups[0].delivered);
///     }
/// }
/// stream.finish()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stream {
    job: Job,
    /// The input of the present window has ended, and the next has not begun.
    between: bool,
    /// Windows whose input has ended and whose reports were not returned.
    awaited: u32,
    /// The next window may begin before the last one has ended.
    overlaps: bool,
    /// Announced N of the next window, by group.
    sizes: Vec<(u8, u32)>,
}

impl Stream {
    pub(super) fn new(job: Job, overlaps: bool) -> Self {
        Self { job, between: false, awaited: 0, overlaps, sizes: Vec::new() }
    }

    /// The stream's job, for its id, receiver, datapath and progress.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Announces N, the number of messages of a group, for the next window and those after it.
    ///
    /// Without a call, the number given to the builder holds. Without that too, N is the number of
    /// messages sent in the window; until the window's end, the previous window's N is the
    /// estimate.
    pub fn set_messages(&mut self, group: u8, messages: u32) {
        self.sizes.retain(|(id, _)| *id != group);
        self.sizes.push((group, messages));
    }

    /// Sends a message of group 0 in the present window: see [`Stream::send_in`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send(&mut self, message: &[u8]) -> Result<u32, Error> {
        self.send_in(0, message)
    }

    /// Queues a message of `group` in the present window, and returns its id: see [`Job::send_in`].
    /// The first message after [`Stream::end_window`] begins the next window.
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error> {
        self.ready_to_send()?;
        self.job.send_in(group, message)
    }

    /// Queues several messages of `group` in the present window: see [`Job::send_all`].
    ///
    /// # Errors
    /// As [`Job::send_all`].
    pub fn send_all<M: AsRef<[u8]>>(
        &mut self,
        group: u8,
        messages: &[M],
    ) -> Result<Range<u32>, Error> {
        self.ready_to_send()?;
        self.job.send_all(group, messages)
    }

    /// Queues a message of `group` in the present window without a copy: see [`Job::send_shared`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_shared(&mut self, group: u8, message: Arc<[u8]>) -> Result<u32, Error> {
        self.ready_to_send()?;
        self.job.send_shared(group, message)
    }

    /// Queues a message of `group` in the present window without a copy, in memory that the
    /// application gets back: see [`Job::send_owned`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_owned<B, F>(&mut self, group: u8, bytes: B, release: F) -> Result<u32, Error>
    where
        B: AsRef<[u8]> + Send + 'static,
        F: FnOnce(B) + Send + 'static,
    {
        self.ready_to_send()?;
        self.job.send_owned(group, bytes, release)
    }

    /// Changes a group's minimal sampling rate, from the present window on: see [`Job::set_msr`].
    /// After [`Stream::begin_end_window`] with overlapping windows, or [`Stream::end_window`], that
    /// is the window of the next message. A window whose input has ended before keeps its rate. It
    /// waits for the job's thread only, never for the end of a window.
    ///
    /// # Errors
    /// As [`Job::set_msr`].
    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        self.job.set_msr_from(group, msr, self.between)
    }

    /// Ends the input of the present window, and waits for the window's end: every group has
    /// `ceil(MSR * N)` messages, or the window's deadline has passed. [`WindowReport::complete`]
    /// tells which. Reports of earlier windows that were not taken are dropped.
    ///
    /// # Errors
    /// [`Error::Short`] if the job as a whole has failed; [`Error::EndedByReceiver`] if the
    /// receiver has ended it in an earlier window, and [`Error::Ended`] if this side has. A missed
    /// deadline is no error.
    pub fn end_window(&mut self) -> Result<WindowReport, Error> {
        self.begin_end_window();
        loop {
            let outcome = self.job.shared.window_outcome();
            let report = self.window_ended(outcome)?;
            if self.awaited == 0 {
                return Ok(report);
            }
        }
    }

    /// Ends the input of the present window without waiting for its end: [`Stream::end_window`] in
    /// two steps. [`Stream::next_window`] or [`Stream::try_window`] is the second. Further calls
    /// before that change nothing; with overlapping windows, each call ends a window, which is
    /// empty if nothing was sent since the last call, and waits while two windows have not ended.
    pub fn begin_end_window(&mut self) {
        if self.awaited == 0 || self.overlaps {
            self.begin_if_between();
            self.job.shared.command(Command::FinishWindow);
            self.awaited += 1;
            self.between = self.overlaps;
        }
    }

    /// Waits for the end of the oldest window that [`Stream::begin_end_window`] has ended and whose
    /// report was not returned. `None` if there is none.
    ///
    /// With [`JobBuilder::overlap_windows`](crate::JobBuilder::overlap_windows) the next window is
    /// sent meanwhile:
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// # let (steps, gradients): (u32, Vec<Vec<u8>>) = (10, vec![]);
    /// let builder = approxlib::Job::builder().msr(0.95).overlap_windows(true);
    /// let mut stream = builder.stream("10.0.0.9:4747")?;
    /// for step in 0..steps {
    ///     for part in &gradients {
    ///         stream.send(part)?; // waits while two earlier windows have not ended
    ///     }
    ///     stream.begin_end_window();
    ///     if step > 0 && let Some(report) = stream.next_window()? {
    ///         println!("window {}: {}", report.window, report.groups[0].delivered);
    ///     }
    /// }
    /// stream.next_window()?; // the last step's
    /// stream.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Stream::end_window`].
    pub fn next_window(&mut self) -> Result<Option<WindowReport>, Error> {
        if self.awaited == 0 {
            return Ok(None);
        }
        let outcome = self.job.shared.window_outcome();
        self.window_ended(outcome).map(Some)
    }

    /// As [`Stream::next_window`], but returns `None` instead of waiting. [`Job::changed_fd`] shows
    /// when to try again.
    ///
    /// # Errors
    /// As [`Stream::end_window`].
    pub fn try_window(&mut self) -> Result<Option<WindowReport>, Error> {
        if self.awaited == 0 {
            return Ok(None);
        }
        let outcome = self.job.shared.try_window_outcome();
        outcome.map(|outcome| self.window_ended(outcome)).transpose()
    }

    /// As [`Stream::begin_end_window`], but returns `false` instead of waiting while two windows
    /// have not ended. [`Job::changed_fd`] shows when to try again.
    pub fn try_begin_end_window(&mut self) -> bool {
        let may_begin = !self.between || self.job.shared.can_begin_window();
        if may_begin {
            self.begin_end_window();
        }
        may_begin
    }

    /// The second step of [`Stream::end_window`] without waiting: the report of the window that was
    /// ended last, once all have ended. `None` before that.
    ///
    /// # Errors
    /// As [`Stream::end_window`].
    pub fn try_last_window(&mut self) -> Result<Option<WindowReport>, Error> {
        while let Some(report) = self.try_window()? {
            if self.awaited == 0 {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// Whether [`Stream::next_window`] has a window to wait for.
    pub fn awaits_window(&self) -> bool {
        self.awaited > 0
    }

    /// The stream's outcome: see [`Job::try_outcome`].
    ///
    /// # Errors
    /// As [`Job::try_outcome`].
    pub fn try_outcome(&mut self) -> Result<Option<Report>, Error> {
        self.job.try_outcome()
    }

    fn window_ended(&mut self, outcome: Option<WindowReport>) -> Result<WindowReport, Error> {
        let Some(report) = outcome else {
            return Err(match self.job.shared.ended_by_receiver() {
                Some(true) => Error::EndedByReceiver,
                Some(false) => Error::Ended,
                None => self.job.failure(),
            });
        };
        self.awaited -= 1;
        self.between |= !self.overlaps;
        Ok(report)
    }

    /// Begins the next window if the input of the last one has ended.
    pub(super) fn ready_to_send(&mut self) -> Result<&mut Job, Error> {
        if self.awaited > 0 && !self.overlaps {
            return Err(Error::WindowEnding);
        }
        self.begin_if_between();
        Ok(&mut self.job)
    }

    /// The same, without waiting.
    pub(super) fn try_ready_to_send(&mut self) -> Result<&mut Job, Error> {
        if self.between && !self.job.shared.can_begin_window() {
            return Err(Error::WindowEnding);
        }
        self.ready_to_send()
    }

    /// Ends the stream with the present window, and waits for its end as [`Job::finish`] does.
    ///
    /// After [`Stream::end_window`] the receiver expects another window, so an empty one follows.
    /// The report counts it, its groups are those of the empty window, and the receiver's
    /// [`Event::Finished`](crate::Event::Finished) belongs to it.
    ///
    /// # Errors
    /// As [`Job::finish`].
    pub fn finish(self) -> Result<Report, Error> {
        self.job.finish()
    }

    /// Ends the stream now, with the messages of its last window delivered so far.
    ///
    /// # Errors
    /// As [`Job::cancel`].
    pub fn cancel(self) -> Result<Report, Error> {
        self.job.cancel()
    }

    fn begin_if_between(&mut self) {
        if std::mem::take(&mut self.between) {
            self.job.shared.begin_window(self.sizes.clone());
        }
    }
}

impl Job {
    /// The error with which the job has failed.
    fn failure(&self) -> Error {
        self.shared.failure().map_or_else(thread_died, failed)
    }
}
