//! The program's sockets of carried connections, when its process ends or executes another program.

use crate::{
    address, descriptors,
    names::{self, Protocol},
    next,
};
use std::{
    collections::HashSet,
    fs,
    mem::MaybeUninit,
    net::SocketAddr,
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::Duration,
};

/// A descriptor of a carried connection.
struct Carried {
    fd: RawFd,
    /// What all descriptors of the socket share, in all processes.
    inode: u64,
    /// The library's address of the connection.
    far: SocketAddr,
}

/// The library's addresses of the carried connections that the program has open.
pub fn open_connections() -> HashSet<SocketAddr> {
    carried().into_iter().map(|carried| carried.far).collect()
}

/// Ends what the program sends on its carried connections, as the kernel would soon.
///
/// The program's other threads still run. They find a socket that is silent for ever in place of
/// theirs, so none sees an error that it wouldn't without the library. The kernel then tells the
/// library the end of the program's bytes. It doesn't if another process has the socket too, such
/// as a child after a `fork`: the connection is that one's, until the process has ended.
pub fn leave() {
    let carried = carried();
    if carried.is_empty() {
        return;
    }
    // A thread may be inside of a call that writes.
    // SAFETY: it takes no memory. The process ends.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // Both ends stay open as long as the process lives.
    let silent = UnixStream::pair().map(|(one, other)| {
        std::mem::forget(other);
        one
    });
    let mut kept: Vec<(u64, RawFd)> = Vec::new();
    for carried in carried {
        if kept.iter().all(|(inode, _)| *inode != carried.inode) {
            // SAFETY: F_DUPFD takes any number.
            let copy = unsafe { next::fcntl(carried.fd, libc::F_DUPFD_CLOEXEC, 0) };
            kept.push((carried.inode, copy));
        }
        if let Ok(silent) = &silent {
            // SAFETY: the descriptor is the program's, and the process ends.
            unsafe { next::dup2(silent.as_raw_fd(), carried.fd) };
        }
    }
    std::mem::forget(silent);
    let elsewhere = sockets_elsewhere();
    for (inode, copy) in kept {
        // SAFETY: the copy is this function's own.
        unsafe {
            // Also while a thread is inside of a call on the socket, which holds it open.
            let is_reset = linger(copy) == Some(Duration::ZERO);
            let is_others = elsewhere.as_ref().is_none_or(|sockets| sockets.contains(&inode));
            if !is_reset && !is_others {
                next::shutdown(copy, libc::SHUT_WR);
            }
            next::close(copy);
        }
    }
}

fn carried() -> Vec<Carried> {
    if !names::are_there() {
        return Vec::new();
    }
    descriptors_of(Path::new("/proc/self")).into_iter().filter_map(carried_by).collect()
}

fn carried_by(fd: RawFd) -> Option<Carried> {
    let far = address::of_socket(fd, next::getpeername)?;
    names::of(Protocol::Tcp, far)?;
    let is_programs = address::is_tcp(fd) && !descriptors::is_own(fd);
    Some(Carried { fd, inode: inode(fd)?, far }).filter(|_| is_programs)
}

/// The numbers of a process's descriptors; all that may be, if the kernel doesn't tell.
fn descriptors_of(process: &Path) -> Vec<RawFd> {
    match fs::read_dir(process.join("fd")) {
        Ok(entries) => {
            let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
            entries.flatten().filter_map(number).collect()
        }
        Err(_) => (0..descriptors::FDS_MAX as RawFd).collect(),
    }
}

fn inode(fd: RawFd) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the memory is there, and the kernel writes it unless it fails.
    unsafe { (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init().st_ino) }
}

/// A carried connection whose close waits, as SO_LINGER with a time asks.
pub struct Lingering {
    carried: Carried,
    pub timeout: Duration,
}

impl Lingering {
    pub fn of(fd: RawFd) -> Option<Self> {
        let carried = carried_by(fd)?;
        let timeout = linger(fd)?;
        (timeout > Duration::ZERO).then_some(Self { carried, timeout })
    }

    /// The library's address of the connection, if that was its last descriptor.
    pub fn closed(self) -> Option<SocketAddr> {
        let Carried { inode, far, .. } = self.carried;
        let is_open = carried().iter().any(|carried| carried.inode == inode)
            || sockets_elsewhere().is_none_or(|sockets| sockets.contains(&inode));
        (!is_open).then_some(far)
    }
}

/// How long the close of a socket waits (SO_LINGER). Without time it is a reset.
fn linger(fd: RawFd) -> Option<Duration> {
    let mut linger = libc::linger { l_onoff: 0, l_linger: 0 };
    let mut len = size_of_val(&linger) as libc::socklen_t;
    // SAFETY: the memory is there and `len` is its length.
    unsafe {
        let at = (&raw mut linger).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, at, &raw mut len);
    }
    let seconds = u64::try_from(linger.l_linger).unwrap_or(0);
    (linger.l_onoff != 0).then(|| Duration::from_secs(seconds))
}

/// The inodes of the sockets that other processes have; `None` if the kernel doesn't tell. A
/// process that can't be looked at is another user's. So it is no child with this one's sockets,
/// unless it took other rights.
fn sockets_elsewhere() -> Option<HashSet<u64>> {
    let own = std::process::id().to_string();
    let is_other = |name: &str| name != own && name.bytes().all(|byte| byte.is_ascii_digit());
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let others = processes.filter(|entry| entry.file_name().to_str().is_some_and(is_other));
    let descriptors = others.filter_map(|other| fs::read_dir(other.path().join("fd")).ok());
    let links = descriptors.flat_map(|entries| entries.flatten());
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(links.filter_map(inode).collect())
}
