//! What the threads of the library share with the calls of the program.

use approxlib::GroupReport;
use std::{
    cell::Cell,
    collections::HashMap,
    fmt::Display,
    io::Write,
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Counts, and the senders of messages.
#[derive(Default)]
pub struct Shared {
    pub counts: Counts,
    /// The senders behind the sockets from which their messages are handed to the program.
    pub senders: Mutex<HashMap<SocketAddr, SocketAddr>>,
    /// There was a sender: a look without the lock.
    pub has_senders: AtomicBool,
    /// The ends of carried connections, by the address at the far end of the program's socket.
    pub ends: Mutex<HashMap<SocketAddr, Ends>>,
    /// There was a carried connection: a look without the lock.
    pub has_ends: AtomicBool,
}

/// The addresses that a program sees of a carried connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub peer: SocketAddr,
    pub local: SocketAddr,
}

impl Shared {
    /// Names the ends of the connection whose program's socket has `far` at its far end.
    pub fn name_ends(&self, far: SocketAddr, ends: Ends) {
        lock(&self.ends).insert(canonical(far), ends);
        self.has_ends.store(true, Ordering::Release);
    }

    pub fn ends_of(&self, far: SocketAddr) -> Option<Ends> {
        if !self.has_ends.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.ends).get(&canonical(far)).copied()
    }

    pub fn forget_ends(&self, far: SocketAddr) {
        lock(&self.ends).remove(&canonical(far));
    }
}

/// An address of IPv4 as such, also from a socket of IPv6.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Counts of datagrams, frames and connections.
#[derive(Default)]
pub struct Counts {
    pub connections_carried: AtomicU64,
    pub connections_plain: AtomicU64,
    pub sent_as_messages: AtomicU64,
    pub sent_plainly: AtomicU64,
    pub delivered: AtomicU64,
    pub lost: AtomicU64,
    pub received: AtomicU64,
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
        let connections = [&self.connections_carried, &self.connections_plain];
        let counts = [&self.sent_as_messages, &self.sent_plainly, &self.received];
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

/// A line for the user.
pub fn warn(words: impl Display) {
    // Nothing can be done about an error stream that fails.
    let _ = writeln!(std::io::stderr(), "atp-run: {words}");
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
