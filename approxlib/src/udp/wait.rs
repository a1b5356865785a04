//! Sleeping until a socket can be used, a descriptor says something, or time is up.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};
use std::{io, os::fd::BorrowedFd, time::Duration};

/// Nanoseconds of CLOCK_MONOTONIC, the clock that eBPF and daemon use too.
pub fn now_ns() -> u64 {
    // CLOCK_MONOTONIC exists on every Linux and starts at boot: neither failure nor a negative
    // value can happen.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| Duration::from(t).as_nanos() as u64)
}

/// What to wait for.
#[derive(Clone, Copy)]
pub struct Interest<'a> {
    /// The UDP socket.
    pub socket: BorrowedFd<'a>,
    /// For something to read.
    pub readable: bool,
    /// For room to send.
    pub room: bool,
    /// An eventfd that another thread writes to.
    pub wake: BorrowedFd<'a>,
    /// A connection whose end matters.
    pub control: Option<BorrowedFd<'a>>,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There are packets to read.
    pub readable: bool,
    /// The socket has an error to tell.
    pub error: bool,
    /// The eventfd was written to.
    pub woken: bool,
    /// The control connection ended.
    pub hung_up: bool,
}

/// Sleeps until something in `interest` happens, or `timeout` is over.
pub fn wait(interest: &Interest<'_>, timeout: Duration) -> io::Result<Ready> {
    let mut events = PollFlags::empty();
    events.set(PollFlags::POLLIN, interest.readable);
    events.set(PollFlags::POLLOUT, interest.room);
    let control = interest.control.unwrap_or(interest.wake);
    let mut fds = [
        PollFd::new(interest.socket, events),
        PollFd::new(interest.wake, PollFlags::POLLIN),
        // No event asked for: a hang-up is told anyway.
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
