//! Waits of at most the time that Java asks for.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;

/// The longest wait, milliseconds. Java looks for interrupts between waits.
const WAIT_MS_MAX: i32 = 1_000;

/// Waits until one of the descriptors is readable.
pub fn readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout_ms: i32) {
    let timeout =
        PollTimeout::try_from(timeout_ms.clamp(0, WAIT_MS_MAX)).unwrap_or(PollTimeout::ZERO);
    // A signal ends it early, and so does an error: the next attempt tells.
    let _ = poll(&mut fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)), timeout);
}
