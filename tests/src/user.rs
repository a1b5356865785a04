//! Work with the rights of other users.

use anyhow::{Result, ensure};
use std::{io, panic::resume_unwind, thread};

/// Runs `work` on a thread with this user id. Descriptors that the thread opens stay usable.
pub fn as_user<T: Send>(uid: libc::uid_t, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // The C library's function would change every thread of the process.
            // SAFETY: the calling thread's user ids are changed, and it ends here.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1, uid, -1) };
            ensure!(changed == 0, "{}", io::Error::last_os_error());
            work()
        });
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
