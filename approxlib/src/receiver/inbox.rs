//! What the receiving thread hands to the application: events, a batch at a time.

use super::events::Event;
use crate::{error::Error, udp::is_for_superpackets};
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverStats {
    /// DATA packets of accepted jobs, duplicates included.
    pub packets_received: u64,
    /// Message bytes in them.
    pub bytes: u64,
    /// ACKs sent by this process; none while the kernel acknowledges.
    pub acks_sent: u64,
    /// Packets refused: malformed, unwanted, too large, contradicting, too many.
    pub refused: u64,
    /// Messages that became whole.
    pub messages: u64,
    /// Senders (address, job and run) known at the moment.
    pub sources: u32,
    /// Senders that had fallen silent and were forgotten before their job's end, to make room.
    pub evicted: u64,
}

/// Messages whose memory is kept for the thread.
const MEMORY_MAX: usize = 64;

/// The place of exchange.
#[derive(Debug)]
pub struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
    wake: EventFd,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    /// Memory of messages that the application gave back.
    memory: Vec<Vec<u8>>,
    /// Of the events here; those that the application took count no longer.
    bytes: u64,
    stats: ReceiverStats,
    application_waits: bool,
    /// The thread has stopped reading until there is room.
    thread_waits: bool,
    stop: bool,
    failure: Option<Error>,
    thread_gone: bool,
}

impl Inbox {
    pub fn new(bytes_max: u64) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { state: Mutex::default(), arrived: Condvar::new(), wake, bytes_max })
    }

    /// Moves all events into `into` (which is empty), waiting for one until `deadline`.
    pub fn take(&self, into: &mut VecDeque<Event>, deadline: Option<Instant>) -> Result<(), Error> {
        let mut state = self.lock();
        while state.events.is_empty() {
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.thread_gone {
                return Err(Error::Thread(io::Error::other("it has ended")));
            }
            state.application_waits = true;
            state = match deadline {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    let waited = self.arrived.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.application_waits = false;
        }
        std::mem::swap(into, &mut state.events);
        state.bytes = 0;
        if std::mem::take(&mut state.thread_waits) {
            drop(state);
            self.wake_thread();
        }
        Ok(())
    }

    /// Takes back the memory of a message.
    pub fn give_back(&self, memory: Vec<u8>) {
        if !is_for_superpackets(&memory) {
            return;
        }
        let mut state = self.lock();
        if state.memory.len() < MEMORY_MAX {
            state.memory.push(memory);
        }
    }

    /// Adds `events`, brings `memory` that was given back, and says whether there is room for more.
    pub fn put(
        &self,
        events: &mut Vec<Event>,
        memory: &mut Vec<Vec<u8>>,
        stats: ReceiverStats,
    ) -> Verdict {
        let bytes: u64 = events.iter().map(Event::bytes).sum();
        let mut state = self.lock();
        memory.append(&mut state.memory);
        state.stats = stats;
        state.bytes += bytes;
        state.events.extend(events.drain(..));
        state.thread_waits = state.bytes > self.bytes_max;
        let verdict = Verdict { full: state.thread_waits, stop: state.stop };
        if state.application_waits && !state.events.is_empty() {
            state.application_waits = false;
            drop(state);
            self.arrived.notify_one();
        }
        verdict
    }

    pub fn stats(&self) -> ReceiverStats {
        self.lock().stats
    }

    /// Asks the thread to end.
    pub fn stop(&self) {
        self.lock().stop = true;
        self.wake_thread();
    }

    /// Tells the application that the thread is gone, and why if it failed.
    pub fn set_thread_gone(&self, failure: Option<Error>) {
        let mut state = self.lock();
        state.thread_gone = true;
        state.failure = failure.or(state.failure.take());
        drop(state);
        self.arrived.notify_all();
    }

    /// For the thread, to be woken by.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The thread was woken.
    pub fn clear_wake(&self) {
        // Nothing to read only means that nobody wrote.
        let _ = self.wake.read();
    }

    fn wake_thread(&self) {
        // Full (2^64 - 2 wake-ups) means awake as well.
        let _ = self.wake.write(1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every update of the state is whole before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the receiving thread is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Read nothing more until woken.
    pub full: bool,
    /// End.
    pub stop: bool,
}
