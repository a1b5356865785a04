//! The library's threads, which don't keep a process alive that has none of its own left.
//!
//! Libc calls `exit` at the end of the last thread, also if that of `main` has ended before
//! (`pthread_exit`). The library's threads count there as well. So the library looks whether other
//! threads are left, and calls `exit` in libc's place.

use crate::shared::{lock, own_calls_of_this_thread};
use std::{fs, sync::Mutex, thread};

/// How many threads of the library run.
#[derive(Default)]
pub struct Threads(Mutex<usize>);

/// A thread of the library, until it ends.
pub struct Own<'a>(&'a Threads);

impl Threads {
    /// Counts the calling thread.
    pub fn count_own(&self) -> Own<'_> {
        *lock(&self.0) += 1;
        Own(self)
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
        let own = lock(&self.0);
        let Some((main_has_ended, all)) = kernels_threads() else { return true };
        // The kernel counts the thread of `main` as long as the process lives.
        !main_has_ended || all > *own + 1
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) -= 1;
    }
}

/// Whether the thread of `main` has ended, and how many threads the process has with it.
fn kernels_threads() -> Option<(bool, usize)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may have any characters. See proc_pid_stat(5).
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let (state, count) = (fields.next()?, fields.nth(16)?);
    Some((state == "Z", count.parse().ok()?))
}
