//! Creates and ends jobs.

use super::{
    super::{
        cgroup,
        connection::{Answer, Peer},
        internal,
        jobs::{JobRecord, NewJob},
        refuse,
    },
    Host, warn_on_error,
};
use approxlib::control::{Refusal, RefusalKind, Reply};
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
        // Refused before the path is opened: another user may control the files along it.
        if cgroup.is_some() && !peer.is_root() {
            return refuse(
                RefusalKind::NotYours,
                "only root may bind a cgroup to a job: ask as root, or leave out --cgroup",
            );
        }
        let cgroup = match cgroup {
            None => None,
            Some(path) => match cgroup::id_of(&path) {
                Ok(id) => Some((path, id)),
                Err(error) => return refuse(RefusalKind::BadRequest, format!("{error:#}")),
            },
        };
        let index = self.add_job(NewJob { id, name, cgroup, ephemeral: false }, peer)?;
        let info = self
            .jobs
            .get(index)
            .map(JobRecord::info)
            .ok_or_else(|| internal("the job has ended"))?;
        Ok((Reply::Job(info), Vec::new()))
    }

    pub(super) fn job_end(
        &mut self,
        id: u32,
        uid: Option<u32>,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        let index = self.jobs.owned(id, peer, uid)?;
        let flows = self.flows.of_job(index);
        // Libraries pace and mark in userspace once their connection ends. So it ends before the
        // flows close. The page comes first, because it says that nobody shall register again.
        for (flow, _) in &flows {
            if let Some(flow) = self.flows.get_mut(*flow) {
                flow.status.close_by_operator();
            }
        }
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
        self.remove_job(index);
        Ok((Reply::Done, Vec::new()))
    }

    /// Registers a job here and in the datapath.
    pub(super) fn add_job(&mut self, new: NewJob, peer: Peer) -> Result<usize, Refusal> {
        let index = self.jobs.create(new, peer)?;
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
