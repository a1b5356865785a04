//! The thread that ends the library's work as the process ends.
//!
//! A signal handler may end the process: with `_exit`, in the middle of a call that holds a lock of
//! the allocator. So the thread that ends it only asks, and waits for a while.

use crate::next;
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

/// How often the thread looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub struct Ender {
    /// Readable once the process ends.
    asked: OwnedFd,
    /// Readable once the work has ended.
    done: OwnedFd,
}

impl Ender {
    /// Starts a thread that runs `end` once it is asked. Until then it runs `look` from time to
    /// time, as long as that returns false.
    pub fn start(end: fn(), look: fn() -> bool) -> io::Result<&'static Self> {
        // The thread waits as long as the process lives.
        let ender: &Self = Box::leak(Box::new(Self { asked: event()?, done: event()? }));
        let run = move || {
            let mut is_seen = false;
            loop {
                match wait(&ender.asked, LOOK_INTERVAL) {
                    Some(true) => break,
                    Some(false) => is_seen = is_seen || look(),
                    // The program has closed the descriptor around libc, and asks for nothing.
                    None => return,
                }
            }
            let _done = Raised(&ender.done);
            end();
        };
        thread::Builder::new().name("atp-run-ender".to_owned()).spawn(run)?;
        Ok(ender)
    }

    /// Asks the thread, and waits for it, for `timeout` at most. A signal handler may do that.
    pub fn end(&self, timeout: Duration) {
        raise(&self.asked);
        wait(&self.done, timeout);
    }
}

/// Raises an event when it is dropped, also by a panic.
struct Raised<'a>(&'a OwnedFd);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        raise(self.0);
    }
}

fn event() -> io::Result<OwnedFd> {
    // SAFETY: no memory; the descriptor is this function's own.
    unsafe {
        match libc::eventfd(0, libc::EFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

fn raise(event: &OwnedFd) {
    let one = 1u64;
    // SAFETY: the number is there. Nobody reads the counter, which has room for more.
    unsafe { next::write(event.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
}

/// Waits until an event was raised, for `timeout` at most; whether it was. `None`: its descriptor
/// is no event any more.
fn wait(event: &OwnedFd, timeout: Duration) -> Option<bool> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed()).as_millis();
        let mut ready = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        let count = unsafe { libc::poll(&raw mut ready, 1, left.min(1 << 30) as i32) };
        // A signal interrupts it.
        if count > 0 {
            return (ready.revents & libc::POLLIN != 0).then_some(true);
        }
        if left == 0 {
            return Some(false);
        }
    }
}
