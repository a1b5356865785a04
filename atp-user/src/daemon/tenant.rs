//! Finds the owner of a connection, whose budget its client uses.
//!
//! A user id doesn't tell the owner: a user with subordinate ids is 65,536 users, and so is a
//! container. Uid 0 of a container without a user namespace is root's uid, and yet not root. Most
//! of this is read from files that every user can read, because the packaged daemon isn't root.

use super::{
    cgroup::{self, ProcessCgroup},
    subordinate_ids::SubordinateIds,
    user_namespace,
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{getsockopt, sockopt},
};
use std::{
    fmt, fs, io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant {
    /// Uid 0 in the daemon's own namespaces.
    Root,
    /// A user other than root, with its subordinate ids and its user namespaces.
    User(u32),
    /// Subordinate ids of root or of no account, by the first one: those of root's containers.
    Range(u32),
    /// A container of root's, by the number of its cgroup. So is a container whose user namespace
    /// the daemon may not look at.
    Container(u64),
    /// A client whose process had ended when the daemon looked at it. It gets nothing: it could end
    /// its process at once to be looked at as another one.
    Gone,
}

impl Tenant {
    /// The number of its container. Some containers have the user ids of the host, and yet their
    /// users are others: those have jobs of their own.
    pub const fn container(self) -> Option<u64> {
        match self {
            Self::Container(cgroup) => Some(cgroup),
            Self::Root | Self::User(_) | Self::Range(_) | Self::Gone => None,
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => write!(f, "root"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Range(first) => write!(f, "the container with user ids from {first} on"),
            Self::Container(_) => write!(f, "the container of this process"),
            Self::Gone => write!(f, "a process that has ended"),
        }
    }
}

/// A client when it connected.
pub struct Admitted {
    /// The owner.
    pub tenant: Tenant,
    /// The ids of the client's cgroup and of that one's ancestors, nearest first.
    pub cgroups: Vec<u64>,
    /// The path of the client's cgroup; `None` if it can't be seen.
    pub cgroup: Option<PathBuf>,
}

/// Tells owners apart.
pub struct Tenants {
    subordinate: SubordinateIds,
    /// `uid_map` of the daemon's own user namespace.
    own_uid_map: String,
}

/// The facts of a process, from its files.
struct Process {
    uid_map: String,
    is_in_nested_pid_namespace: bool,
    cgroup: ProcessCgroup,
    /// The user who made its user namespace, as [`user_namespace::owner`] finds it.
    namespace_owner: io::Result<Option<u32>>,
}

impl Tenants {
    /// # Errors
    /// `/proc` isn't mounted.
    pub fn new() -> io::Result<Self> {
        let own_uid_map = fs::read_to_string("/proc/self/uid_map")?;
        Ok(Self { subordinate: SubordinateIds::of_this_host(), own_uid_map })
    }

    /// The owner of a connection whose peer was user `uid` in process `pid` when it connected.
    pub fn of_peer(&mut self, socket: &impl AsFd, uid: u32, pid: i32) -> Admitted {
        let pidfd = getsockopt(&socket.as_fd(), sockopt::PeerPidfd);
        let process = Process::of(pid);
        // If the process lives, its number was not given to another one while the files were read.
        // A process without a number is in another PID namespace, and none that `/proc` shows.
        if pid == 0 || !pidfd.is_ok_and(|pidfd| is_alive(&pidfd)) {
            return Admitted { tenant: Tenant::Gone, cgroups: Vec::new(), cgroup: None };
        }
        let tenant = match (self.of_subordinate(uid), &process) {
            (Some(tenant), _) => tenant,
            (None, Ok(process)) => self.of_process(uid, process),
            // `/proc` hides the processes of others (`hidepid`): nothing proves that it is root.
            (None, Err(_)) if uid == 0 => Tenant::Container(cgroup::UNSEEN),
            (None, Err(_)) => Tenant::User(uid),
        };
        let cgroup = process.map(|process| process.cgroup).ok();
        let cgroups = cgroup.as_ref().map(ProcessCgroup::ids).unwrap_or_default();
        Admitted { tenant, cgroups, cgroup: cgroup.map(|cgroup| cgroup.path()) }
    }

    /// The owner of a subordinate id.
    fn of_subordinate(&mut self, uid: u32) -> Option<Tenant> {
        let range = self.subordinate.range_of(uid)?;
        // A container manager run by root takes its ranges from root's, or from those of a name
        // that no account has.
        let user = range.uid.filter(|user| *user != 0);
        Some(user.map_or(Tenant::Range(range.first), Tenant::User))
    }

    fn of_process(&mut self, uid: u32, process: &Process) -> Tenant {
        match process.namespace_owner(uid, &self.own_uid_map) {
            Some(owner) if owner != 0 && uid != 0 => {
                self.of_subordinate(owner).unwrap_or(Tenant::User(owner))
            }
            None if !process.is_in_nested_pid_namespace && uid == 0 => Tenant::Root,
            None if !process.is_in_nested_pid_namespace => Tenant::User(uid),
            // A setuid program made the PID namespace: the session is the user's own.
            _ if uid != 0 && process.cgroup.user() == Some(uid) => Tenant::User(uid),
            _ => Tenant::Container(process.cgroup.container()),
        }
    }
}

impl Process {
    /// # Errors
    /// The process has ended, or `/proc` hides it.
    fn of(pid: i32) -> io::Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        Ok(Self {
            uid_map: read("uid_map")?,
            is_in_nested_pid_namespace: is_in_nested_pid_namespace(&read("status")?),
            cgroup: ProcessCgroup::of(pid)?,
            namespace_owner: user_namespace::owner(pid),
        })
    }

    /// The user who made its user namespace: 0 for root, and if nothing tells. `None` if it is in
    /// the daemon's own.
    fn namespace_owner(&self, uid: u32, own_uid_map: &str) -> Option<u32> {
        match self.namespace_owner {
            Ok(owner) => owner,
            Err(_) if self.uid_map == own_uid_map => None,
            // Any user may map its own id alone, without help.
            Err(_) => {
                let alone = is_alone(&self.uid_map, uid).then_some(uid);
                Some(self.cgroup.user().or(alone).unwrap_or(0))
            }
        }
    }
}

/// Whether a user namespace maps this id, and none beside it.
fn is_alone(uid_map: &str, uid: u32) -> bool {
    let numbers = |line: &str| -> Option<(u32, u32)> {
        let mut words = line.split_whitespace().skip(1).map(str::parse);
        Some((words.next()?.ok()?, words.next()?.ok()?))
    };
    uid_map.lines().filter_map(numbers).any(|range| range == (uid, 1))
}

/// Whether a process has more ids than the one in the PID namespace of `/proc`.
fn is_in_nested_pid_namespace(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_none_or(|ids| ids.split_whitespace().count() != 1)
}

/// Whether the process of a pidfd has not ended.
fn is_alive(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    fn tenants() -> Tenants {
        Tenants { own_uid_map: "0 0 4294967295\n".into(), ..Tenants::new().unwrap() }
    }

    /// The daemon may look at the namespace.
    #[test]
    fn of_process__the_user_who_made_the_namespace() {
        let mut tenants = tenants();
        let process = |owner| Process {
            uid_map: "0 3000000 65536\n".into(),
            is_in_nested_pid_namespace: true,
            cgroup: ProcessCgroup::of(std::process::id() as i32).unwrap(),
            namespace_owner: Ok(owner),
        };
        assert_eq!(tenants.of_process(3_000_000, &process(Some(1_003))), Tenant::User(1_003));
        // Root's containers have a cgroup each, and so has a container with the host's ids.
        for (uid, owner) in [(3_000_000, Some(0)), (0, Some(0)), (0, Some(1_003)), (0, None)] {
            let tenant = tenants.of_process(uid, &process(owner));
            assert!(matches!(tenant, Tenant::Container(_)), "{tenant:?}");
        }
    }

    /// The packaged daemon may not look at the namespaces of others.
    #[test]
    fn of_process__of_a_namespace_that_is_out_of_sight() {
        let mut tenants = tenants();
        let mut of = |uid, uid_map: &str, cgroup: &str| {
            let process = Process {
                uid_map: uid_map.into(),
                is_in_nested_pid_namespace: false,
                cgroup: ProcessCgroup::at(cgroup),
                namespace_owner: Err(io::ErrorKind::PermissionDenied.into()),
            };
            tenants.of_process(uid, &process)
        };
        let session = "/user.slice/user-1003.slice/session-1.scope";
        // Two ranges of one user, and an id of a nested namespace.
        for (uid, map) in [
            (3_000_000, "0 3000000 65536"),
            (3_100_000, "0 3100000 65536"),
            (3_100_001, "0 3100001 1"),
        ] {
            assert_eq!(of(uid, map, session), Tenant::User(1_003));
        }
        assert_eq!(of(1_003, "0 1003 1\n1 3000000 9", "/slurm/a"), Tenant::User(1_003));
        // Cgroups that a container may make don't tell containers apart.
        for (uid, cgroup) in [(3_000_000, "/a"), (3_000_001, "/a/b.scope"), (3_100_000, "/a/c/d")] {
            let tenant = of(uid, "0 3000000 200000", cgroup);
            assert_eq!(tenant, Tenant::Container(cgroup::UNSEEN), "{cgroup}");
        }
        // A namespace that maps root is no root.
        for map in ["0 0 65536", "0 0 1", "a b c"] {
            let tenant = of(0, map, session);
            assert!(matches!(tenant, Tenant::Container(_)), "{tenant:?}");
        }
        assert_eq!(of(0, "0 0 4294967295\n", session), Tenant::Root);
        assert_eq!(of(1_003, "0 0 4294967295\n", "/a"), Tenant::User(1_003));
    }

    #[test]
    fn is_in_nested_pid_namespace__by_the_count_of_ids() {
        assert!(!is_in_nested_pid_namespace("Pid:\t7\nNSpid:\t7\nNSpgid:\t7\t1\n"));
        assert!(is_in_nested_pid_namespace("Pid:\t7\nNSpid:\t7\t1\n"));
        assert!(is_in_nested_pid_namespace("Pid:\t7\n"), "a kernel that doesn't say");
    }

    #[test]
    fn of_peer__this_process() {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (here, _there) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let mut tenants = Tenants::new().unwrap();
        let pid = std::process::id() as i32;
        let mut of = |uid, pid| tenants.of_peer(&here, uid, pid).tenant;
        assert_eq!(of(0, pid), Tenant::Root);
        assert_eq!(of(1000, pid), Tenant::User(1000));
        // Its files can't be read, but it lives: not root.
        assert_eq!(of(0, -1), Tenant::Container(cgroup::UNSEEN));
        // Nothing says that this process lives.
        let unrelated = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(tenants.of_peer(&unrelated, 0, pid).tenant, Tenant::Gone);
    }
}
