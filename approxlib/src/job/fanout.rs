//! One job to several receivers.

use super::{Job, JobBuilder};
use crate::{datapath::Together, error::Error, report::Report};
use std::net::SocketAddr;

/// A job that sends to several receivers: a shuffle, or a reduction's scatter. Each receiver gets its
/// own messages, of which each gets what the job promises; the slack is the job's, so that a lane
/// sends as aggressively as all of them together can afford.
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// let peers = ["10.0.0.8:4747", "10.0.0.9:4747"].map(|peer| peer.parse().unwrap());
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
    /// Opens one job to all of `peers`. N and the other options hold for each of them. Nothing is sent
    /// yet.
    ///
    /// # Errors
    /// As [`JobBuilder::connect`]; [`Error::NoPeers`] if there is none.
    pub fn connect_all(mut self, peers: &[SocketAddr]) -> Result<Fanout, Error> {
        let together = Together::new();
        let mut jobs = Vec::with_capacity(peers.len());
        for &peer in peers {
            let job = self.clone().open(peer, false, Some(&together))?;
            // The first one's, whoever chose it.
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

    /// How many receivers there are.
    pub fn peers(&self) -> usize {
        self.0.len()
    }

    /// The sender to the receiver at `index` of those that the job was connected to.
    ///
    /// # Panics
    /// If there is no such receiver.
    pub fn to(&mut self, index: usize) -> &mut Job {
        &mut self.0[index]
    }

    /// Says that no more messages come and waits until every receiver has confirmed that it has what
    /// it needs. Reports are in the order of receivers.
    ///
    /// # Errors
    /// Of the first receiver that got less, once all have ended: see [`Job::finish`].
    pub fn finish(self) -> Result<Vec<Report>, Error> {
        for job in &self.0 {
            job.begin_finish();
        }
        let ended: Vec<_> = self.0.into_iter().map(Job::finish).collect();
        ended.into_iter().collect()
    }

    /// Ends the job now, at every receiver: see [`Job::cancel`].
    ///
    /// # Errors
    /// As [`Job::cancel`], of the first that has any.
    pub fn cancel(self) -> Result<Vec<Report>, Error> {
        let ended: Vec<_> = self.0.into_iter().map(Job::cancel).collect();
        ended.into_iter().collect()
    }
}
