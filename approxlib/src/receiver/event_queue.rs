//! The queue of events from the receiver thread to the application. Events move in batches.

use super::{
    events::Event,
    progress::SourceProgress,
    requests::{REQUESTS_MAX, Request},
};
use crate::{error::Error, signal::Signal, udp::fits_gro_buffer};
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Counters of a receiver, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverStats {
    /// DATA packets of accepted jobs, duplicates included.
    pub packets_received: u64,
    /// Bytes behind their headers: message bytes, and the members' headers in packed packets.
    pub bytes: u64,
    /// ACKs sent by this process; none while the daemon's programs acknowledge.
    pub acks_sent: u64,
    /// Packets refused: malformed, of unwanted jobs, too large, contradictory, or beyond a limit.
    pub refused: u64,
    /// Complete messages.
    pub messages: u64,
    /// Senders (address, job and run) known at present.
    pub sources: u32,
    /// Silent senders that were evicted before their job's end, to make room for others.
    pub evicted: u64,
    /// Memory of incomplete and waiting messages, records and terms of all senders now, bytes.
    /// At most [`ReceiverBuilder::memory_bytes_max`](crate::ReceiverBuilder::memory_bytes_max).
    pub memory_bytes: u64,
}

/// The most memory blocks that are kept for the receiver thread.
const MEMORY_MAX: usize = 64;

/// The queue, shared by the receiver thread and the application.
#[derive(Debug)]
pub struct EventQueue {
    state: Mutex<State>,
    /// Wakes the application.
    arrived: Condvar,
    /// The same, for an application that polls.
    readable: Signal,
    /// Wakes the receiver thread.
    wake: EventFd,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    /// Memory of messages that the application has recycled.
    memory: Vec<Vec<u8>>,
    /// Requests for the receiver thread.
    requests: Vec<Request>,
    progress: ProgressAnswer,
    /// Memory of the queued events, bytes.
    bytes: u64,
    stats: ReceiverStats,
    application_waits: bool,
    /// The receiver thread has stopped reading until there is room.
    thread_waits: bool,
    stop: bool,
    failure: Option<Error>,
    thread_gone: bool,
}

/// The answer to [`Receiver::progress`](crate::Receiver::progress).
#[derive(Debug, Default)]
enum ProgressAnswer {
    #[default]
    NotAsked,
    Asked,
    Given(Vec<SourceProgress>),
}

/// The longest wait for [`ProgressAnswer`]. The thread answers after the batch that it works on.
const PROGRESS_WAIT: Duration = Duration::from_secs(1);

impl EventQueue {
    pub fn new(bytes_max: u64) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (arrived, readable) = (Condvar::new(), Signal::default());
        Ok(Self { state: Mutex::default(), arrived, readable, wake, bytes_max })
    }

    /// Moves all events into `into` (which is empty), waiting for one until `deadline`.
    pub fn take(&self, into: &mut VecDeque<Event>, deadline: Option<Instant>) -> Result<(), Error> {
        let mut state = self.lock();
        while state.events.is_empty() {
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.thread_gone {
                return Err(Error::Thread(io::Error::other("the receiver thread has ended")));
            }
            state.application_waits = true;
            state = match deadline {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.readable.clear();
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

    /// Keeps the memory of a message for the receiver thread.
    pub fn recycle(&self, memory: Vec<u8>) {
        if !fits_gro_buffer(&memory) {
            return;
        }
        let mut state = self.lock();
        if state.memory.len() < MEMORY_MAX {
            state.memory.push(memory);
        }
    }

    /// For the receiver thread: adds `events`, moves recycled memory into `memory`, and returns the
    /// thread's next step.
    pub fn put(
        &self,
        events: &mut Vec<Event>,
        memory: &mut Vec<Vec<u8>>,
        stats: ReceiverStats,
    ) -> NextStep {
        let bytes: u64 = events.iter().map(Event::bytes).sum();
        let mut state = self.lock();
        memory.append(&mut state.memory);
        state.stats = stats;
        state.bytes += bytes;
        state.events.extend(events.drain(..));
        let has_events = !state.events.is_empty();
        state.thread_waits = state.bytes > self.bytes_max;
        let next = NextStep {
            full: state.thread_waits,
            stop: state.stop,
            has_requests: !state.requests.is_empty(),
            wants_progress: matches!(state.progress, ProgressAnswer::Asked),
        };
        let must_wake = has_events && std::mem::take(&mut state.application_waits);
        drop(state);
        if must_wake {
            self.arrived.notify_one();
        }
        if has_events {
            self.readable.set();
        }
        next
    }

    /// Gives a request to the receiver thread. Beyond the limit it has no effect: the thread is
    /// then far behind, or gone.
    pub fn request(&self, request: Request) {
        let mut state = self.lock();
        if state.requests.len() < REQUESTS_MAX {
            state.requests.push(request);
        }
        drop(state);
        self.wake_thread();
    }

    /// For the receiver thread: the requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.lock().requests)
    }

    /// Asks the receiver thread for the progress of all jobs.
    pub fn progress(&self) -> Vec<SourceProgress> {
        self.lock().progress = ProgressAnswer::Asked;
        self.wake_thread();
        let waits = |state: &mut State| {
            !state.thread_gone && matches!(state.progress, ProgressAnswer::Asked)
        };
        let waited = self.arrived.wait_timeout_while(self.lock(), PROGRESS_WAIT, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match std::mem::take(&mut state.progress) {
            ProgressAnswer::Given(progress) => progress,
            ProgressAnswer::NotAsked | ProgressAnswer::Asked => Vec::new(),
        }
    }

    /// For the receiver thread: answers [`Self::progress`].
    pub fn set_progress(&self, progress: Vec<SourceProgress>) {
        self.lock().progress = ProgressAnswer::Given(progress);
        self.arrived.notify_all();
    }

    pub fn stats(&self) -> ReceiverStats {
        self.lock().stats
    }

    /// Asks the receiver thread to end.
    pub fn stop(&self) {
        self.lock().stop = true;
        self.wake_thread();
    }

    /// Ends the application's wait: the receiver thread has ended, by `failure` or on request.
    pub fn set_thread_gone(&self, failure: Option<Error>) {
        let mut state = self.lock();
        state.thread_gone = true;
        state.failure = failure.or(state.failure.take());
        drop(state);
        self.arrived.notify_all();
        self.readable.set();
    }

    /// The descriptor that is readable while events wait here.
    pub fn readable(&self) -> io::Result<BorrowedFd<'_>> {
        self.readable.fd()
    }

    /// The eventfd that wakes the receiver thread.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Clears the eventfd after it woke the receiver thread.
    pub fn clear_wake(&self) {
        // An error only means that the counter is 0 already.
        let _ = self.wake.read();
    }

    fn wake_thread(&self) {
        // A full counter (2^64 - 2 wakeups) wakes the thread as well.
        let _ = self.wake.write(1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every update of the state is complete before the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiver thread's next step after a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextStep {
    /// The queue is full: stop reading until woken.
    pub full: bool,
    /// The application dropped the receiver: end.
    pub stop: bool,
    /// The application has made requests.
    pub has_requests: bool,
    /// The application waits for the progress of all jobs.
    pub wants_progress: bool,
}
