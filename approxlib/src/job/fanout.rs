//! A job that sends to several receivers.

use super::{Job, JobBuilder};
use crate::{
    datapath::JobProgress,
    error::Error,
    peer::{ToAddresses, resolve},
    report::Report,
};

/// A job that sends to several receivers, for example a shuffle or the scatter of a reduction.
///
/// Each receiver gets its own messages, and the MSR holds for each of them. The target loss rate is
/// that of the whole job: it counts the messages to all receivers (NetApprox §4.2). Receivers with
/// another MSR, because they asked for it or by [`Job::set_msr`], have a rate of their own. The
/// windows of each receiver end on their own: `job.to(0).end_window()`.
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// let peers = ["10.0.0.8:4747", "10.0.0.9:4747"];
/// let mut job = approxlib::Job::builder().msr(0.9).connect_all(&peers)?;
/// for (to, part) in [(0, "for the first"), (1, "for the second")] {
///     job.to(to).send(part.as_bytes())?;
/// }
/// let reports = job.finish()?;
/// println!("{} and {} delivered", reports[0].groups[0].delivered, reports[1].groups[0].delivered);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Fanout(Vec<Job>);

impl JobBuilder {
    /// Opens one job to all of `peers`. N and the other options hold for each receiver. Sends
    /// nothing yet.
    ///
    /// # Errors
    /// As [`JobBuilder::connect`]; [`Error::NoPeers`] if `peers` is empty.
    pub fn connect_all<P: ToAddresses>(mut self, peers: &[P]) -> Result<Fanout, Error> {
        let job_progress = JobProgress::new();
        let mut jobs = Vec::with_capacity(peers.len());
        for peer in peers {
            let job = self.open_first(&resolve(peer)?, Some(&job_progress))?;
            // The flows share the first one's id, also if the daemon chose it.
            self = self.id(job.id());
            jobs.push(job);
        }
        if jobs.is_empty() { Err(Error::NoPeers) } else { Ok(Fanout(jobs)) }
    }
}

impl Fanout {
    /// The job's id.
    pub fn id(&self) -> u32 {
        self.0[0].id()
    }

    /// The number of receivers.
    pub fn peers(&self) -> usize {
        self.0.len()
    }

    /// The sending side to the receiver at `index` of the addresses given to
    /// [`JobBuilder::connect_all`].
    ///
    /// # Panics
    /// If `index` is not less than [`Fanout::peers`].
    pub fn to(&mut self, index: usize) -> &mut Job {
        &mut self.0[index]
    }

    /// Ends the input, and waits until every receiver has confirmed the end: see [`Job::finish`].
    /// The reports are in the order of the receivers.
    ///
    /// # Errors
    /// The error of the first receiver that has one, after all have ended: see [`Job::finish`].
    pub fn finish(self) -> Result<Vec<Report>, Error> {
        for job in &self.0 {
            job.begin_finish();
        }
        let ended: Vec<_> = self.0.into_iter().map(Job::finish).collect();
        ended.into_iter().collect()
    }

    /// Ends the job at every receiver now: see [`Job::cancel`].
    ///
    /// # Errors
    /// The error of the first receiver that has one: see [`Job::cancel`].
    pub fn cancel(self) -> Result<Vec<Report>, Error> {
        let ended: Vec<_> = self.0.into_iter().map(Job::cancel).collect();
        ended.into_iter().collect()
    }
}
