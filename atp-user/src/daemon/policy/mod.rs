//! The operator's policy: who may create jobs, and how much the jobs of each may use.
//!
//! The first rule that names a client decides. Its limits are those of the user, the group or the
//! cgroup that it names: all clients of that one share them. Root is limited only by a rule that
//! names it. A job that runs is not ended by a new policy, but its lanes follow it.

mod file;
mod identity;
mod parse;
mod reload;
mod show;
mod split;
mod warnings;

pub use identity::{Identity, groups_of_peer};
pub use parse::PolicyError;
pub use reload::Reload;
pub use split::split;

use super::tenant::Tenant;
use approxlib::control::{Refusal, RefusalKind};
use atp_common::units::{Msr, Rate, Share};
use std::{fmt, path::PathBuf};
use tokio::task::spawn_blocking;

/// The rules of a file.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    /// The limits of clients that no rule names; `None` only if there are no rules either.
    others: Option<Limits>,
}

/// Limits for users, groups and cgroups.
#[derive(Clone, Debug)]
struct Rule {
    /// Where it is in the file, counted from 1.
    line: usize,
    users: Vec<u32>,
    groups: Vec<u32>,
    /// Paths below the mount point, with a leading slash, as in `/proc/PID/cgroup`.
    cgroups: Vec<PathBuf>,
    limits: Limits,
}

/// The limits of the jobs of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of jobs at the same time.
    pub jobs_max: Option<u32>,
    /// The least MSR that a job may ask for.
    pub msr_min: Msr,
    /// The highest rate of a lane.
    pub rate_max: Rate,
    /// The highest queue of a lane: 0 is the exact one.
    pub queue_highest: u8,
    /// The share of the line that all lanes have together.
    pub port_share_max: Share,
}

/// The holder of limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A user, with its subordinate ids.
    User(u32),
    /// All users of a group.
    Group(u32),
    /// All processes of a cgroup and of those below it.
    Cgroup(PathBuf),
    /// An owner that no rule names.
    Other(Tenant),
}

/// A limit that refuses requests. The others slow lanes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::jobs_max`].
    JobsMax,
    /// [`Limits::msr_min`].
    MsrMin,
    /// [`Limits::queue_highest`].
    QueueHighest,
}

/// A request beyond a limit.
#[derive(Debug)]
pub struct Forbidden {
    /// The limit.
    pub limit: Limit,
    /// The sentence for the client.
    pub message: String,
    /// Whether the same request is allowed once the subject has ended a job.
    pub may_pass: bool,
}

/// Refuses as a mistake of the request: a library of any version fails then, and doesn't go on in
/// userspace.
impl From<Forbidden> for Refusal {
    fn from(forbidden: Forbidden) -> Self {
        Self { kind: RefusalKind::BadRequest, message: forbidden.message }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Group(gid) => write!(f, "group {gid}"),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::Other(tenant) => write!(f, "{tenant}"),
        }
    }
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        jobs_max: None,
        msr_min: Msr::NONE,
        rate_max: Rate::MAX,
        queue_highest: 0,
        port_share_max: Share::ONE,
    };

    /// The rate that all lanes of the subject have together on a line; `None` if it may fill it.
    pub fn shared_rate(&self, line: Rate) -> Option<Rate> {
        let part = u128::from(line.bytes_per_s()) * u128::from(self.port_share_max.q16());
        let bytes_per_s = u64::try_from(part >> 16).unwrap_or(u64::MAX).max(1);
        (self.port_share_max != Share::ONE).then(|| Rate::from_bytes_per_s(bytes_per_s))
    }
}

impl Policy {
    /// The subject that a client belongs to, with its limits; `None` if the client has none.
    pub fn of(&self, client: &Identity) -> Option<(Subject, Limits)> {
        let named = self.rules.iter().find_map(|rule| Some((rule.subject(client)?, rule.limits)));
        let other = || (Subject::Other(client.tenant), self.others.unwrap_or(Limits::NONE));
        match client.tenant {
            Tenant::Root => named,
            _ => Some(named.unwrap_or_else(other)),
        }
    }

    /// Refuses a new job of a client whose subject has `jobs` already.
    pub fn check_jobs(
        &self,
        client: &Identity,
        jobs: impl FnOnce(&Subject) -> usize,
    ) -> Result<(), Forbidden> {
        let Some((subject, limits)) = self.of(client) else { return Ok(()) };
        let (may_pass, message) = match limits.jobs_max {
            None => return Ok(()),
            Some(0) => {
                (false, format!("this host's policy allows {subject} no job: ask its operator"))
            }
            Some(most) if jobs(&subject) < most as usize => return Ok(()),
            Some(most) => (
                true,
                format!(
                    "{subject} has as many jobs as this host's policy allows, {most}: end one first"
                ),
            ),
        };
        Err(Forbidden { limit: Limit::JobsMax, message, may_pass })
    }

    /// Refuses a lane with an MSR that the client's subject may not ask for.
    pub fn check_msr(&self, client: &Identity, msr: Msr) -> Result<(), Forbidden> {
        let Some((subject, limits)) = self.of(client) else { return Ok(()) };
        let least = limits.msr_min;
        let (limit, message) = if msr < least {
            let (msr, least) = (ratio(msr), ratio(least));
            let message = format!(
                "the MSR {msr} is below {least}, the least that this host's policy allows \
                     {subject}: ask for {least} or more"
            );
            (Limit::MsrMin, message)
        } else if msr.is_exact() && limits.queue_highest > 0 {
            let queue = limits.queue_highest;
            let message = format!(
                "an MSR of 1 needs queue 0, and queue {queue} is the highest that this host's \
                     policy allows {subject}: ask for less than 1"
            );
            (Limit::QueueHighest, message)
        } else {
            return Ok(());
        };
        Err(Forbidden { limit, message, may_pass: false })
    }

    /// The number of rules.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Whether nobody is limited.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.others.is_none_or(|others| others == Limits::NONE)
    }

    /// Whether somebody gets a share of the line only.
    pub fn has_shares(&self) -> bool {
        let all = self.rules.iter().map(|rule| &rule.limits).chain(&self.others);
        all.into_iter().any(|limits| limits.port_share_max != Share::ONE)
    }

    /// Logs what is in force, and the warnings a moment later: nobody waits for their lookups.
    pub fn log(&self) {
        match self.is_empty() {
            true => tracing::info!("the policy limits nobody: every user may create jobs"),
            false => tracing::info!(
                rules = self.rules.len(),
                others = self.others.is_some_and(|others| others != Limits::NONE),
                "policy read"
            ),
        }
        let policy = self.clone();
        spawn_blocking(move || {
            for warning in policy.warnings() {
                tracing::warn!("the policy, {warning}");
            }
        });
    }
}

impl Rule {
    fn subject(&self, client: &Identity) -> Option<Subject> {
        let user = client.user().filter(|user| self.users.contains(user)).map(Subject::User);
        user.or_else(|| {
            let group = self.groups.iter().find(|group| client.groups().contains(group));
            group.copied().map(Subject::Group)
        })
        .or_else(|| {
            let own = client.cgroup.as_ref()?;
            self.cgroups.iter().find(|cgroup| own.starts_with(cgroup)).cloned().map(Subject::Cgroup)
        })
    }
}

/// An MSR for people.
fn ratio(msr: Msr) -> f64 {
    f64::from(msr.parts_per_billion()) / 1e9
}
