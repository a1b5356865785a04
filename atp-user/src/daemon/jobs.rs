//! The registry of jobs. `host` copies each change to the datapath.
//!
//! A job is known by its user and its id: an id is a public name that anybody can choose, so users
//! would lock each other out if they shared all ids. The users of a container are others than those
//! with the same user ids outside of it. Only the id of a job that is bound to a cgroup
//! belongs to no other job: egress knows the job of an unregistered packet by its id alone. Root
//! alone binds jobs.

use super::{
    clock::monotonic_ns,
    connection::Peer,
    internal,
    policy::Identity,
    quota::{Budget, Held},
    refuse,
};
use approxlib::control::{JobInfo, JobUser, Refusal, RefusalKind, Reply};
use atp_common::maps::JOBS;
use slab::Slab;
use std::{path::PathBuf, rc::Rc};

/// The id and the user of a job.
pub type JobKey = (u32, JobUser);

/// The most jobs in one reply. They fit even if every cgroup path has its maximum of 4096 bytes.
const INFOS_MAX: usize = 32;

/// One job.
#[derive(Debug)]
pub struct JobRecord {
    /// The job's id, in the header of every packet. Another user's job may have the same.
    pub id: u32,
    /// A name for lists and statistics.
    pub name: Option<String>,
    /// The cgroup it is bound to, with its id.
    pub cgroup: Option<(PathBuf, u64)>,
    /// The user that created it.
    pub user: JobUser,
    /// Whether a sender created it, so that it ends with its last sending socket.
    pub ephemeral: bool,
    /// Sockets registered for it.
    pub flows: u32,
    /// When it was created, nanoseconds of CLOCK_MONOTONIC.
    pub created_ns: u64,
    /// The client that created it, for the operator's policy.
    client: Option<Rc<Identity>>,
    _place: Held,
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
    /// Whether it ends with its last sending socket.
    pub ephemeral: bool,
    /// Whether it sends in userspace already.
    pub continues: bool,
    /// The client, for the operator's policy.
    pub client: Option<Rc<Identity>>,
}

/// All jobs of a host, at most [`JOBS`], by index.
pub struct Jobs {
    jobs: Slab<JobRecord>,
    budget: Budget,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { jobs: Slab::new(), budget: Budget::new("jobs", JOBS as usize) }
    }
}

impl Jobs {
    /// Registers a job of a client and returns its index.
    pub fn create(&mut self, new: NewJob, peer: Peer) -> Result<usize, Refusal> {
        if let Some(name) = &new.name
            && (name.len() > 64 || name.chars().any(char::is_control))
        {
            return refuse(
                RefusalKind::BadRequest,
                "the job's name is too long or has control characters: use at most 64 printable bytes",
            );
        }
        if let Some(cgroup) = &new.cgroup {
            self.check_cgroup(cgroup)?;
        }
        let id = match new.id {
            Some(id) => self.check_id(id, &new, peer.user()).map(|()| id)?,
            None => self.unused_id(),
        };
        let place = self.budget.take(peer.tenant, 1)?;
        let NewJob { name, cgroup, ephemeral, client, .. } = new;
        let created_ns = monotonic_ns();
        Ok(self.jobs.insert(JobRecord {
            id,
            name,
            cgroup,
            user: peer.user(),
            ephemeral,
            flows: 0,
            created_ns,
            client,
            _place: place,
        }))
    }

    /// Binds a job to a cgroup. From now on it lasts until it is ended.
    pub fn attach(&mut self, index: usize, cgroup: (PathBuf, u64)) -> Result<(), Refusal> {
        self.check_cgroup(&cgroup)?;
        let Some(job) = self.get(index) else { return Err(internal("the job has ended")) };
        let id = job.id;
        if let Some((path, _)) = &job.cgroup {
            let path = path.display();
            return refuse(
                RefusalKind::InUse,
                format!("job {id} is already bound to cgroup {path}: end it first"),
            );
        }
        if let Some((_, other)) = self.with_id(id).find(|(other, _)| *other != index) {
            return refuse(RefusalKind::InUse, other.keeps_id());
        }
        if let Some(job) = self.get_mut(index) {
            (job.cgroup, job.ephemeral) = (Some(cgroup), false);
        }
        Ok(())
    }

    /// Removes a job.
    pub fn remove(&mut self, index: usize) -> Option<JobRecord> {
        self.jobs.try_remove(index)
    }

    /// The job of an index.
    pub fn get(&self, index: usize) -> Option<&JobRecord> {
        self.jobs.get(index)
    }

    /// The job of an index, to change it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut JobRecord> {
        self.jobs.get_mut(index)
    }

    /// The job of a user with this id.
    pub fn of_user(&self, id: u32, user: JobUser) -> Option<(usize, &JobRecord)> {
        self.with_id(id).find(|(_, job)| job.user == user)
    }

    /// The job with this id that is bound to a cgroup.
    pub fn bound(&self, id: u32) -> Option<(usize, &JobRecord)> {
        self.with_id(id).find(|(_, job)| job.cgroup.is_some())
    }

    fn with_id(&self, id: u32) -> impl Iterator<Item = (usize, &JobRecord)> {
        self.jobs.iter().filter(move |(_, job)| job.id == id)
    }

    /// The clients that created the jobs, each for each of its jobs.
    pub fn clients(&self) -> impl Iterator<Item = &Identity> {
        self.jobs.iter().filter_map(|(_, job)| job.client.as_deref())
    }

    /// The job of the first cgroup in `cgroups` that has one.
    pub fn of_cgroups(&self, cgroups: &[u64]) -> Option<(usize, &JobRecord)> {
        cgroups.iter().find_map(|wanted| {
            self.jobs
                .iter()
                .find(|(_, job)| job.cgroup.as_ref().is_some_and(|(_, id)| id == wanted))
        })
    }

    /// The job with this id that a client may end: its own one. Root may end every job: that of
    /// user `wanted`, or else the only one with this id.
    pub fn owned(&self, id: u32, asker: Peer, wanted: Option<JobUser>) -> Result<usize, Refusal> {
        let mut users: Vec<JobUser> = self.with_id(id).map(|(_, job)| job.user).collect();
        users.sort_unstable();
        let user = match (wanted, &users[..]) {
            (Some(user), _) => user,
            (None, [user]) if asker.is_root() => *user,
            (None, [_, ..]) if asker.is_root() => {
                let users = users.iter().map(JobUser::to_string).collect::<Vec<_>>().join(", ");
                return refuse(
                    RefusalKind::BadRequest,
                    format!("the users {users} each have a job {id}: name one of them (--user)"),
                );
            }
            (None, _) => asker.user(),
        };
        let owned = self.of_user(id, user).map(|(index, _)| index);
        match (owned, &users[..]) {
            (Some(index), _) if asker.is_root() || asker.user() == user => Ok(index),
            (Some(_), _) => refuse(
                RefusalKind::NotYours,
                format!("job {id} belongs to user {user}: ask as that user or as root"),
            ),
            (None, [other, ..]) if wanted.is_none() => refuse(
                RefusalKind::NotYours,
                format!("job {id} belongs to user {other}: ask as that user or as root"),
            ),
            (None, [other, ..]) => refuse(
                RefusalKind::UnknownJob,
                format!(
                    "user {user} has no job {id}, user {other} has one: `atp-user job list` lists \
                     the jobs"
                ),
            ),
            (None, []) => refuse(
                RefusalKind::UnknownJob,
                format!("job {id} doesn't exist on this host: `atp-user job list` lists the jobs"),
            ),
        }
    }

    /// Counts a closed sending socket; returns whether the job ends with it.
    pub fn flow_closed(&mut self, index: usize) -> bool {
        self.jobs.get_mut(index).is_some_and(|job| {
            job.flows = job.flows.saturating_sub(1);
            job.ephemeral && job.flows == 0
        })
    }

    /// Jobs from this key on, sorted, as many as one reply holds, and the key of the next one. The
    /// names and cgroups of other users' jobs are for those who `may_identify`.
    pub fn infos(&self, from: JobKey, user: JobUser, may_identify: bool) -> Reply {
        let jobs = self.jobs.iter().map(|(_, job)| job);
        let mut jobs: Vec<_> = jobs.filter(|job| job.key() >= from).collect();
        jobs.sort_unstable_by_key(|job| job.key());
        let next = jobs.get(INFOS_MAX).map(|job| job.key());
        let info = |job: &JobRecord| match may_identify || job.user == user {
            true => job.info(),
            false => JobInfo { name: None, cgroup: None, ..job.info() },
        };
        let jobs = jobs.into_iter().take(INFOS_MAX).map(info).collect();
        let (next, user) = next.unzip();
        let (next_uid, next_container) =
            (user.map(|user| user.uid), user.and_then(|user| user.container));
        Reply::Jobs { jobs, next, next_uid, next_container }
    }

    /// Refuses a cgroup that has a job.
    fn check_cgroup(&self, (path, cgroup): &(PathBuf, u64)) -> Result<(), Refusal> {
        let Some((_, owner)) = self.of_cgroups(&[*cgroup]) else { return Ok(()) };
        let (path, owner) = (path.display(), owner.id);
        refuse(
            RefusalKind::InUse,
            format!("cgroup {path} is already bound to job {owner}: choose another cgroup"),
        )
    }

    /// Refuses an id that its user has already, or that a bound job would share.
    fn check_id(&self, id: u32, new: &NewJob, user: JobUser) -> Result<(), Refusal> {
        let other = match &new.cgroup {
            Some(_) => self.with_id(id).next(),
            None => self.bound(id).or_else(|| self.of_user(id, user)),
        };
        let Some((_, other)) = other else { return Ok(()) };
        let message = match (&other.cgroup, other.user == user) {
            (None, true) => format!("job {id} already exists: choose another id"),
            (None, false) => other.keeps_id(),
            (Some(_), _) => format!("job {id} is bound to a cgroup: choose another id"),
        };
        refuse(RefusalKind::InUse, message)
    }

    fn unused_id(&self) -> u32 {
        loop {
            let id = rand::random_range(1..=u32::MAX);
            if self.with_id(id).next().is_none() {
                return id;
            }
        }
    }
}

impl JobRecord {
    /// The job's identity.
    pub const fn key(&self) -> JobKey {
        (self.id, self.user)
    }

    /// Why a job with this id can't be bound to a cgroup.
    fn keeps_id(&self) -> String {
        format!(
            "user {} has a job {}, and a cgroup's job shares its id with no other: choose another \
             id, or end that job",
            self.user, self.id
        )
    }

    /// The job as a reply describes it.
    pub fn info(&self) -> JobInfo {
        JobInfo {
            id: self.id,
            name: self.name.clone(),
            cgroup: self.cgroup.as_ref().map(|(path, _)| path.clone()),
            uid: self.user.uid,
            container: self.user.container,
            ephemeral: self.ephemeral,
            flows: self.flows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::tenant::Tenant;
    use approxlib::control::PACKET_BYTES_MAX;

    fn user(uid: u32) -> Peer {
        let tenant = if uid == 0 { Tenant::Root } else { Tenant::User(uid) };
        Peer { session: 0, uid, pid: 1, tenant }
    }

    /// All jobs, page by page.
    fn listed(jobs: &Jobs) -> Vec<JobKey> {
        let (mut listed, mut from) = (Vec::new(), Some((0, JobUser::default())));
        while let Some(page) = from {
            let Reply::Jobs { jobs, next, next_uid, next_container: container } =
                jobs.infos(page, 0.into(), true)
            else {
                unreachable!("another reply")
            };
            listed.extend(jobs.iter().map(|job| (job.id, job.user())));
            from = next.zip(next_uid).map(|(id, uid)| (id, JobUser { uid, container }));
        }
        listed
    }

    /// A user of a container without a user namespace.
    fn contained(uid: u32) -> Peer {
        Peer { tenant: Tenant::Container(7), ..user(uid) }
    }

    fn kind<T: std::fmt::Debug>(result: Result<T, Refusal>) -> RefusalKind {
        result.unwrap_err().kind
    }

    #[test]
    fn create__gives_every_job_its_own_id() {
        let mut jobs = Jobs::default();
        for _ in 0..JOBS {
            jobs.create(NewJob::default(), user(0)).unwrap();
        }
        assert_eq!(kind(jobs.create(NewJob::default(), user(0))), RefusalKind::NoRoom);
        let listed = listed(&jobs);
        assert_eq!(listed.len(), JOBS as usize);
        assert!(listed.is_sorted_by(|one, next| one.0 < next.0));
    }

    /// Containers with the host's user ids have users of their own, in the list as well.
    #[test]
    fn owned__users_of_containers_are_others_than_those_of_the_host() {
        let mut jobs = Jobs::default();
        let new = || NewJob { id: Some(7), ..NewJob::default() };
        let of_host = jobs.create(new(), user(1000)).unwrap();
        let roots = jobs.create(new(), user(0)).unwrap();
        for uid in [0, 1000] {
            assert_eq!(kind(jobs.owned(7, contained(uid), None)), RefusalKind::NotYours);
            assert!(jobs.of_user(7, contained(uid).user()).is_none());
        }
        let inside = jobs.create(new(), contained(0)).unwrap();
        assert_eq!(jobs.owned(7, contained(0), None), Ok(inside));
        assert_eq!(jobs.owned(7, user(1000), None), Ok(of_host));
        let refusal = jobs.owned(7, user(0), None).unwrap_err();
        assert!(refusal.message.starts_with("the users 0, 0@7, 1000 each"), "{}", refusal.message);
        for (name, index) in [("0", roots), ("0@7", inside), ("1000", of_host)] {
            assert_eq!(jobs.owned(7, user(0), Some(name.parse().unwrap())), Ok(index));
        }
        for cgroup in 100..100 + 2 * INFOS_MAX as u64 {
            jobs.create(new(), Peer { tenant: Tenant::Container(cgroup), ..user(0) }).unwrap();
        }
        let listed = listed(&jobs);
        assert_eq!(listed.len(), 3 + 2 * INFOS_MAX);
        assert!(listed.is_sorted_by(|one, next| one < next));
    }

    /// Uid 0 of a container has the rights of its uid alone.
    #[test]
    fn owned__root_of_a_container_is_not_root() {
        let mut jobs = Jobs::default();
        jobs.create(NewJob { id: Some(1), ..NewJob::default() }, user(1000)).unwrap();
        assert_eq!(kind(jobs.owned(1, contained(0), None)), RefusalKind::NotYours);
        assert_eq!(kind(jobs.owned(1, contained(0), Some(1000.into()))), RefusalKind::NotYours);
    }

    #[test]
    fn infos__fit_one_reply_at_maximum_length() {
        let mut jobs = Jobs::default();
        for number in 0..JOBS {
            let cgroup = Some((PathBuf::from("\"".repeat(2_048)), number.into()));
            let name = Some("\"".repeat(64));
            jobs.create(NewJob { cgroup, name, ..NewJob::default() }, user(0)).unwrap();
        }
        let page = jobs.infos((0, 0.into()), 0.into(), true);
        let bytes = serde_json::to_vec(&page).unwrap().len();
        assert!(bytes < PACKET_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn infos__names_are_not_for_other_users() {
        let mut jobs = Jobs::default();
        for uid in [1000, 1001] {
            let cgroup = Some((PathBuf::from("/cg"), uid.into()));
            let name = Some("mean".to_owned());
            jobs.create(NewJob { name, cgroup, ..NewJob::default() }, user(uid)).unwrap();
        }
        for (uid, may_identify) in [(1000, false), (1001, false), (1002, false), (0, true)] {
            let Reply::Jobs { jobs, .. } = jobs.infos((0, 0.into()), uid.into(), may_identify)
            else {
                unreachable!("another reply")
            };
            for job in jobs {
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
            let job = jobs.create(NewJob { ephemeral, ..NewJob::default() }, user(0)).unwrap();
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
        jobs.create(NewJob { id: Some(7), cgroup: cgroup.clone(), ..NewJob::default() }, user(0))
            .unwrap();
        assert_eq!(
            kind(jobs.create(NewJob { id: Some(7), ..NewJob::default() }, user(0))),
            RefusalKind::InUse
        );
        assert_eq!(
            kind(jobs.create(NewJob { cgroup, ..NewJob::default() }, user(0))),
            RefusalKind::InUse
        );
    }

    #[test]
    fn attach__refuses_a_taken_id_or_cgroup() {
        let mut jobs = Jobs::default();
        let new = |id| NewJob { id: Some(id), ephemeral: true, ..NewJob::default() };
        let [one, two] = [7, 8].map(|id| jobs.create(new(id), user(1000)).unwrap());
        let cgroup = |id| (PathBuf::from("/cg"), id);
        jobs.attach(one, cgroup(77)).unwrap();
        let bound = jobs.get(one).unwrap();
        assert!(bound.cgroup == Some(cgroup(77)) && !bound.ephemeral, "{bound:?}");
        assert_eq!(kind(jobs.attach(one, cgroup(78))), RefusalKind::InUse);
        assert_eq!(kind(jobs.attach(two, cgroup(77))), RefusalKind::InUse);
        let others = jobs.create(new(8), user(1001)).unwrap();
        assert_eq!(kind(jobs.attach(two, cgroup(78))), RefusalKind::InUse);
        jobs.remove(others);
        jobs.attach(two, cgroup(78)).unwrap();
    }

    #[test]
    fn of_cgroups__takes_the_nearest() {
        let mut jobs = Jobs::default();
        for (id, cgroup) in [(1, 10), (2, 20)] {
            let cgroup = Some((PathBuf::new(), cgroup));
            jobs.create(NewJob { id: Some(id), cgroup, ..NewJob::default() }, user(0)).unwrap();
        }
        assert_eq!(jobs.of_cgroups(&[5, 20, 10]).unwrap().1.id, 2);
        assert!(jobs.of_cgroups(&[5]).is_none());
    }

    #[test]
    fn owned__only_by_its_user_or_root() {
        let mut jobs = Jobs::default();
        let one = jobs.create(NewJob { id: Some(1), ..NewJob::default() }, user(1000)).unwrap();
        assert_eq!(
            (jobs.owned(1, user(1000), None), jobs.owned(1, user(0), None)),
            (Ok(one), Ok(one))
        );
        assert_eq!(kind(jobs.owned(1, user(1001), None)), RefusalKind::NotYours);
        assert_eq!(kind(jobs.owned(1, user(1001), Some(1000.into()))), RefusalKind::NotYours);
        for (asker, wanted) in [(0, None), (0, Some(1000)), (1000, None)] {
            let wanted = wanted.map(JobUser::from);
            assert_eq!(kind(jobs.owned(2, user(asker), wanted)), RefusalKind::UnknownJob);
        }
        // Each user ends its own one, and root says which.
        let other = jobs.create(NewJob { id: Some(1), ..NewJob::default() }, user(1001)).unwrap();
        assert_eq!(
            (jobs.owned(1, user(1000), None), jobs.owned(1, user(1001), None)),
            (Ok(one), Ok(other))
        );
        assert_eq!(jobs.owned(1, user(0), Some(1001.into())), Ok(other));
        let refusal = jobs.owned(1, user(0), None).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::BadRequest);
        assert!(refusal.message.starts_with("the users 1000, 1001 each"), "{}", refusal.message);
        let refusal = jobs.owned(1, user(0), Some(1002.into())).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::UnknownJob);
        let begin = "user 1002 has no job 1, user 1000 has one: ";
        assert!(refusal.message.starts_with(begin), "{}", refusal.message);
    }

    /// A page ends between two jobs of one id, and the list misses and repeats none.
    #[test]
    fn infos__pages_by_id_and_user() {
        let mut jobs = Jobs::default();
        for uid in 0..3 * INFOS_MAX as u32 {
            for id in [7, 8] {
                jobs.create(NewJob { id: Some(id), ..NewJob::default() }, user(uid)).unwrap();
            }
        }
        let users = |id| (0..3 * INFOS_MAX as u32).map(move |uid| (id, uid.into()));
        assert_eq!(listed(&jobs), users(7).chain(users(8)).collect::<Vec<_>>());
    }

    #[test]
    fn create__gives_each_user_its_own_ids_except_those_of_cgroups() {
        let mut jobs = Jobs::default();
        let mut create = |id, uid, cgroup: Option<u64>| {
            let cgroup = cgroup.map(|id| (PathBuf::from("/cg"), id));
            jobs.create(NewJob { id: Some(id), cgroup, ..NewJob::default() }, user(uid))
        };
        create(7, 1000, None).unwrap();
        create(7, 1001, None).unwrap();
        assert_eq!(kind(create(7, 1000, None)), RefusalKind::InUse);
        create(8, 0, Some(77)).unwrap();
        for (id, uid, cgroup) in [(7, 0, Some(78)), (8, 1000, None), (8, 0, None), (8, 0, Some(78))]
        {
            assert_eq!(kind(create(id, uid, cgroup)), RefusalKind::InUse, "{id} of {uid}");
        }
    }
}
