//! Creates and ends jobs.

use super::{
    super::{
        cgroup,
        connection::{Answer, Peer},
        internal,
        jobs::NewJob,
        refuse,
    },
    Host, warn_on_error,
};
use approxlib::control::{JobUser, Refusal, RefusalKind, Reply};
use atp_common::maps::{JOB_ACTIVE, Job};
use std::path::PathBuf;

impl Host {
    pub(super) fn job_create(
        &mut self,
        id: Option<u32>,
        name: Option<String>,
        cgroup: Option<PathBuf>,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        let cgroup = cgroup.map(|path| look_up(path, peer)).transpose()?;
        let index = self.add_job(NewJob { id, name, cgroup, ..NewJob::default() }, peer)?;
        self.describe_job(index)
    }

    pub(super) fn job_attach(
        &mut self,
        id: u32,
        user: Option<JobUser>,
        cgroup: PathBuf,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        let cgroup = look_up(cgroup, peer)?;
        let index = self.jobs.owned(id, peer, user)?;
        self.jobs.attach(index, cgroup)?;
        // Before the programs know of the cgroup: they would drop packets of those outside it.
        self.close_senders(index, peer);
        if let Err(refusal) = self.write_job(index) {
            self.remove_job(index);
            return Err(refusal);
        }
        self.describe_job(index)
    }

    fn describe_job(&self, index: usize) -> Result<Answer, Refusal> {
        let job = self.jobs.get(index).ok_or_else(|| internal("the job has ended"))?;
        Ok((Reply::Job(job.info()), Vec::new()))
    }

    pub(super) fn job_end(
        &mut self,
        id: u32,
        user: Option<JobUser>,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        let index = self.jobs.owned(id, peer, user)?;
        // The page says that nobody shall register again, before the connections end.
        for (flow, _) in self.flows.of_job(index) {
            if let Some(flow) = self.flows.get_mut(flow) {
                flow.status.close_by_operator();
            }
        }
        self.close_senders(index, peer);
        self.remove_job(index);
        Ok((Reply::Done, Vec::new()))
    }

    /// Ends the connections that send for a job. Libraries pace and mark in userspace once their
    /// connection ends, so it ends before the flows close.
    fn close_senders(&mut self, job: usize, peer: Peer) {
        let flows = self.flows.of_job(job);
        for (_, session) in &flows {
            match self.sessions.get(*session) {
                Some(own) if *session == peer.session => own.connection.stop_listening(),
                Some(other) => other.connection.hang_up(),
                None => {}
            }
        }
        for (flow, _) in flows {
            self.close_flow(flow);
        }
    }

    /// Registers a job here and in the datapath.
    pub(super) fn add_job(&mut self, new: NewJob, peer: Peer) -> Result<usize, Refusal> {
        let client = self.client(peer)?;
        self.check_new_job(&client, new.continues)?;
        let index = self.jobs.create(NewJob { client: Some(client), ..new }, peer)?;
        let written = self.write_job(index);
        if written.is_err() {
            self.remove_job(index);
        }
        written.map(|()| index)
    }

    fn write_job(&mut self, index: usize) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(index) else { return Err(internal("the job has ended")) };
        let cgroup = job.cgroup.as_ref().map_or(0, |(_, id)| *id);
        let entry = Job { cgroup, id: job.id, state: JOB_ACTIVE };
        self.datapath.add_job(index as u32, &entry).map_err(internal)?;
        self.publish_job(index);
        Ok(())
    }

    /// Shows the present state of a job on the snapshot pages.
    pub(super) fn publish_job(&self, index: usize) {
        self.pages.set_job(index, self.jobs.get(index));
    }

    pub(super) fn remove_job(&mut self, index: usize) {
        self.pages.set_job(index, None);
        if let Some(job) = self.jobs.remove(index) {
            let cgroup = job.cgroup.as_ref().map_or(0, |(_, id)| *id);
            warn_on_error(self.datapath.remove_job(index as u32, job.id, cgroup));
        }
    }
}

/// The cgroup at a path, with its id.
fn look_up(path: PathBuf, peer: Peer) -> Result<(PathBuf, u64), Refusal> {
    // Refused before the path is opened: another user may control the files along it.
    if !peer.is_root() {
        return refuse(
            RefusalKind::NotYours,
            "only root may bind a cgroup to a job: ask as root, or leave out --cgroup",
        );
    }
    match cgroup::id_of(&path) {
        Ok(id) => Ok((path, id)),
        Err(error) => refuse(RefusalKind::BadRequest, format!("{error:#}")),
    }
}
