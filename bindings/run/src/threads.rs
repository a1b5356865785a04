//! The library's threads, which don't keep a process alive that has none of its own left.
//!
//! Libc ends a process with its last thread, which may come after the end of `main`'s thread
//! (`pthread_exit`). The library's threads count there. So when `main`'s thread ends, the library
//! watches the others, and exits in libc's place.

use crate::shared::{enter, lock, own_calls_of_this_thread};
use std::{collections::HashSet, fs, path::Path, sync::Mutex, thread, time::Duration};

/// How long the watch pauses, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The numbers of the library's threads.
#[derive(Default)]
pub struct Threads(Mutex<HashSet<libc::pid_t>>);

/// A thread of the library, until it ends.
pub struct Own<'a> {
    threads: &'a Threads,
    number: libc::pid_t,
}

impl Threads {
    /// Notes that the calling thread is the library's.
    pub fn note_own(&self) -> Own<'_> {
        // SAFETY: it has no arguments and always succeeds.
        let number = unsafe { libc::gettid() };
        lock(&self.0).insert(number);
        Own { threads: self, number }
    }

    /// Exits once the program has no threads. The thread of `main`, which is ending, calls it.
    pub fn exit_with_last(&'static self) {
        let _inside = enter();
        let watch = move || {
            let mut pause = PAUSE_MIN;
            while self.has_programs() {
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
            // What runs at the exit is the program's.
            own_calls_of_this_thread();
            // SAFETY: no thread of the program runs.
            unsafe { libc::exit(0) };
        };
        // Without room for a thread the process ends when the library's threads do.
        drop(thread::Builder::new().name("atp-run-last".to_owned()).spawn(watch));
    }

    /// Whether a thread of the program runs. The kernel lists a new thread after its creator, so
    /// none escapes. The library's threads that begin or end just now count as the program's.
    fn has_programs(&self) -> bool {
        // No thread of the library ends meanwhile, after which the kernel might reuse its number.
        let own = lock(&self.0);
        let Ok(tasks) = fs::read_dir("/proc/self/task") else { return true };
        let is_own = |task: &fs::DirEntry| {
            let number = task.file_name().to_str().and_then(|name| name.parse().ok());
            number.is_some_and(|number| own.contains(&number))
        };
        tasks.flatten().filter(|task| !is_own(task)).any(|task| runs(&task.path()))
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        lock(&self.threads.0).remove(&self.number);
    }
}

/// Whether a thread hasn't ended. That of `main` stays in the list as long as the process.
fn runs(task: &Path) -> bool {
    let Ok(stat) = fs::read_to_string(task.join("stat")) else { return false };
    // The name of the thread, in parentheses, may have any characters.
    let state = stat.rsplit(") ").next().and_then(|rest| rest.bytes().next());
    !matches!(state, Some(b'Z' | b'X'))
}
