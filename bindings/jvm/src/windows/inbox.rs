//! A receiver of windows behind a number.

use super::events;
use crate::{
    failure::{self, Failure, Outcome},
    table::Table,
    wait,
};
use approx_windows::{Arrival, Counted, Inbox, InboxError, InboxStats, ReceivedWindow};
use approxlib::{Error, ReceiverBuilder};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, PoisonError},
    time::Duration,
};

pub static INBOXES: Table<Windows> = Table::new("receiver of windows");

pub struct Windows {
    pub address: SocketAddr,
    /// `None` once it is closed. Nobody waits with this lock.
    state: Mutex<Option<State>>,
    readable: OwnedFd,
    /// Wakes the waiting thread: a window was confirmed, or the receiver closed.
    wake: EventFd,
}

struct State {
    inbox: Inbox,
    /// Windows that were handed over, by the number that Java has for each.
    pending: HashMap<i64, ReceivedWindow>,
    next: i64,
}

impl From<InboxError> for Failure {
    fn from(error: InboxError) -> Self {
        match error {
            InboxError::Transport(error) => error.into(),
        }
    }
}

impl Windows {
    /// Starts a receiver, and returns its number.
    pub fn open(
        builder: ReceiverBuilder,
        local: &str,
        counted: Counted,
        memory_bytes_max: u64,
    ) -> Outcome<i64> {
        let inbox = Inbox::bind(builder, local, counted, memory_bytes_max)?;
        let address = inbox.local_addr()?;
        let readable = inbox.readable_fd()?.try_clone_to_owned().map_err(Error::Thread)?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let wake = wake.map_err(|errno| Error::Thread(io::Error::from(errno)))?;
        let state = State { inbox, pending: HashMap::new(), next: 0 };
        Ok(INBOXES.add(Self { address, state: Mutex::new(Some(state)), readable, wake }))
    }

    /// The next arrival as bytes for Java; `None` if there is none at present.
    pub fn next(&self) -> Outcome<Option<Vec<u8>>> {
        self.with(|state| {
            let Some(arrival) = state.inbox.next(Some(Duration::ZERO))? else { return Ok(None) };
            let Arrival::Window(window) = arrival else { return Ok(Some(events::other(&arrival))) };
            state.next += 1;
            let bytes = events::window(&window, state.next);
            if i32::try_from(bytes.len()).is_err() {
                state.inbox.reject(&window);
                let text = format!(
                    "{}: its {} bytes don't fit an array of Java: lower memoryBytesMax",
                    window.header,
                    bytes.len()
                );
                return Err(Failure::new(failure::ATP, text));
            }
            state.pending.insert(state.next, *window);
            Ok(Some(bytes))
        })
    }

    /// Waits until an arrival may be there, or the receiver was closed.
    pub fn wait(&self, timeout_ms: i32) {
        wait::readable([self.readable.as_fd(), self.wake.as_fd()], timeout_ms);
        let _ = self.wake.read();
    }

    /// Counts and confirms a window. Returns the offsets that are counted then.
    pub fn confirm(&self, window: i64) -> Outcome<Vec<u8>> {
        let counted = self.with(|state| {
            let window = state.take(window)?;
            state.inbox.confirm(&window);
            state.counted()
        });
        self.wake();
        counted
    }

    /// Gives a window back, so that its sender sends it again.
    pub fn reject(&self, window: i64) -> Outcome {
        let rejected = self.with(|state| {
            let window = state.take(window)?;
            state.inbox.reject(&window);
            Ok(())
        });
        self.wake();
        rejected
    }

    /// The offsets that are counted.
    pub fn counted(&self) -> Outcome<Vec<u8>> {
        self.with(|state| state.counted())
    }

    pub fn stats(&self) -> Outcome<InboxStats> {
        self.with(|state| Ok(state.inbox.stats()))
    }

    /// Ends the waits of other threads, then the receiver, which may linger.
    pub fn close(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.wake();
        drop(state);
    }

    fn wake(&self) {
        // A full counter is readable as well.
        let _ = self.wake.write(1);
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> Outcome<T>) -> Outcome<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        work(state.as_mut().ok_or_else(|| Failure::closed("receiver of windows"))?)
    }
}

impl State {
    fn take(&mut self, window: i64) -> Outcome<ReceivedWindow> {
        self.pending.remove(&window).ok_or_else(|| {
            let text = "the window was confirmed or rejected before, or is another receiver's";
            Failure::new(failure::STATE, text)
        })
    }

    fn counted(&self) -> Outcome<Vec<u8>> {
        serde_json::to_vec(self.inbox.counted())
            .map_err(|error| Failure::new(failure::INTERNAL, format!("no JSON: {error}")))
    }
}

/// The offsets that another receiver has counted.
pub fn counted(bytes: &[u8]) -> Outcome<Counted> {
    if bytes.is_empty() {
        return Ok(Counted::default());
    }
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::argument(format!("counted isn't what another receiver has counted: {error}"))
    })
}
