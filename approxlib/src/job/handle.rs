//! A job from other threads, also while one waits in a call of the job.

use super::{
    Job, Progress,
    shared::{Command, Shared},
};
use std::sync::Arc;

/// Progress and the end of a job for other threads than the one that sends: see [`Job::handle`].
///
/// It may outlive the job, and then does nothing more.
#[derive(Clone, Debug)]
pub struct JobHandle {
    shared: Arc<Shared>,
}

impl Job {
    /// A handle for other threads. They can stop a job whose thread waits in [`Job::send_in`]:
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// let mut job = approxlib::Job::builder().connect("10.0.0.9:4747")?;
    /// let handle = job.handle();
    /// std::thread::spawn(move || {
    ///     std::thread::sleep(std::time::Duration::from_secs(5));
    ///     handle.begin_cancel();
    /// });
    /// while job.send(b"a message").is_ok() {}
    /// let report = job.cancel()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn handle(&self) -> JobHandle {
        JobHandle { shared: self.shared.clone() }
    }
}

impl JobHandle {
    /// As [`Job::progress`].
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// As [`Job::begin_finish`]. A call that waits for room returns [`Error::Ended`]: its message
    /// isn't sent.
    ///
    /// [`Error::Ended`]: crate::Error::Ended
    pub fn begin_finish(&self) {
        self.shared.command(Command::Finish);
    }

    /// As [`Job::begin_cancel`]. A call that waits for room returns [`Error::Ended`].
    ///
    /// [`Error::Ended`]: crate::Error::Ended
    pub fn begin_cancel(&self) {
        self.shared.command(Command::Cancel);
    }

    /// Ends the job at once, as dropping it does: without the receiver, and messages that were not
    /// delivered are lost. Calls that wait return [`Error::Ended`].
    ///
    /// [`Error::Ended`]: crate::Error::Ended
    pub fn abandon(&self) {
        self.shared.command(Command::Abandon);
    }
}
