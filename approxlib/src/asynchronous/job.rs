use super::{Descriptor, blocking, resolve};
use crate::{Error, Job, JobBuilder, Progress, Report, ToAddresses, WindowReport};
use std::{net::SocketAddr, ops::Range};

/// A [`Job`] for tokio.
///
/// Dropping a future of a job loses no message that the job had accepted. The job continues in its
/// own thread, and every method may be called again. Two differ: [`AsyncJob::send_all`] may have
/// taken its first messages, and with overlapping windows [`AsyncJob::end_window`] would end
/// another window. Dropping the job itself before its end abandons it, as with [`Job`], and waits
/// for its thread to stop.
///
/// ```no_run
/// # async fn send() -> Result<(), approxlib::Error> {
/// let builder = approxlib::Job::builder().messages(1_000).msr(0.8);
/// let mut job = builder.connect_async("db7:4747").await?;
/// for value in 0..1_000u32 {
///     job.send(&value.to_be_bytes()).await?;
/// }
/// let report = job.finish().await?;
/// println!("{} of {} messages", report.groups[0].delivered, report.groups[0].messages);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncJob {
    changed: Descriptor,
    job: Job,
}

impl JobBuilder {
    /// As [`JobBuilder::connect`], for tokio.
    ///
    /// # Errors
    /// As [`JobBuilder::connect`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with IO enabled.
    pub async fn connect_async(self, peer: impl ToAddresses) -> Result<AsyncJob, Error> {
        let peers = resolve(peer).await?;
        AsyncJob::new(blocking(move || self.connect(&peers[..])).await?)
    }
}

impl AsyncJob {
    /// Takes a job into the current runtime.
    ///
    /// # Errors
    /// [`Error::Thread`] if its descriptor can't be registered.
    ///
    /// # Panics
    /// Outside of a tokio runtime with IO enabled.
    pub fn new(job: Job) -> Result<Self, Error> {
        let changed = Descriptor::new(job.changed_fd()?)?;
        Ok(Self { changed, job })
    }

    /// The job's id.
    pub fn id(&self) -> u32 {
        self.job.id()
    }

    /// The receiver's address.
    pub fn peer(&self) -> SocketAddr {
        self.job.peer()
    }

    /// The job's progress: see [`Job::progress`].
    pub fn progress(&self) -> Progress {
        self.job.progress()
    }

    /// Sends a message of group 0: see [`AsyncJob::send_in`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub async fn send(&mut self, message: &[u8]) -> Result<u32, Error> {
        self.send_in(0, message).await
    }

    /// Queues a message of `group`, and returns its id: see [`Job::send_in`]. Waits where that
    /// blocks. If the future is dropped before it is ready, the job has not taken the
    /// message.
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub async fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error> {
        let Self { changed, job } = self;
        let mut waiting = Some(job.copied(message)?);
        changed.until(|| job.try_put(group, &mut waiting)).await
    }

    /// Queues several messages of `group`, and returns their ids. If the future is dropped before
    /// it is ready, the job has taken the first ones: [`AsyncJob::progress`] counts them.
    ///
    /// # Errors
    /// As [`Job::send_in`]. The messages before an error are queued.
    pub async fn send_all<M: AsRef<[u8]>>(
        &mut self,
        group: u8,
        messages: &[M],
    ) -> Result<Range<u32>, Error> {
        // It doesn't wait for a window: the first message of the next one has the id 0.
        let mut ids = self.job.try_send_all(group, &messages[..0])?;
        for message in messages {
            ids.end = self.send_in(group, message.as_ref()).await? + 1;
        }
        Ok(ids)
    }

    /// Queues a message without a copy: see [`Job::send_owned`]. If the future is dropped before it
    /// is ready, the job has not taken the message, and `release` is called.
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_owned<B, F>(
        &mut self,
        group: u8,
        bytes: B,
        release: F,
    ) -> impl Future<Output = Result<u32, Error>> + Send
    where
        B: AsRef<[u8]> + Send + 'static,
        F: FnOnce(B) + Send + 'static,
    {
        let Self { changed, job } = self;
        // Made here, not in the future: one that is never polled calls `release` too.
        let message = job.owned(bytes, release);
        async move {
            let mut waiting = Some(message?);
            changed.until(|| job.try_put(group, &mut waiting)).await
        }
    }

    /// Changes the minimal sampling rate of a group: see [`Job::set_msr`]. It waits for the job's
    /// thread only, never for the network.
    ///
    /// # Errors
    /// As [`Job::set_msr`].
    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        self.job.set_msr(group, msr)
    }

    /// Announces N of a group for the windows that begin after this call: see
    /// [`Job::set_messages`].
    pub fn set_messages(&mut self, group: u8, messages: u32) {
        self.job.set_messages(group, messages);
    }

    /// Ends the input of the current window, and waits for the window's end: see
    /// [`Job::end_window`]. If the future is dropped before it is ready, the window goes on to its
    /// end, and a further call waits for it; with overlapping windows that is
    /// [`AsyncJob::next_window`].
    ///
    /// # Errors
    /// As [`Job::end_window`].
    pub async fn end_window(&mut self) -> Result<WindowReport, Error> {
        self.begin_end_window().await?;
        let Self { changed, job } = self;
        changed.until(|| job.try_last_window()).await
    }

    /// Ends the input of the current window: see [`Job::begin_end_window`]. Waits where that
    /// blocks.
    ///
    /// # Errors
    /// As [`Job::begin_end_window`].
    pub async fn begin_end_window(&mut self) -> Result<(), Error> {
        let Self { changed, job } = self;
        changed.until(|| Ok(job.try_begin_end_window()?.then_some(()))).await
    }

    /// Waits for the end of the oldest window that was ended and not reported: see
    /// [`Job::next_window`]. `None` if there is none.
    ///
    /// # Errors
    /// As [`Job::end_window`].
    pub async fn next_window(&mut self) -> Result<Option<WindowReport>, Error> {
        let Self { changed, job } = self;
        if !job.awaits_window() {
            return Ok(None);
        }
        changed.until(|| job.try_window()).await.map(Some)
    }

    /// Ends the input, and waits for the job's end: see [`Job::finish`]. If the future is dropped
    /// before it is ready, the job goes on to its end, and a further call waits for it.
    ///
    /// # Errors
    /// As [`Job::finish`]; [`Error::Thread`] after the call that returned the report.
    pub async fn finish(&mut self) -> Result<Report, Error> {
        self.job.begin_finish();
        let Self { changed, job } = self;
        changed.until(|| job.try_outcome()).await
    }

    /// Ends the job now: see [`Job::cancel`]. If the future is dropped before it is ready, the job
    /// ends all the same.
    ///
    /// # Errors
    /// As [`Job::cancel`].
    pub async fn cancel(&mut self) -> Result<Report, Error> {
        self.job.begin_cancel();
        let Self { changed, job } = self;
        changed.until(|| job.try_outcome()).await
    }
}
