//! The clock, and sleeping until a socket is ready, another thread wakes this one, or a timeout.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};
use std::{io, os::fd::BorrowedFd, time::Duration};

/// Nanoseconds of CLOCK_MONOTONIC, the clock that the daemon and its eBPF programs use too.
pub fn now_ns() -> u64 {
    // CLOCK_MONOTONIC exists on every Linux and starts at boot: reading it can't fail, and the
    // value is not negative.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| Duration::from(t).as_nanos() as u64)
}

/// Nanoseconds of a clock that hosts share well enough: CLOCK_REALTIME.
pub fn shared_ns() -> u64 {
    // A clock before 1970 counts as 1970.
    clock_gettime(ClockId::CLOCK_REALTIME)
        .ok()
        .and_then(|time| u64::try_from(time.tv_sec()).ok().zip(u64::try_from(time.tv_nsec()).ok()))
        .map_or(0, |(s, ns)| s.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// The events to wait for.
#[derive(Clone, Copy)]
pub struct Interest<'a> {
    /// The UDP socket.
    pub socket: BorrowedFd<'a>,
    /// Wait for packets to read.
    pub readable: bool,
    /// Wait for room in the send buffer.
    pub writable: bool,
    /// An eventfd that another thread writes to.
    pub wake: BorrowedFd<'a>,
    /// The connection to the daemon, whose end wakes this thread.
    pub control: Option<BorrowedFd<'a>>,
}

/// The events that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The socket has a packet to read.
    pub readable: bool,
    /// The socket's error queue holds an error.
    pub error: bool,
    /// The eventfd was written to.
    pub woken: bool,
    /// The connection to the daemon ended.
    pub hung_up: bool,
}

/// Sleeps until an event of `interest` happens, or `timeout` expires.
pub fn wait(interest: &Interest<'_>, timeout: Duration) -> io::Result<Ready> {
    let mut events = PollFlags::empty();
    events.set(PollFlags::POLLIN, interest.readable);
    events.set(PollFlags::POLLOUT, interest.writable);
    let control = interest.control.unwrap_or(interest.wake);
    let mut fds = [
        PollFd::new(interest.socket, events),
        PollFd::new(interest.wake, PollFlags::POLLIN),
        // No event is requested: `poll` always reports a hang-up.
        PollFd::new(control, PollFlags::empty()),
    ];
    match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(Ready::default()),
        Err(error) => return Err(error.into()),
    }
    let got = |i: usize, flags| fds[i].revents().is_some_and(|seen| seen.intersects(flags));
    Ok(Ready {
        readable: got(0, PollFlags::POLLIN),
        error: got(0, PollFlags::POLLERR),
        woken: got(1, PollFlags::POLLIN),
        hung_up: interest.control.is_some() && got(2, PollFlags::POLLHUP | PollFlags::POLLERR),
    })
}
