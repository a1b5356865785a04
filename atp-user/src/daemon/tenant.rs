//! Finds the owner of a connection, whose budget its client uses.
//!
//! A user id doesn't tell the owner: a user with subordinate ids is 65,536 users, and so is a
//! container. Uid 0 of a container without a user namespace is root's uid, and yet not root. All of
//! this is read from files that every user can read, because the packaged daemon isn't root.

use super::{cgroup, subordinate_ids::SubordinateIds};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{getsockopt, sockopt},
};
use std::{
    fmt, fs, io,
    os::fd::{AsFd, OwnedFd},
};

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant {
    /// Uid 0 in the daemon's own namespaces.
    Root,
    /// A user other than root, with its subordinate ids.
    User(u32),
    /// A range of ids, by its first one: those of a user namespace whose owner isn't known.
    Range(u32),
    /// A container without a user namespace, by the id of its cgroup; 0 if that can't be seen.
    Container(u64),
    /// All clients whose process had ended when the daemon looked at it.
    Gone,
}

impl Tenant {
    /// The number of its container. Some containers have the user ids of the host, and yet their
    /// users are others: those have jobs of their own.
    pub const fn container(self) -> Option<u64> {
        match self {
            Self::Root | Self::User(_) => None,
            Self::Range(first) => Some(first as u64),
            Self::Container(cgroup) => Some(cgroup),
            Self::Gone => Some(u64::MAX),
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => write!(f, "root"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Range(first) => write!(f, "the user namespace with ids from {first} on"),
            Self::Container(_) => write!(f, "the container of this process"),
            Self::Gone => write!(f, "a process that has ended"),
        }
    }
}

/// Tells owners apart.
pub struct Tenants {
    subordinate: SubordinateIds,
    /// `uid_map` of the daemon's own user namespace.
    own_uid_map: String,
}

impl Tenants {
    /// # Errors
    /// `/proc` isn't mounted.
    pub fn new() -> io::Result<Self> {
        let own_uid_map = fs::read_to_string("/proc/self/uid_map")?;
        Ok(Self { subordinate: SubordinateIds::of_this_host(), own_uid_map })
    }

    /// The owner of a connection whose peer was user `uid` in process `pid` when it connected.
    pub fn of_peer(&mut self, socket: &impl AsFd, uid: u32, pid: i32) -> Tenant {
        if let Some(range) = self.subordinate.range_of(uid) {
            // A container manager run by root takes its ranges from root's, or from those of a name
            // that no account has.
            let user = range.uid.filter(|user| *user != 0);
            return user.map_or(Tenant::Range(range.first), Tenant::User);
        }
        let process = getsockopt(&socket.as_fd(), sockopt::PeerPidfd);
        let owner = self.of_process(uid, pid);
        // If the process lives, its number was not given to another one while the files were read.
        // A client could end its process at once to be looked at as another one. So these clients
        // share one budget, and none of them is root.
        match process {
            Ok(process) if is_alive(&process) => owner.unwrap_or_else(|_| of_uid(uid)),
            _ => Tenant::Gone,
        }
    }

    /// # Errors
    /// The process has ended, or `/proc` hides the processes of others (`hidepid`).
    fn of_process(&self, uid: u32, pid: i32) -> io::Result<Tenant> {
        let uid_map = fs::read_to_string(format!("/proc/{pid}/uid_map"))?;
        if uid_map != self.own_uid_map {
            return Ok(of_range(&uid_map, uid));
        }
        if is_in_nested_pid_namespace(&fs::read_to_string(format!("/proc/{pid}/status"))?) {
            return Ok(Tenant::Container(cgroup::id_of_container(pid).unwrap_or(0)));
        }
        Ok(if uid == 0 { Tenant::Root } else { Tenant::User(uid) })
    }
}

/// The owner of an id of which nothing else is known. Uid 0 is not proven to be root.
const fn of_uid(uid: u32) -> Tenant {
    if uid == 0 { Tenant::Range(0) } else { Tenant::User(uid) }
}

/// The owner of an id in another user namespace: the user, if the namespace maps that one alone, as
/// any user may do without help. Who may map a range is root, or has subordinate ids.
fn of_range(uid_map: &str, uid: u32) -> Tenant {
    let numbers = |line: &str| {
        let mut words = line.split_whitespace().skip(1).map(str::parse);
        Some((words.next()?.ok()?, words.next()?.ok()?))
    };
    let mut ranges = uid_map.lines().filter_map(numbers);
    let holds = |&(first, count): &(u32, u32)| uid.checked_sub(first).is_some_and(|at| at < count);
    match ranges.find(holds) {
        Some((first, 2..)) => Tenant::Range(first),
        _ => of_uid(uid),
    }
}

/// Whether a process has more ids than the one in the PID namespace of `/proc`.
fn is_in_nested_pid_namespace(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_none_or(|ids| ids.split_whitespace().count() != 1)
}

/// Whether the process that connected a socket has not ended.
pub fn peer_is_alive(socket: &impl AsFd) -> bool {
    getsockopt(&socket.as_fd(), sockopt::PeerPidfd).is_ok_and(|process| is_alive(&process))
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

    #[test]
    fn of_range__the_range_that_holds_the_id() {
        // Rootless Podman, without its line in /etc/subuid.
        let podman = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(of_range(podman, 1000), Tenant::User(1000));
        assert_eq!(of_range(podman, 100_000), Tenant::Range(100_000));
        assert_eq!(of_range(podman, 165_535), Tenant::Range(100_000));
        assert_eq!(of_range(podman, 165_536), Tenant::User(165_536));
        // A namespace that maps root is no root.
        assert_eq!(of_range("0 0 65536", 0), Tenant::Range(0));
        assert_eq!(of_range("0 0 1", 0), Tenant::Range(0));
        assert_eq!(of_range("", 0), Tenant::Range(0));
        assert_eq!(of_range("a b c\n0 9", 9), Tenant::User(9));
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
        assert_eq!(tenants.of_peer(&here, 0, pid), Tenant::Root);
        assert_eq!(tenants.of_peer(&here, 1000, pid), Tenant::User(1000));
        // Its files can't be read, but it lives: not root.
        assert_eq!(tenants.of_peer(&here, 0, -1), Tenant::Range(0));
        // Nothing says that this process lives.
        let unrelated = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(tenants.of_peer(&unrelated, 0, pid), Tenant::Gone);
    }
}
