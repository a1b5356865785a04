//! Whether another process may have this process's sockets.
//!
//! Processes inherit sockets from their parents, so a process that never had a child shares none,
//! unless it sent one over a Unix socket. Only with children `/proc` has to be searched.

use crate::{elsewhere, shared::errno};
use std::{
    collections::HashSet,
    mem::MaybeUninit,
    ptr::null_mut,
    sync::atomic::{AtomicBool, Ordering},
};

pub struct Holders {
    /// Set before a fork. Children of `vfork` and `posix_spawn` don't set it.
    has_forked: AtomicBool,
    /// Set once the process may have sent a descriptor to another one.
    has_sent: AtomicBool,
    /// The page faults of the children that had ended when the program started: a shell may have
    /// had children before it executed the program.
    faults_at_start: i64,
}

impl Holders {
    pub fn none_yet() -> Self {
        Self {
            has_forked: AtomicBool::new(false),
            has_sent: AtomicBool::new(false),
            faults_at_start: faults_of_ended(),
        }
    }

    pub fn note_fork(&self) {
        self.has_forked.store(true, Ordering::Relaxed);
    }

    pub fn note_sent(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }

    /// The numbers of sockets among which are those that other processes share with this one.
    /// `None` if that can't be known.
    pub fn sockets(&self) -> Option<HashSet<u64>> {
        if self.has_sent.load(Ordering::Relaxed) {
            None
        } else if self.had_no_children() {
            Some(HashSet::new())
        } else {
            elsewhere::sockets()
        }
    }

    fn had_no_children(&self) -> bool {
        !self.has_forked.load(Ordering::Relaxed)
            && !are_ended_unseen()
            && faults_of_ended() == self.faults_at_start
            && has_none_now()
    }
}

/// The page faults of the children that have ended, and for which the process has waited.
fn faults_of_ended() -> i64 {
    // SAFETY: all zero is a valid `rusage`, which the kernel writes.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage.ru_minflt
    }
}

/// Whether the kernel forgets children that end (SIGCHLD ignored).
fn are_ended_unseen() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call only reads; all zero is a valid action.
    let action = unsafe {
        libc::sigaction(libc::SIGCHLD, null_mut(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN || action.sa_flags & libc::SA_NOCLDWAIT != 0
}

/// Whether no child lives or awaits a `wait`.
fn has_none_now() -> bool {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the memory is there. WNOWAIT leaves the children as they are.
    let found = unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) };
    found < 0 && errno() == libc::ECHILD
}
