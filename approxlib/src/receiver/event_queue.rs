//! The queue of events from the receiver thread to the application. Events move in batches.

use super::{ReceiverStats, SourceProgress, events, requests::REQUESTS_MAX};
use crate::{error::Error, signal::Signal, udp::fits_gro_buffer};
use atp_proto::endpoint::{Event, Request};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The most memory blocks that are kept for the receiver thread.
const MEMORY_MAX: usize = 64;

/// The queue, shared by the receiver thread and the application.
#[derive(Debug)]
pub struct EventQueue {
    state: Mutex<State>,
    /// Wakes the application.
    arrived: Condvar,
    /// Wakes those that wait for a [`ProgressAnswer`].
    answered: Condvar,
    /// Wakes an application that polls.
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

/// The answers to [`Receiver::progress`](crate::Receiver::progress). Callers of several threads
/// have numbers, so that none takes the answer away from another.
#[derive(Debug, Default)]
struct ProgressAnswer {
    /// How often the application has asked.
    asked: u64,
    /// The newest inquiry that `progress` answers.
    answered: u64,
    progress: Vec<SourceProgress>,
}

/// The longest wait for [`ProgressAnswer`]. The thread answers after the batch that it works on.
const PROGRESS_WAIT: Duration = Duration::from_secs(1);

impl EventQueue {
    pub fn new(bytes_max: u64) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (arrived, answered, readable) = (Condvar::new(), Condvar::new(), Signal::default());
        Ok(Self { state: Mutex::default(), arrived, answered, readable, wake, bytes_max })
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
        events: impl Iterator<Item = Event>,
        memory: &mut Vec<Vec<u8>>,
        stats: ReceiverStats,
    ) -> NextStep {
        let mut state = self.lock();
        memory.append(&mut state.memory);
        state.stats = stats;
        let mut bytes = 0;
        state.events.extend(events.inspect(|event| bytes += events::bytes(event)));
        state.bytes += bytes;
        let has_events = !state.events.is_empty();
        state.thread_waits = state.bytes > self.bytes_max;
        let next = NextStep {
            full: state.thread_waits,
            stop: state.stop,
            has_requests: !state.requests.is_empty(),
            progress_asked: (state.progress.asked > state.progress.answered)
                .then_some(state.progress.asked),
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

    /// Asks the receiver thread for the progress of all jobs. Returns the inquiry's number.
    pub fn ask_progress(&self) -> u64 {
        let mut state = self.lock();
        state.progress.asked += 1;
        let asked = state.progress.asked;
        drop(state);
        self.wake_thread();
        asked
    }

    /// The answer to a inquiry, if it is there. A thread that has ended has no jobs.
    pub fn try_progress(&self, asked: u64) -> Option<Vec<SourceProgress>> {
        let state = self.lock();
        match state.progress.answered >= asked {
            true => Some(state.progress.progress.clone()),
            false => state.thread_gone.then(Vec::new),
        }
    }

    /// Asks, and waits for the answer; `None` if it doesn't come within [`PROGRESS_WAIT`].
    pub fn progress(&self) -> Option<Vec<SourceProgress>> {
        let asked = self.ask_progress();
        let waits = |state: &mut State| !state.thread_gone && state.progress.answered < asked;
        drop(self.answered.wait_timeout_while(self.lock(), PROGRESS_WAIT, waits));
        self.try_progress(asked)
    }

    /// For the receiver thread: answers the inquirys up to this one.
    pub fn set_progress(&self, asked: u64, progress: Vec<SourceProgress>) {
        let mut state = self.lock();
        state.progress.answered = asked;
        state.progress.progress = progress;
        drop(state);
        self.answered.notify_all();
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
        self.answered.notify_all();
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
    /// The application waits for the progress of all jobs: its newest inquiry.
    pub progress_asked: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_job(job: u32) -> Vec<SourceProgress> {
        let source = "127.0.0.1:1".parse().unwrap();
        vec![SourceProgress { source, job, run: 1, window: 0, groups: Vec::new() }]
    }

    fn asked(queue: &EventQueue) -> Option<u64> {
        queue.put([].into_iter(), &mut Vec::new(), ReceiverStats::default()).progress_asked
    }

    #[test]
    fn try_progress__gives_each_inquiry_an_answer() {
        let queue = EventQueue::new(0).unwrap();
        assert_eq!(asked(&queue), None);
        let (first, second) = (queue.ask_progress(), queue.ask_progress());
        assert_eq!((queue.try_progress(first), asked(&queue)), (None, Some(second)));
        queue.set_progress(second, of_job(1));
        assert_eq!(asked(&queue), None);
        let third = queue.ask_progress();
        for earlier in [second, first, first] {
            assert_eq!(queue.try_progress(earlier), Some(of_job(1)));
        }
        // The answer to an earlier inquiry may lack jobs.
        assert_eq!(queue.try_progress(third), None);
        queue.set_thread_gone(None);
        assert_eq!(queue.try_progress(third), Some(Vec::new()));
        assert_eq!(queue.progress(), Some(Vec::new()));
    }

    /// A thread that is late has jobs, perhaps: no answer isn't the answer that there are none.
    #[test]
    fn progress__of_a_late_thread_is_none() {
        assert_eq!(EventQueue::new(0).unwrap().progress(), None);
    }
}
