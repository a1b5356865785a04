//! The registry of jobs, with their ids and cgroups. `host` copies each change to the datapath.

use super::{clock::monotonic_ns, quota, refuse};
use approxlib::control::{JobInfo, Refusal, RefusalKind};
use atp_common::maps::JOBS;
use slab::Slab;
use std::path::PathBuf;

/// A connection of the control socket.
pub type SessionId = u64;

/// The most jobs in one reply. They fit even if every cgroup path has its maximum of 4096 bytes.
const INFOS_MAX: usize = 32;

/// One job.
#[derive(Debug)]
pub struct JobRecord {
    /// The job's id, in the header of every packet.
    pub id: u32,
    /// A name for lists and statistics.
    pub name: Option<String>,
    /// The cgroup it is bound to, with its id.
    pub cgroup: Option<(PathBuf, u64)>,
    /// The user that created it.
    pub uid: u32,
    /// Whether a sender created it, so that it ends with its last sending socket.
    pub ephemeral: bool,
    /// Sockets registered for it.
    pub flows: u32,
    /// When it was created, nanoseconds of CLOCK_MONOTONIC.
    pub created_ns: u64,
}

/// The properties of a new job.
#[derive(Debug, Default)]
pub struct NewJob {
    /// The requested id; `None` for any free one.
    pub id: Option<u32>,
    /// A name for lists and statistics.
    pub name: Option<String>,
    /// The cgroup, with its id.
    pub cgroup: Option<(PathBuf, u64)>,
    /// The user that asks for it.
    pub uid: u32,
    /// Whether it ends with its last sending socket.
    pub ephemeral: bool,
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
                "the job's name is too long or has control characters: use at most 64 printable bytes",
            );
        }
        let used = self.0.iter().filter(|(_, job)| job.uid == new.uid).count();
        quota::check(new.uid, used, quota::JOBS_MAX, "jobs")?;
        if self.0.len() >= JOBS as usize {
            return refuse(
                RefusalKind::NoRoom,
                format!(
                    "this host has reached its limit of {JOBS} jobs: end one with `atp-user job end`"
                ),
            );
        }
        if let Some((path, cgroup)) = &new.cgroup
            && let Some((_, owner)) = self.of_cgroups(&[*cgroup])
        {
            let (path, owner) = (path.display(), owner.id);
            return refuse(
                RefusalKind::InUse,
                format!("cgroup {path} is already bound to job {owner}: choose another cgroup"),
            );
        }
        let id = match new.id {
            Some(id) if self.by_id(id).is_some() => {
                return refuse(
                    RefusalKind::InUse,
                    format!("job {id} already exists: choose another id"),
                );
            }
            Some(id) => id,
            None => self.unused_id(),
        };
        let NewJob { name, cgroup, uid, ephemeral, .. } = new;
        let created_ns = monotonic_ns();
        Ok(self.0.insert(JobRecord { id, name, cgroup, uid, ephemeral, flows: 0, created_ns }))
    }

    /// Removes a job.
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

    /// Whether any job is bound to a cgroup.
    pub fn are_bound(&self) -> bool {
        self.0.iter().any(|(_, job)| job.cgroup.is_some())
    }

    /// The job of the first cgroup in `cgroups` that has one.
    pub fn of_cgroups(&self, cgroups: &[u64]) -> Option<(usize, &JobRecord)> {
        cgroups.iter().find_map(|wanted| {
            self.0.iter().find(|(_, job)| job.cgroup.as_ref().is_some_and(|(_, id)| id == wanted))
        })
    }

    /// The job of an id, if user `uid` owns it. Root owns every job.
    pub fn owned(&self, id: u32, uid: u32) -> Result<(usize, &JobRecord), Refusal> {
        let Some((index, job)) = self.by_id(id) else {
            return refuse(
                RefusalKind::UnknownJob,
                format!("job {id} doesn't exist on this host: `atp-user job list` lists the jobs"),
            );
        };
        if uid != 0 && uid != job.uid {
            return refuse(
                RefusalKind::NotYours,
                format!("job {id} belongs to user {}: ask as that user or as root", job.uid),
            );
        }
        Ok((index, job))
    }

    /// Counts a closed sending socket; returns whether the job ends with it.
    pub fn flow_closed(&mut self, index: usize) -> bool {
        self.0.get_mut(index).is_some_and(|job| {
            job.flows = job.flows.saturating_sub(1);
            job.ephemeral && job.flows == 0
        })
    }

    /// Jobs with id `from` and above, sorted, as many as one reply holds, and the id of the
    /// next one. The names and cgroups of other users' jobs are for those who `may_identify`.
    pub fn infos(&self, from: u32, uid: u32, may_identify: bool) -> (Vec<JobInfo>, Option<u32>) {
        let mut jobs: Vec<_> =
            self.0.iter().map(|(_, job)| job).filter(|job| job.id >= from).collect();
        jobs.sort_unstable_by_key(|job| job.id);
        let next = jobs.get(INFOS_MAX).map(|job| job.id);
        let info = |job: &JobRecord| match may_identify || job.uid == uid {
            true => job.info(),
            false => JobInfo { name: None, cgroup: None, ..job.info() },
        };
        (jobs.into_iter().take(INFOS_MAX).map(info).collect(), next)
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
    /// The job as a reply describes it.
    pub fn info(&self) -> JobInfo {
        JobInfo {
            id: self.id,
            name: self.name.clone(),
            cgroup: self.cgroup.as_ref().map(|(path, _)| path.clone()),
            uid: self.uid,
            ephemeral: self.ephemeral,
            flows: self.flows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::control::{PACKET_BYTES_MAX, Reply};

    fn kind<T: std::fmt::Debug>(result: Result<T, Refusal>) -> RefusalKind {
        result.unwrap_err().kind
    }

    #[test]
    fn create__gives_every_job_its_own_id() {
        let mut jobs = Jobs::default();
        for _ in 0..JOBS {
            jobs.create(NewJob::default()).unwrap();
        }
        assert_eq!(kind(jobs.create(NewJob::default())), RefusalKind::NoRoom);
        let (mut ids, mut from) = (Vec::new(), Some(0));
        while let Some(page) = from {
            let (infos, next) = jobs.infos(page, 0, true);
            ids.extend(infos.iter().map(|job| job.id));
            from = next;
        }
        assert_eq!(ids.len(), JOBS as usize);
        assert!(ids.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn create__leaves_room_for_other_users() {
        let mut jobs = Jobs::default();
        let mut create = |uid| jobs.create(NewJob { uid, ..NewJob::default() });
        for _ in 0..quota::JOBS_MAX {
            create(1000).unwrap();
        }
        assert_eq!(kind(create(1000)), RefusalKind::NoRoom);
        assert!(create(1001).is_ok() && create(0).is_ok());
    }

    #[test]
    fn infos__fit_one_reply_at_maximum_length() {
        let mut jobs = Jobs::default();
        for number in 0..JOBS {
            let cgroup = Some((PathBuf::from("\"".repeat(2_048)), number.into()));
            let name = Some("\"".repeat(64));
            jobs.create(NewJob { cgroup, name, ..NewJob::default() }).unwrap();
        }
        let (jobs, next) = jobs.infos(0, 0, true);
        let bytes = serde_json::to_vec(&Reply::Jobs { jobs, next }).unwrap().len();
        assert!(bytes < PACKET_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn infos__names_are_not_for_other_users() {
        let mut jobs = Jobs::default();
        for uid in [1000, 1001] {
            let cgroup = Some((PathBuf::from("/cg"), uid.into()));
            let name = Some("mean".to_owned());
            jobs.create(NewJob { uid, name, cgroup, ..NewJob::default() }).unwrap();
        }
        for (uid, may_identify) in [(1000, false), (1001, false), (1002, false), (0, true)] {
            for job in jobs.infos(0, uid, may_identify).0 {
                let is_named = (job.name.is_some(), job.cgroup.is_some());
                let expected = may_identify || job.uid == uid;
                assert_eq!(is_named, (expected, expected), "{job:?} for {uid}");
            }
        }
    }

    #[test]
    fn flow_closed__only_the_last_one_ends_an_ephemeral_job() {
        let mut jobs = Jobs::default();
        for ephemeral in [true, false] {
            let job = jobs.create(NewJob { ephemeral, ..NewJob::default() }).unwrap();
            jobs.get_mut(job).unwrap().flows = 2;
            assert!(!jobs.flow_closed(job));
            assert_eq!(jobs.flow_closed(job), ephemeral);
            assert!(!jobs.flow_closed(77));
        }
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
        assert!(jobs.are_bound() && !Jobs::default().are_bound());
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
