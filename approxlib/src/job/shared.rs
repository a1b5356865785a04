//! State shared by the application's thread and the sender thread.
//!
//! The application puts messages and commands in; the sender thread gives back room, answers and
//! outcomes. It takes one short lock per message, and none per packet.

use super::{buffer_pool::BufferPool, data::Data};
use crate::{
    error::Shortfall,
    report::{Report, WindowReport},
};
use atp_common::units::Msr;
use atp_proto::MsrError;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// The progress of a running job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Messages accepted by [`Job::send`](crate::Job::send), of all groups and windows.
    pub messages: u32,
    /// Messages known to be delivered, of all groups of the present window.
    pub delivered: u32,
    /// The sum of the lanes' rates, bytes per second.
    pub rate_bytes_per_s: u64,
    /// DATA packets sent, retransmissions included.
    pub packets_sent: u64,
}

/// The most that the job holds before `Shared::put` blocks.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub buffer_bytes: u64,
    pub buffer_messages: u32,
}

/// A message for the sender thread.
#[derive(Debug)]
pub struct NewMessage {
    pub group: u8,
    pub data: Data,
}

/// Why a message was not accepted.
#[derive(Debug)]
pub enum PutError {
    /// The group has its N messages already, or the most that a job can have.
    TooMany(u32),
    /// The job has no such group.
    NoGroup,
    /// The job has failed.
    Failed(Box<Shortfall>),
    /// The sender thread has ended.
    NoThread,
}

/// How a job ended.
pub type Outcome = Result<Report, Box<Shortfall>>;

/// A request of the application to the sender thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// No more messages follow.
    Finish,
    /// No more messages follow in this window.
    FinishWindow,
    /// End the job now, with the messages delivered so far.
    Cancel,
    /// Begin the next window, with the announced N of some groups.
    BeginWindow { messages: Vec<(u8, u32)> },
    /// Change a group's sampling rate; answered by `Shared::set_msr_answer`.
    SetMsr { group: u8, msr: Msr },
    /// The application dropped the job: end at once.
    Abandon,
}

/// State shared by the application's thread and the sender thread.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    /// Wakes the application.
    changed: Condvar,
    /// Wakes the sender thread.
    wake: EventFd,
    limits: Limits,
}

#[derive(Debug, Default)]
struct State {
    /// Messages that the sender thread has not taken yet.
    waiting: Vec<NewMessage>,
    /// Memory of messages that the sender thread released.
    pool: BufferPool,
    commands: Vec<Command>,
    /// Bytes and messages that wait here or that the sender thread holds.
    held_bytes: u64,
    held_messages: u32,
    accepted: u32,
    /// By group: messages accepted in this window, and their limit; `None` if the job has no such
    /// group.
    groups: Vec<Option<GroupCount>>,
    /// The sender thread sleeps until the eventfd wakes it.
    thread_sleeps: bool,
    /// Messages with packets that were never sent, as of the last exchange, and those put since.
    untried_messages: u32,
    /// The message for which the application waits for room.
    room_request: Option<RoomRequest>,
    /// The job needs no more messages.
    complete: bool,
    thread_gone: bool,
    progress: Progress,
    msr_answer: Option<Result<(), MsrError>>,
    window_outcome: Option<WindowReport>,
    outcome: Option<Outcome>,
}

/// A message that needs room.
#[derive(Clone, Copy, Debug)]
struct RoomRequest {
    bytes: u64,
    /// The job holds a copy, not the application's memory.
    is_copy: bool,
}

/// The most bytes of copies that wait for their first transmission, on a lane so fast that it sends
/// the complete buffer within [`AHEAD_NS`]. Older copies have left the processor's cache, and the
/// kernel would fetch them from memory at three times the cost.
const AHEAD_BYTES_MAX: u64 = 512 << 10;
const AHEAD_NS: u64 = 10_000_000;

/// Messages of one group in the present window.
#[derive(Clone, Copy, Debug)]
struct GroupCount {
    accepted: u32,
    /// N, or the most that a job can have if N was not announced.
    max: u32,
}

impl Shared {
    /// `groups`: each group with the most messages that it accepts in a window.
    pub fn new(limits: Limits, groups: impl Iterator<Item = (u8, u32)>) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let mut state = State { groups: vec![None; 256], ..State::default() };
        for (group, max) in groups {
            state.groups[usize::from(group)] = Some(GroupCount { accepted: 0, max });
        }
        Ok(Self { state: Mutex::new(state), changed: Condvar::new(), wake, limits })
    }

    /// Accepts a message, after waiting for room, and returns its id. Moves memory of released
    /// messages into `pool`.
    pub fn put(&self, message: NewMessage, pool: &mut BufferPool) -> Result<u32, PutError> {
        let len = message.data.len() as u64;
        let request = RoomRequest { bytes: len, is_copy: matches!(message.data, Data::Copied(_)) };
        let index = usize::from(message.group);
        let mut state = self.lock();
        loop {
            if let Some(Err(shortfall)) = &state.outcome {
                return Err(PutError::Failed(shortfall.clone()));
            }
            match state.groups[index] {
                None => return Err(PutError::NoGroup),
                Some(GroupCount { accepted, max }) if accepted >= max => {
                    return Err(PutError::TooMany(max));
                }
                Some(_) => {}
            }
            if state.complete || self.has_room(&state, request) {
                break;
            }
            if state.thread_gone {
                return Err(PutError::NoThread);
            }
            state.room_request = Some(request);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.room_request = None;
        }
        pool.refill(&mut state.pool);
        state.accepted = state.accepted.wrapping_add(1);
        let mut id = 0;
        if let Some(group) = &mut state.groups[index] {
            id = group.accepted;
            group.accepted += 1;
        }
        if !state.complete {
            state.held_bytes += len;
            state.held_messages += 1;
            state.untried_messages += 1;
            state.waiting.push(message);
            self.wake_if_asleep(state);
        }
        Ok(id)
    }

    /// Gives a command to the sender thread.
    pub fn command(&self, command: Command) {
        let mut state = self.lock();
        state.commands.push(command);
        state.thread_sleeps = true; // The thread may sleep to pace: wake it anyway.
        self.wake_if_asleep(state);
    }

    /// Changes a sampling rate and waits for the answer; `None` if the job has ended.
    pub fn set_msr(&self, group: u8, msr: Msr) -> Option<Result<(), MsrError>> {
        self.command(Command::SetMsr { group, msr });
        let mut state = self.lock();
        while state.msr_answer.is_none() && state.outcome.is_none() && !state.thread_gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.msr_answer.take()
    }

    /// Waits for the end of the window; `None` if the job has ended instead.
    pub fn window_outcome(&self) -> Option<WindowReport> {
        let mut state = self.lock();
        while state.window_outcome.is_none() && state.outcome.is_none() && !state.thread_gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.window_outcome.take()
    }

    /// Begins a window: counts each group's messages from 0, and sets the limits given in
    /// `messages`. Other groups keep theirs.
    pub fn begin_window(&self, messages: Vec<(u8, u32)>) {
        let mut state = self.lock();
        for group in state.groups.iter_mut().flatten() {
            group.accepted = 0;
        }
        for (group, max) in &messages {
            if let Some(group) = &mut state.groups[usize::from(*group)] {
                group.max = *max;
            }
        }
        state.complete = false;
        drop(state);
        self.command(Command::BeginWindow { messages });
    }

    /// Waits for the job's outcome. `None` if the sender thread ended without one.
    pub fn outcome(&self) -> Option<Outcome> {
        let mut state = self.lock();
        while state.outcome.is_none() && !state.thread_gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outcome.take()
    }

    /// The progress that was published last, with the current number of messages.
    pub fn progress(&self) -> Progress {
        let state = self.lock();
        Progress { messages: state.accepted, ..state.progress }
    }

    /// For the sender thread: moves all waiting messages into `messages` and returns all commands.
    ///
    /// `released` counts the messages released since the last call, whose memory is in `pool`.
    /// `untried_messages` counts those with packets that were never sent.
    pub fn exchange(
        &self,
        messages: &mut Vec<NewMessage>,
        released: Released,
        untried_messages: u32,
        pool: &mut BufferPool,
    ) -> Vec<Command> {
        debug_assert!(messages.is_empty());
        let mut state = self.lock();
        state.untried_messages = untried_messages + state.waiting.len() as u32;
        state.pool.refill(pool);
        std::mem::swap(messages, &mut state.waiting);
        state.held_bytes = state.held_bytes.saturating_sub(released.bytes);
        state.held_messages = state.held_messages.saturating_sub(released.messages);
        if state.room_request.is_some_and(|request| self.is_worth_waking(&state, request)) {
            self.changed.notify_all();
        }
        std::mem::take(&mut state.commands)
    }

    /// For the sender thread: lets the next message wake it. Returns `false` if messages or
    /// commands wait already.
    pub fn prepare_to_sleep(&self) -> bool {
        let mut state = self.lock();
        if !state.waiting.is_empty() || !state.commands.is_empty() {
            return false;
        }
        state.thread_sleeps = true;
        true
    }

    /// For the sender thread, after it slept. `woken`: the eventfd was written to.
    pub fn awake(&self, woken: bool) {
        self.lock().thread_sleeps = false;
        if woken {
            // An error only means that the counter is 0 already.
            let _ = self.wake.read();
        }
    }

    /// The eventfd that wakes the sender thread.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Ends the application's wait for room: the job needs no more messages.
    pub fn set_complete(&self) {
        self.lock().complete = true;
        self.changed.notify_all();
    }

    pub fn set_msr_answer(&self, answer: Result<(), MsrError>) {
        self.lock().msr_answer = Some(answer);
        self.changed.notify_all();
    }

    pub fn set_window_outcome(&self, report: WindowReport) {
        self.lock().window_outcome = Some(report);
        self.changed.notify_all();
    }

    pub fn set_progress(&self, progress: Progress) {
        self.lock().progress = progress;
    }

    pub fn set_outcome(&self, outcome: Outcome) {
        let mut state = self.lock();
        state.complete = outcome.is_ok();
        state.outcome = Some(outcome);
        self.changed.notify_all();
    }

    /// Ends every wait of the application: the sender thread has ended, perhaps by a panic.
    pub fn set_thread_gone(&self) {
        self.lock().thread_gone = true;
        self.changed.notify_all();
    }

    /// Whether the message fits. One longer than the complete buffer fits an empty buffer.
    fn has_room(&self, state: &State, request: RoomRequest) -> bool {
        state.held_messages == 0
            || (state.held_bytes + request.bytes <= self.limits.buffer_bytes
                && state.held_messages < self.limits.buffer_messages
                && self.copies_fit(state, request, AHEAD_BYTES_MAX))
    }

    /// Whether to wake the application: when a quarter of the buffer is free, not for each released
    /// message.
    fn is_worth_waking(&self, state: &State, request: RoomRequest) -> bool {
        self.has_room(state, request)
            && state.held_bytes <= self.limits.buffer_bytes / 4 * 3
            && state.held_messages <= self.limits.buffer_messages / 4 * 3
            && self.copies_fit(state, request, AHEAD_BYTES_MAX / 2)
    }

    /// Whether at most `bytes_max` of copies wait for their first transmission, assuming that all
    /// are as long as this message. Always true of shared memory and of slower lanes.
    fn copies_fit(&self, state: &State, request: RoomRequest, bytes_max: u64) -> bool {
        let in_time_bytes = state.progress.rate_bytes_per_s / (1_000_000_000 / AHEAD_NS);
        let waiting_bytes = u64::from(state.untried_messages) * request.bytes;
        !request.is_copy || in_time_bytes < self.limits.buffer_bytes || waiting_bytes <= bytes_max
    }

    fn wake_if_asleep(&self, mut state: MutexGuard<'_, State>) {
        let asleep = std::mem::take(&mut state.thread_sleeps);
        drop(state);
        if asleep {
            // A full counter (2^64 - 2 wakeups) wakes the thread as well.
            let _ = self.wake.write(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every update of the state is complete before the lock is released, so a panic elsewhere
        // leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages that the sender thread released, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Released {
    pub messages: u32,
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(rate_bytes_per_s: u64) -> Shared {
        let limits = Limits { buffer_bytes: 1 << 22, buffer_messages: 1 << 16 };
        let shared = Shared::new(limits, std::iter::once((0, u32::MAX))).unwrap();
        shared.set_progress(Progress { rate_bytes_per_s, ..Progress::default() });
        shared
    }

    /// The number of messages that are accepted until the next would have to wait.
    fn accepted(shared: &Shared, is_copy: bool) -> u32 {
        let (mut pool, bytes) = (BufferPool::default(), [7; 1 << 10]);
        let request = RoomRequest { bytes: 1 << 10, is_copy };
        let mut number = 0;
        while shared.has_room(&shared.lock(), request) {
            let data = match is_copy {
                true => Data::Copied(pool.copy(&bytes)),
                false => Data::Shared(bytes.into()),
            };
            shared.put(NewMessage { group: 0, data }, &mut pool).unwrap();
            number += 1;
        }
        number
    }

    #[test]
    fn put__limits_waiting_copies_to_the_cache_on_fast_lanes_only() {
        const GIGABYTE_PER_S: u64 = 1_000_000_000;
        assert_eq!(accepted(&shared(GIGABYTE_PER_S / 10), true), 1 << 12);
        assert_eq!(accepted(&shared(GIGABYTE_PER_S), false), 1 << 12);
        let fast = shared(GIGABYTE_PER_S);
        let ahead = (AHEAD_BYTES_MAX >> 10) as u32;
        assert_eq!(accepted(&fast, true), ahead + 1);
        // The application is woken when half of the copies were sent, and then there is room.
        let mut messages = Vec::new();
        let mut exchange = |untried| {
            messages.clear();
            fast.exchange(&mut messages, Released::default(), untried, &mut BufferPool::default());
            let request = RoomRequest { bytes: 1 << 10, is_copy: true };
            fast.is_worth_waking(&fast.lock(), request)
        };
        exchange(0);
        assert!(!exchange(ahead / 2 + 1));
        assert!(exchange(ahead / 2));
        assert_eq!(accepted(&fast, true), ahead / 2 + 1);
    }
}
