//! The properties of a client that a policy reads.

use crate::daemon::tenant::Tenant;
use nix::errno::Errno;
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    path::PathBuf,
};

/// The most groups that are kept beside the main one. A user with subordinate ids can have 65,536.
const GROUPS_MAX: usize = 1_024;

/// A client when it connected.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The owner.
    pub tenant: Tenant,
    /// The groups of the process.
    pub groups: Vec<u32>,
    /// The cgroup of the process, from the root of all; `None` if it can't be seen.
    pub cgroup: Option<PathBuf>,
    /// The ids of that cgroup and of its ancestors, nearest first.
    pub cgroup_ids: Vec<u64>,
}

impl Identity {
    /// A client of which only the owner is known.
    #[cfg(test)]
    pub const fn of(tenant: Tenant) -> Self {
        Self { tenant, groups: Vec::new(), cgroup: None, cgroup_ids: Vec::new() }
    }

    /// The user that a rule can name; `None` in a container, whose image chooses users and groups.
    pub fn user(&self) -> Option<u32> {
        match self.tenant {
            Tenant::Root => Some(0),
            Tenant::User(uid) => Some(uid),
            _ => None,
        }
    }

    /// The groups that a rule can name.
    pub fn groups(&self) -> &[u32] {
        if self.user().is_some() { &self.groups } else { &[] }
    }
}

/// The groups of a socket's peer when it connected, of which `gid` is the main one.
///
/// # Errors
/// The socket isn't of the Unix domain.
pub fn groups_of_peer(socket: &impl AsFd, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = Vec::new();
    loop {
        let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
        let fd = socket.as_fd().as_raw_fd();
        let (to, len) = (groups.as_mut_ptr().cast(), &raw mut bytes);
        // SAFETY: `to` has room for the number of bytes that `len` states, and any bytes are
        // group ids.
        let read = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, to, len) };
        groups.resize(bytes as usize / size_of::<u32>(), 0);
        match Errno::result(read) {
            Ok(_) => break,
            // The kernel has stated the length that it needs.
            Err(Errno::ERANGE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    groups.truncate(GROUPS_MAX);
    groups.push(gid);
    groups.shrink_to_fit();
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{
        sys::socket::{AddressFamily, SockFlag, SockType, socketpair},
        unistd::{Gid, getgroups},
    };

    #[test]
    fn groups_of_peer__are_those_of_the_process() {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (here, _there) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let mut expected: Vec<u32> = getgroups().unwrap().into_iter().map(Gid::as_raw).collect();
        expected.push(7);
        assert_eq!(groups_of_peer(&here, 7).unwrap(), expected);
        let unrelated = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        groups_of_peer(&unrelated, 7).unwrap_err();
    }

    #[test]
    fn groups_of_peer__keeps_a_thousand() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let groups: Vec<u32> = (0..60_000).collect();
        let kept = std::thread::spawn(move || {
            // SAFETY: the kernel reads as many ids as the list has. The C library's function would
            // change every thread.
            let set = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
            assert_eq!(set, 0);
            let flags = SockFlag::SOCK_CLOEXEC;
            let (here, _there) =
                socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
            groups_of_peer(&here, 70_000).unwrap()
        });
        let kept = kept.join().unwrap();
        assert_eq!((kept.len(), kept[GROUPS_MAX]), (GROUPS_MAX + 1, 70_000));
    }

    #[test]
    fn user__containers_have_none() {
        let of = |tenant| Identity { groups: vec![5], ..Identity::of(tenant) };
        assert_eq!((of(Tenant::Root).user(), of(Tenant::Root).groups()), (Some(0), &[5][..]));
        for tenant in [Tenant::Container(9), Tenant::Range(0), Tenant::Gone] {
            assert_eq!((of(tenant).user(), of(tenant).groups()), (None, &[][..]));
        }
    }
}
