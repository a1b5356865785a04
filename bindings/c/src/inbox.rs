//! A receiver that several threads use: one waits for events at a time, and any may close it.

use crate::status::{
    Failure, Outcome,
    atp_status::{ATP_ERROR_CLOSED, ATP_ERROR_THREAD},
};
use approxlib::{Event, Receiver};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::{EfdFlags, EventFd},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A receiver behind a handle.
pub struct Inbox {
    /// `None` once it is closed. Nobody waits with this lock.
    receiver: Mutex<Option<Receiver>>,
    /// The receiver's error, for the call after the one that returned its last events.
    failure: Mutex<Option<Failure>>,
    /// The receiver's own descriptor has the same number as long as the receiver is there.
    readable: OwnedFd,
    number: RawFd,
    turn: Mutex<Turn>,
    turned: Condvar,
    /// Readable once the receiver is closed: wakes the waiting thread.
    closed: EventFd,
}

#[derive(Default)]
struct Turn {
    /// A thread waits for events. Others wait for that thread.
    taken: bool,
    closed: bool,
}

impl Inbox {
    pub fn new(receiver: Receiver) -> Outcome<Self> {
        let (readable, number) = {
            let fd = receiver.readable_fd()?;
            (fd.try_clone_to_owned().map_err(no_descriptor)?, fd.as_raw_fd())
        };
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let closed = EventFd::from_flags(flags).map_err(|errno| no_descriptor(errno.into()))?;
        let (receiver, failure) = (Mutex::new(Some(receiver)), Mutex::default());
        let turn = Mutex::default();
        Ok(Self { receiver, failure, readable, number, turn, turned: Condvar::new(), closed })
    }

    /// Uses the receiver, unless it is closed.
    pub fn with<T>(&self, work: impl FnOnce(&mut Receiver) -> Outcome<T>) -> Outcome<T> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        work(receiver.as_mut().ok_or_else(closed)?)
    }

    /// The descriptor that the application polls.
    pub fn readable_fd(&self) -> RawFd {
        self.number
    }

    pub fn recv(&self, deadline: Option<Instant>) -> Outcome<Option<Event>> {
        Ok(self.recv_batch(1, deadline)?.pop())
    }

    /// Waits for an event until `deadline`, and takes as many as there are, up to `events_max`.
    pub fn recv_batch(&self, events_max: usize, deadline: Option<Instant>) -> Outcome<Vec<Event>> {
        let Some(_turn) = self.take_turn(deadline)? else { return Ok(Vec::new()) };
        loop {
            let events = self.take(events_max)?;
            if !events.is_empty() || !self.wait(deadline)? {
                return Ok(events);
            }
        }
    }

    /// The events that are there, up to `events_max`.
    fn take(&self, events_max: usize) -> Outcome<Vec<Event>> {
        let mut kept = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = kept.take() {
            return Err(failure);
        }
        self.with(|receiver| {
            let mut events = Vec::new();
            while events.len() < events_max {
                match receiver.recv(Some(Duration::ZERO)) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(error) if events.is_empty() => return Err(error.into()),
                    Err(error) => {
                        *kept = Some(error.into());
                        break;
                    }
                }
            }
            Ok(events)
        })
    }

    /// Waits until no other thread waits for events; `None` if that takes until `deadline`.
    fn take_turn(&self, deadline: Option<Instant>) -> Outcome<Option<TurnGuard<'_>>> {
        let mut turn = self.lock_turn();
        while turn.taken && !turn.closed {
            turn = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => self.turned.wait(turn).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Ok(None),
                Some(left) => {
                    let waited = self.turned.wait_timeout(turn, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        if turn.closed {
            return Err(closed());
        }
        turn.taken = true;
        Ok(Some(TurnGuard(self)))
    }

    /// Waits until an event may be there; false at `deadline`.
    fn wait(&self, deadline: Option<Instant>) -> Outcome<bool> {
        let timeout = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
            None => PollTimeout::NONE,
            Some(Duration::ZERO) => return Ok(false),
            // Rounded up: poll takes milliseconds.
            Some(left) => {
                PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut fds = [self.readable.as_fd(), self.closed.as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(true),
            Err(errno) => Err(no_descriptor(errno.into())),
        }
    }

    /// Gives memory back, unless another call uses the receiver: that isn't worth a wait.
    pub fn recycle(&self, data: Vec<u8>) {
        if let Ok(mut receiver) = self.receiver.try_lock()
            && let Some(receiver) = &mut *receiver
        {
            receiver.recycle(data);
        }
    }

    /// Ends the waits of other threads, then the receiver.
    pub fn close(&self) {
        self.lock_turn().closed = true;
        self.turned.notify_all();
        // A full counter is readable as well.
        let _ = self.closed.write(1);
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It may linger, without a lock.
        drop(receiver);
    }

    fn lock_turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TurnGuard<'a>(&'a Inbox);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.lock_turn().taken = false;
        self.0.turned.notify_one();
    }
}

fn closed() -> Failure {
    Failure::new(ATP_ERROR_CLOSED, "the receiver was closed by another thread")
}

fn no_descriptor(error: io::Error) -> Failure {
    let text = format!("waiting for events failed: {error}; raise the limit of open files");
    Failure::new(ATP_ERROR_THREAD, text)
}
