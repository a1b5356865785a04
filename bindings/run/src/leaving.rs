//! The program's sockets of carried connections, when its process ends.

use crate::{address, descriptors, holders::Holders, next, shared::canonical};
use socket2::SockRef;
use std::{
    collections::HashSet,
    fs,
    mem::MaybeUninit,
    net::SocketAddr,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

/// A descriptor of a carried connection.
struct Carried {
    fd: RawFd,
    /// The number of the socket, which all of its descriptors share.
    inode: u64,
}

/// Closes the connections that this process carries, as the kernel would soon. `ours`: the
/// library's addresses of these connections; those that the process inherited are its parent's.
///
/// The program's other threads still run. Their descriptors become those of a socket on which
/// nothing arrives, so no thread sees an error that it wouldn't see without the library. The kernel
/// then reports the end of the program's bytes to the library, unless another process has the
/// socket too. A thread that is inside of a call on the socket keeps it open as well. So its
/// sending half is shut down, if no other process can write to it.
pub fn leave(ours: &HashSet<SocketAddr>, holders: &Holders) {
    let carried = carried(ours);
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
        end_lingering(carried.fd);
        if kept.iter().all(|(inode, _)| *inode != carried.inode) {
            // A child of a fork closes it.
            // SAFETY: F_DUPFD takes any number.
            let copy = || unsafe { next::fcntl(carried.fd, libc::F_DUPFD_CLOEXEC, 0) };
            kept.push((carried.inode, descriptors::make(copy)));
        }
        if let Ok(silent) = &silent {
            // SAFETY: the descriptor is the program's, and the process ends.
            unsafe { next::dup2(silent.as_raw_fd(), carried.fd) };
        }
    }
    std::mem::forget(silent);
    let shared = holders.sockets();
    for (inode, copy) in kept {
        let is_ours = shared.as_ref().is_some_and(|shared| !shared.contains(&inode));
        if is_ours && !is_reset_by_close(copy) {
            // SAFETY: the copy is this function's own.
            unsafe { next::shutdown(copy, libc::SHUT_WR) };
        }
        descriptors::close(copy);
    }
}

/// The program's descriptors of the connections with these addresses of the library.
fn carried(ours: &HashSet<SocketAddr>) -> Vec<Carried> {
    if ours.is_empty() {
        return Vec::new();
    }
    let carried = |fd: RawFd| {
        let far = address::of_socket(fd, next::getpeername)?;
        if !ours.contains(&canonical(far)) || !address::is_tcp(fd) || descriptors::is_own(fd) {
            return None;
        }
        Some(Carried { fd, inode: inode(fd)? })
    };
    open_descriptors().into_iter().filter_map(carried).collect()
}

/// The numbers of the process's descriptors. Without `/proc`, all numbers that the library notes.
fn open_descriptors() -> Vec<RawFd> {
    match fs::read_dir("/proc/self/fd") {
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

/// Whether the program asked for a reset in the place of an end: SO_LINGER without time.
fn is_reset_by_close(fd: RawFd) -> bool {
    // SAFETY: the descriptor is open meanwhile.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    matches!(SockRef::from(&socket).linger(), Ok(Some(Duration::ZERO)))
}

/// Ends SO_LINGER with a time: the last close would wait, and with it all other connections. The
/// kernel's close at the end of a process doesn't wait either.
fn end_lingering(fd: RawFd) {
    if !is_reset_by_close(fd) {
        // SAFETY: the descriptor is open meanwhile.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        // It fails on no socket of TCP.
        drop(SockRef::from(&socket).set_linger(None));
    }
}
