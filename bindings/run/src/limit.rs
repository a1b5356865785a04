//! The process's descriptors, and the share of them that others' packets and connections may take.
//!
//! Each kind has a share of its own, so that no kind takes another one's places. All shares
//! together leave a quarter to the program.

/// The descriptors of a connection that hasn't agreed: itself, and the one that reports the pace.
pub const PER_WAITING: usize = 2;
/// The descriptors of a carried connection: two connections of the library, the one that reports
/// the pace, and the program's.
const PER_CARRIED: usize = 4;
/// The descriptors of a job: its socket, and those that it shares with a daemon.
const PER_WORKING: usize = 8;

/// Parts of the descriptors for connections that haven't agreed, for carried connections, for
/// destinations with a job, and for senders of datagrams.
const PARTS: usize = 32;
const WAITING_PARTS: usize = 2;
const CARRIED_PARTS: usize = 14;
const WORKING_PARTS: usize = 4;
const SENDERS_PARTS: usize = 4;
const _: () = assert!(
    WAITING_PARTS + CARRIED_PARTS + WORKING_PARTS + SENDERS_PARTS <= PARTS * 3 / 4,
    "the program has a quarter"
);

/// The number of descriptors that the process may have now: it can change its limit.
pub fn descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the memory is there.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Connections that haven't agreed, of all ports together.
pub fn waiting() -> usize {
    places(WAITING_PARTS, PER_WAITING, 64)
}

/// Connections that are carried at once. The receiver beside has places for as many senders.
pub fn carried() -> usize {
    places(CARRIED_PARTS, PER_CARRIED, 256)
}

/// Destinations with a thread and a job.
pub fn working() -> usize {
    places(WORKING_PARTS, PER_WORKING, 64)
}

/// Senders of datagrams with a socket of their own, of all ports together.
pub fn senders() -> usize {
    places(SENDERS_PARTS, 1, 256)
}

fn places(parts: usize, descriptors_each: usize, max: usize) -> usize {
    (descriptors() / PARTS * parts / descriptors_each).clamp(1, max)
}
