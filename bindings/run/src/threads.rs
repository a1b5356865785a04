//! The library's threads, which don't keep a process alive that has none of its own left.
//!
//! Libc calls `exit` at the end of the last thread, also if that of `main` has ended before
//! (`pthread_exit`). The library's threads count there as well. So the library looks whether other
//! threads are left, and calls `exit` in libc's place.

use crate::{
    descriptors,
    shared::{lock, own_calls_of_this_thread},
};
use std::{
    fs::File,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::{Mutex, OnceLock},
    thread,
};

/// More than a line of proc_pid_stat(5) has.
const STAT_LEN: usize = 4_096;

/// How many threads of the library run.
#[derive(Default)]
pub struct Threads {
    own: Mutex<usize>,
    /// The kernel's counts of the process. Opened anew for each look, the file would take a number
    /// of the program's.
    stat: OnceLock<Option<File>>,
}

/// A thread of the library, until it ends.
pub struct Own<'a>(&'a Threads);

impl Threads {
    /// Counts the calling thread.
    pub fn count_own(&self) -> Own<'_> {
        *lock(&self.own) += 1;
        Own(self)
    }

    /// Opens what [`Self::exit_after_last`] needs.
    pub fn open(&self) {
        let open = || {
            let flags = libc::O_RDONLY | libc::O_CLOEXEC;
            // SAFETY: the path ends with 0.
            unsafe { libc::open(c"/proc/self/stat".as_ptr(), flags) }
        };
        self.stat.get_or_init(|| match descriptors::make(open) {
            -1 => None,
            // SAFETY: the descriptor is this function's own.
            fd => Some(unsafe { OwnedFd::from_raw_fd(fd) }.into()),
        });
    }

    /// Exits if the program has no threads any more; whether it does.
    pub fn exit_after_last(&self) -> bool {
        if self.may_be_programs() {
            return false;
        }
        let exit = || {
            // Functions that run at the exit are the program's.
            own_calls_of_this_thread();
            // SAFETY: no thread of the program runs.
            unsafe { libc::exit(0) };
        };
        // The calling thread has work at the exit.
        thread::Builder::new().name("atp-run-last".to_owned()).spawn(exit).is_ok()
    }

    /// Whether a thread of the program may run. A thread of the library that begins or ends just
    /// now isn't counted, and passes for one of the program's.
    fn may_be_programs(&self) -> bool {
        // No thread that is counted ends before the kernel has told the number of all.
        let own = lock(&self.own);
        let stat = self.stat.get().and_then(Option::as_ref);
        let Some((main_has_ended, all)) = stat.and_then(kernels_threads) else { return true };
        // The kernel counts the thread of `main` as long as the process lives.
        !main_has_ended || all > *own + 1
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        *lock(&self.0.own) -= 1;
    }
}

/// Whether the thread of `main` has ended, and how many threads the process has with it.
fn kernels_threads(stat: &File) -> Option<(bool, usize)> {
    let mut bytes = [0; STAT_LEN];
    let len = stat.read_at(&mut bytes, 0).ok()?;
    let stat = String::from_utf8_lossy(&bytes[..len]);
    // The name of the program, in parentheses, may have any characters. See proc_pid_stat(5).
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let (state, count) = (fields.next()?, fields.nth(16)?);
    Some((state == "Z", count.parse().ok()?))
}
