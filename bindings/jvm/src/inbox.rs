//! A receiver behind a number.

use crate::{
    events,
    failure::{Failure, Outcome},
    table::Table,
    wait,
};
use approxlib::{Error, Event, Receiver, ReceiverBuilder};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, PoisonError},
    time::Duration,
};

pub static RECEIVERS: Table<Inbox> = Table::new("receiver");

pub struct Inbox {
    /// `None` once it is closed. Nobody waits with this lock.
    source: Mutex<Option<Source>>,
    readable: OwnedFd,
    /// Readable once the receiver is closed: wakes the waiting thread.
    closed: EventFd,
}

struct Source {
    receiver: Receiver,
    /// The event for which the last call had no room.
    next: Option<Event>,
    /// The error of a call that had events to return.
    failure: Option<Error>,
}

/// The events that a call has taken.
pub enum Taken {
    /// Bytes of events. 0: there was none.
    Bytes(usize),
    /// The bytes that the first event needs.
    NoRoom(usize),
}

impl Inbox {
    /// Starts a receiver, and returns its number.
    pub fn open(builder: ReceiverBuilder, local: &str) -> Outcome<i64> {
        let receiver = builder.bind(local)?;
        let readable = receiver.readable_fd()?.try_clone_to_owned().map_err(Error::Thread)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let closed = EventFd::from_flags(flags);
        let closed = closed.map_err(|errno| Error::Thread(io::Error::from(errno)))?;
        let source = Mutex::new(Some(Source { receiver, next: None, failure: None }));
        Ok(RECEIVERS.add(Self { source, readable, closed }))
    }

    /// Uses the receiver, unless it is closed.
    pub fn with<T>(&self, work: impl FnOnce(&mut Receiver) -> Result<T, Error>) -> Outcome<T> {
        self.with_source(|source| Ok(work(&mut source.receiver)?))
    }

    fn with_source<T>(&self, work: impl FnOnce(&mut Source) -> Outcome<T>) -> Outcome<T> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        work(source.as_mut().ok_or_else(|| Failure::closed("receiver"))?)
    }

    /// Writes up to `events_max` events that wait, as far as there is room.
    pub fn take(&self, room: &mut [u8], events_max: usize) -> Outcome<Taken> {
        self.with_source(|source| source.take(room, events_max))
    }

    /// Waits until an event may be there, or the receiver was closed.
    pub fn wait(&self, timeout_ms: i32) {
        wait::readable([self.readable.as_fd(), self.closed.as_fd()], timeout_ms);
    }

    /// Ends the waits of other threads, then the receiver, which may linger.
    pub fn close(&self) {
        // A full counter is readable as well.
        let _ = self.closed.write(1);
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(source);
    }
}

impl Source {
    fn take(&mut self, room: &mut [u8], events_max: usize) -> Outcome<Taken> {
        let (mut written, mut count) = (0, 0);
        while count < events_max {
            let event = match self.next.take().map_or_else(|| self.poll(), |event| Ok(Some(event)))
            {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) if count == 0 => return Err(error.into()),
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            };
            match events::write(event, &mut room[written..], &mut self.receiver) {
                Ok(bytes) => written += bytes,
                Err((event, bytes)) => {
                    self.next = Some(event);
                    if count == 0 {
                        return Ok(Taken::NoRoom(bytes));
                    }
                    break;
                }
            }
            count += 1;
        }
        Ok(Taken::Bytes(written))
    }

    fn poll(&mut self) -> Result<Option<Event>, Error> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.receiver.recv(Some(Duration::ZERO)),
        }
    }
}
