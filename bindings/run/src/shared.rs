//! Counts and helpers that the library's threads share with the program's calls.

use approxlib::GroupReport;
use libc::c_int;
use std::{
    cell::Cell,
    fmt::Display,
    io::Write,
    net::{IpAddr, SocketAddr},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often the end of the process looks whether a thread has ended.
const JOIN_INTERVAL: Duration = Duration::from_millis(1);

/// The counts of one process.
#[derive(Default)]
pub struct Shared {
    pub counts: Counts,
    /// The receivers beside UDP sockets, which divide the places of senders.
    pub inlets: AtomicUsize,
}

/// An address of IPv4 as such, also from a socket of IPv6.
pub fn canonical(mut address: SocketAddr) -> SocketAddr {
    // The scope of an address of IPv6 stays.
    if let IpAddr::V4(ip) = address.ip().to_canonical() {
        address.set_ip(ip.into());
    }
    address
}

/// Counts of datagrams, frames and connections.
#[derive(Default)]
pub struct Counts {
    pub connections_carried: AtomicU64,
    pub connections_plain: AtomicU64,
    /// Connections of other libraries, or of strangers, for which there was no place.
    pub connections_refused: AtomicU64,
    pub sent_as_messages: AtomicU64,
    pub sent_plainly: AtomicU64,
    pub delivered: AtomicU64,
    pub lost: AtomicU64,
    pub received: AtomicU64,
    /// Messages that are no datagrams of this version.
    pub refused: AtomicU64,
    /// Senders of datagrams that made room for others.
    pub senders_evicted: AtomicU64,
    /// Messages that came while no socket was free for their senders.
    pub senders_unnamed: AtomicU64,
    /// Messages whose port another process has claimed, or that takes privileges.
    pub claims_refused: AtomicU64,
    /// Destinations of datagrams that made room for others.
    pub destinations_evicted: AtomicU64,
}

impl Counts {
    /// Adds what became of messages.
    pub fn add(&self, groups: &[GroupReport]) {
        for group in groups {
            self.delivered.fetch_add(group.delivered.into(), Ordering::Relaxed);
            self.lost.fetch_add(group.lost.into(), Ordering::Relaxed);
        }
    }

    /// Whether anything was counted.
    pub fn are_there(&self) -> bool {
        let connections =
            [&self.connections_carried, &self.connections_plain, &self.connections_refused];
        let counts = [&self.sent_as_messages, &self.sent_plainly, &self.received, &self.refused];
        let mut counts = counts.into_iter().chain(connections);
        counts.any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Lets the calls of this thread pass untouched.
pub fn pass_calls_of_this_thread() {
    IS_OURS.with(|flag| flag.set(true));
}

/// Ends [`pass_calls_of_this_thread`].
pub fn own_calls_of_this_thread() {
    IS_OURS.with(|flag| flag.set(false));
}

/// Begins work of the library in a thread of the program. Until the guard is dropped, calls pass
/// and no signal is handled: a handler might call the library, which holds a lock. The threads that
/// the library starts inherit the mask, so the program's handlers run in its own threads only.
pub fn enter() -> Inside {
    // SAFETY: all zero is a valid set, and both sets are there.
    let mask = unsafe {
        let (mut all, mut mask) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask);
        mask
    };
    let calls_passed = IS_OURS.try_with(|flag| flag.replace(true)).unwrap_or(true);
    Inside { mask, calls_passed }
}

/// Restores what was before [`enter`].
pub struct Inside {
    mask: libc::sigset_t,
    calls_passed: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // A thread that is ending makes no calls of interest.
        let _ = IS_OURS.try_with(|flag| flag.set(self.calls_passed));
        // SAFETY: the set was written by the same call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());
        }
    }
}

/// Whether the calls of this thread pass. A thread that is ending makes none of interest.
pub fn calls_pass() -> bool {
    IS_OURS.try_with(Cell::get).unwrap_or(true)
}

pub fn errno() -> c_int {
    // SAFETY: it is this thread's own.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(value: c_int) {
    // SAFETY: it is this thread's own.
    unsafe { *libc::__errno_location() = value };
}

/// A line for the user.
pub fn warn(words: impl Display) {
    // Nothing can be done about an error stream that fails.
    let _ = writeln!(std::io::stderr(), "atp-run: {words}");
}

/// Waits until the thread has ended, or `deadline`. A panic of the thread was printed.
pub fn join_until(thread: JoinHandle<()>, deadline: Instant) {
    while !thread.is_finished() && Instant::now() < deadline {
        thread::sleep(JOIN_INTERVAL);
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
