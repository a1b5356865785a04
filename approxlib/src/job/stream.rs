//! A stream: a job of windows.

use super::{Job, mailbox::Command, thread_died};
use crate::{
    error::Error,
    report::{Report, WindowReport},
};

/// A job of windows, each with its own messages, sampling rate and end: windowed analytics, or one
/// window per step of a training.
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// # let (steps, gradients): (u32, Vec<Vec<u8>>) = (10, vec![]);
/// use std::time::Duration;
/// let mut stream = approxlib::Job::builder()
///     .msr(0.95)
///     .window_deadline(Duration::from_millis(200))
///     .stream("10.0.0.9:4747".parse().unwrap())?;
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
    /// The present window has ended, and the next has not begun.
    between: bool,
    /// N of the next window's groups, as far as it is told.
    sizes: Vec<(u8, u32)>,
}

impl Stream {
    pub(super) fn new(job: Job) -> Self {
        Self { job, between: false, sizes: Vec::new() }
    }

    /// The job: its id, receiver and datapath.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Says how many messages a group has in the next window, and in those after it. Without it, the
    /// number given when the stream was opened holds; without that, the window before is taken as an
    /// estimate, and N is what was sent.
    pub fn set_messages(&mut self, group: u8, messages: u32) {
        self.sizes.retain(|(id, _)| *id != group);
        self.sizes.push((group, messages));
    }

    /// As [`Job::send`]: into group 0 of the present window, which begins with it if the last one has
    /// ended.
    ///
    /// # Errors
    /// As [`Job::send`].
    pub fn send(&mut self, message: &[u8]) -> Result<u32, Error> {
        self.send_in(0, message)
    }

    /// As [`Job::send_in`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error> {
        self.begin_if_between();
        self.job.send_in(group, message)
    }

    /// Changes a group's sampling rate, from the present window on: see [`Job::set_msr`].
    ///
    /// # Errors
    /// As [`Job::set_msr`].
    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        self.begin_if_between();
        self.job.set_msr(group, msr)
    }

    /// Says that no more messages come in this window, and waits until it has ended: every group has
    /// what it needs, or its deadline came.
    ///
    /// # Errors
    /// [`Error::Short`] if the whole job has failed.
    pub fn end_window(&mut self) -> Result<WindowReport, Error> {
        self.begin_if_between();
        self.job.mailbox.command(Command::FinishWindow);
        match self.job.mailbox.window_outcome() {
            Some(report) => {
                self.between = true;
                Ok(report)
            }
            None => Err(self.job.failure()),
        }
    }

    /// Ends the stream with the present window. After [`Stream::end_window`] that is one more, of no
    /// messages: the receiver was told that another follows. The report counts it, and its groups are
    /// that window's; the receiver's last event is its end.
    ///
    /// # Errors
    /// As [`Job::finish`].
    pub fn finish(self) -> Result<Report, Error> {
        self.job.finish()
    }

    /// Ends the stream now, whatever has arrived of its last window.
    ///
    /// # Errors
    /// As [`Job::cancel`].
    pub fn cancel(self) -> Result<Report, Error> {
        self.job.cancel()
    }

    fn begin_if_between(&mut self) {
        if std::mem::take(&mut self.between) {
            self.job.mailbox.begin_window(self.sizes.clone());
        }
    }
}

impl Job {
    /// Why the job has failed.
    fn failure(&self) -> Error {
        match self.mailbox.outcome() {
            Some(Err(shortfall)) => Error::Short(shortfall),
            Some(Ok(_)) | None => thread_died(),
        }
    }
}
