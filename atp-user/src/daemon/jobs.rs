//! The registry of jobs: who has which id, cookie and cgroup. Pure bookkeeping; the datapath's maps
//! follow it.

use super::refuse;
use approxlib::control::{JobInfo, Refusal, RefusalKind};
use atp_common::maps::JOBS;
use slab::Slab;
use std::path::PathBuf;

/// A connection of the control socket.
pub type SessionId = u64;

/// One job.
#[derive(Debug)]
pub struct JobRecord {
    /// Its id, in the header of every packet.
    pub id: u32,
    /// Its secret, likewise.
    pub cookie: u32,
    /// A name for people.
    pub name: Option<String>,
    /// The cgroup it is bound to, with its id.
    pub cgroup: Option<(PathBuf, u64)>,
    /// Who made it.
    pub uid: u32,
    /// The connection that it ends with, if it was made by sending.
    pub session: Option<SessionId>,
    /// Sockets registered for it.
    pub flows: u32,
}

/// What a new job is to be.
#[derive(Debug, Default)]
pub struct NewJob {
    /// The wanted id, or any.
    pub id: Option<u32>,
    /// A name for people.
    pub name: Option<String>,
    /// The cgroup, with its id.
    pub cgroup: Option<(PathBuf, u64)>,
    /// Who asks.
    pub uid: u32,
    /// The connection to end with.
    pub session: Option<SessionId>,
}

/// All jobs of a host, at most [`JOBS`], by index.
#[derive(Default)]
pub struct Jobs(Slab<JobRecord>);

impl Jobs {
    /// Registers a job and returns its index.
    pub fn create(&mut self, new: NewJob) -> Result<usize, Refusal> {
        if let Some(name) = &new.name
            && (name.len() > 64 || name.chars().any(char::is_control))
        {
            return refuse(
                RefusalKind::BadRequest,
                "a job's name is at most 64 bytes of printable text",
            );
        }
        if self.0.len() >= JOBS as usize {
            return refuse(
                RefusalKind::NoRoom,
                format!(
                    "this host has {JOBS} jobs, the most it can have: end one with `atp-user job end`"
                ),
            );
        }
        if let Some((path, cgroup)) = &new.cgroup
            && let Some((_, holder)) = self.of_cgroups(&[*cgroup])
        {
            let (path, holder) = (path.display(), holder.id);
            return refuse(
                RefusalKind::InUse,
                format!("cgroup {path} belongs to job {holder} already"),
            );
        }
        let id = match new.id {
            Some(id) if self.by_id(id).is_some() => {
                return refuse(
                    RefusalKind::InUse,
                    format!("there is a job {id} already: choose another id"),
                );
            }
            Some(id) => id,
            None => self.unused_id(),
        };
        let NewJob { name, cgroup, uid, session, .. } = new;
        // Zero is what a forger would try first.
        let cookie = rand::random_range(1..=u32::MAX);
        Ok(self.0.insert(JobRecord { id, cookie, name, cgroup, uid, session, flows: 0 }))
    }

    /// Takes a job out.
    pub fn remove(&mut self, index: usize) -> Option<JobRecord> {
        self.0.try_remove(index)
    }

    /// The job of an index.
    pub fn get(&self, index: usize) -> Option<&JobRecord> {
        self.0.get(index)
    }

    /// The job of an index, to change it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut JobRecord> {
        self.0.get_mut(index)
    }

    /// The job of an id.
    pub fn by_id(&self, id: u32) -> Option<(usize, &JobRecord)> {
        self.0.iter().find(|(_, job)| job.id == id)
    }

    /// The job that is bound to the first of `cgroups` that any is bound to.
    pub fn of_cgroups(&self, cgroups: &[u64]) -> Option<(usize, &JobRecord)> {
        cgroups.iter().find_map(|wanted| {
            self.0.iter().find(|(_, job)| job.cgroup.as_ref().is_some_and(|(_, id)| id == wanted))
        })
    }

    /// The job of an id, if user `uid` may command it.
    pub fn owned(&self, id: u32, uid: u32) -> Result<(usize, &JobRecord), Refusal> {
        let Some((index, job)) = self.by_id(id) else {
            return refuse(RefusalKind::UnknownJob, format!("there is no job {id} on this host"));
        };
        if uid != 0 && uid != job.uid {
            return refuse(
                RefusalKind::NotYours,
                format!("job {id} belongs to user {}, not to you", job.uid),
            );
        }
        Ok((index, job))
    }

    /// The indices of the jobs that end with a connection.
    pub fn of_session(&self, session: SessionId) -> Vec<usize> {
        self.0
            .iter()
            .filter(|(_, job)| job.session == Some(session))
            .map(|(index, _)| index)
            .collect()
    }

    /// Every job for people, by id.
    pub fn infos(&self) -> Vec<JobInfo> {
        let mut infos: Vec<_> = self.0.iter().map(|(_, job)| job.info()).collect();
        infos.sort_by_key(|info| info.id);
        infos
    }

    fn unused_id(&self) -> u32 {
        loop {
            let id = rand::random_range(1..=u32::MAX);
            if self.by_id(id).is_none() {
                return id;
            }
        }
    }
}

impl JobRecord {
    /// The job for people: without its cookie.
    pub fn info(&self) -> JobInfo {
        JobInfo {
            id: self.id,
            name: self.name.clone(),
            cgroup: self.cgroup.as_ref().map(|(path, _)| path.clone()),
            uid: self.uid,
            ephemeral: self.session.is_some(),
            flows: self.flows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<T: std::fmt::Debug>(result: Result<T, Refusal>) -> RefusalKind {
        result.unwrap_err().kind
    }

    #[test]
    fn create__gives_every_job_its_own_id_and_cookie() {
        let mut jobs = Jobs::default();
        for _ in 0..JOBS {
            jobs.create(NewJob::default()).unwrap();
        }
        assert_eq!(kind(jobs.create(NewJob::default())), RefusalKind::NoRoom);
        let ids: std::collections::HashSet<_> = jobs.infos().iter().map(|job| job.id).collect();
        assert_eq!(ids.len(), JOBS as usize);
    }

    #[test]
    fn create__refuses_a_taken_id_or_cgroup() {
        let mut jobs = Jobs::default();
        let cgroup = Some((PathBuf::from("/cg/a"), 77));
        jobs.create(NewJob { id: Some(7), cgroup: cgroup.clone(), ..NewJob::default() }).unwrap();
        assert_eq!(
            kind(jobs.create(NewJob { id: Some(7), ..NewJob::default() })),
            RefusalKind::InUse
        );
        assert_eq!(kind(jobs.create(NewJob { cgroup, ..NewJob::default() })), RefusalKind::InUse);
    }

    #[test]
    fn of_cgroups__takes_the_nearest() {
        let mut jobs = Jobs::default();
        for (id, cgroup) in [(1, 10), (2, 20)] {
            let cgroup = Some((PathBuf::new(), cgroup));
            jobs.create(NewJob { id: Some(id), cgroup, ..NewJob::default() }).unwrap();
        }
        assert_eq!(jobs.of_cgroups(&[5, 20, 10]).unwrap().1.id, 2);
        assert!(jobs.of_cgroups(&[5]).is_none());
    }

    #[test]
    fn owned__only_by_its_user_or_root() {
        let mut jobs = Jobs::default();
        jobs.create(NewJob { id: Some(1), uid: 1000, ..NewJob::default() }).unwrap();
        assert!(jobs.owned(1, 1000).is_ok() && jobs.owned(1, 0).is_ok());
        assert_eq!(kind(jobs.owned(1, 1001)), RefusalKind::NotYours);
        assert_eq!(kind(jobs.owned(2, 0)), RefusalKind::UnknownJob);
    }
}
