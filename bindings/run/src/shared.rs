//! What the threads of the library share with the calls of the program.

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
}

/// Counts of datagrams.
#[derive(Default)]
pub struct Counts {
    pub sent_as_messages: AtomicU64,
    pub sent_plainly: AtomicU64,
    pub delivered: AtomicU64,
    pub lost: AtomicU64,
    pub received: AtomicU64,
}

impl Counts {
    /// Whether anything was counted.
    pub fn are_there(&self) -> bool {
        let counts = [&self.sent_as_messages, &self.sent_plainly, &self.received];
        counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Lets the calls of this thread pass untouched.
pub fn pass_calls_of_this_thread() {
    IS_OURS.with(|flag| flag.set(true));
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
