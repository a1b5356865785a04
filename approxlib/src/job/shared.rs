//! State shared by the application's thread and the sender thread.
//!
//! The application puts messages and commands in; the sender thread gives back room, answers and
//! outcomes. It takes a short lock per message, or per several of `Job::send_all`, and none per
//! packet.

mod state;

pub use atp_proto::flow::Command;
pub use state::{NewMessage, Outcome};

use super::{buffer_pool::BufferPool, data::Data, progress::Progress};
use crate::{error::Shortfall, report::WindowReport, signal::Signal};
use atp_common::units::Msr;
use atp_proto::MsrError;
use nix::sys::eventfd::{EfdFlags, EventFd};
use state::{GroupCount, RoomRequest, State};
use std::{
    io,
    iter::Peekable,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// The most that the job holds before `Shared::put` blocks.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub buffer_bytes: u64,
    pub buffer_messages: u32,
}

/// Why a message was not accepted.
#[derive(Debug)]
pub enum PutError {
    /// The group has its N messages already, or the most that a job can have.
    TooMany(u32),
    /// The job has no such group.
    NoGroup,
    /// The input was ended before.
    Ended,
    /// The job has failed.
    Failed(Box<Shortfall>),
    /// The sender thread has ended.
    NoThread,
}

/// State shared by the application's thread and the sender thread.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    /// Wakes the application.
    changed: Condvar,
    /// The same, for an application that polls.
    changed_signal: Signal,
    /// Wakes the sender thread.
    wake: EventFd,
    limits: Limits,
}

/// The most bytes of copies that wait for their first transmission, on a lane so fast that it sends
/// the complete buffer within [`AHEAD_NS`]. Older copies have left the processor's cache, and the
/// kernel would fetch them from memory at three times the cost.
const AHEAD_BYTES_MAX: u64 = 512 << 10;
const AHEAD_NS: u64 = 10_000_000;

impl Shared {
    /// `groups`: each group with the most messages that it accepts in a window.
    pub fn new(limits: Limits, groups: impl Iterator<Item = (u8, u32)>) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let mut state = State { groups: vec![None; 256], ..State::default() };
        for (group, max) in groups {
            state.groups[usize::from(group)] = Some(GroupCount { accepted: 0, max });
        }
        let (changed, changed_signal) = (Condvar::new(), Signal::default());
        Ok(Self { state: Mutex::new(state), changed, changed_signal, wake, limits })
    }

    /// Accepts messages of `group`, one after the other, and returns their ids. `waits`: for room;
    /// otherwise it stops at the first message for which there is none, and the signal shows when
    /// there may be. The messages that were not accepted stay in `messages`, also after an error.
    /// Moves memory of released messages into `pool`.
    pub fn put(
        &self,
        group: u8,
        messages: &mut Peekable<impl Iterator<Item = Data>>,
        waits: bool,
        pool: &mut BufferPool,
    ) -> Result<Range<u32>, PutError> {
        if !waits {
            self.changed_signal.clear();
        }
        // Dropping a message may call the application, which may call the job: not under the lock.
        let mut unwanted = Vec::new();
        let mut state = self.lock();
        let first = state.groups[usize::from(group)].map_or(0, |group| group.accepted);
        let mut ids = Ok(first..first);
        while let Some(request) = messages.peek().map(RoomRequest::of) {
            match self.may_accept(&state, group, request) {
                Ok(true) => {
                    unwanted.extend(messages.next().and_then(|data| state.accept(group, data)));
                    ids = ids.map(|ids| ids.start..ids.end + 1);
                }
                Ok(false) => {
                    state.request_room(request);
                    if !waits {
                        break;
                    }
                    if state.must_wake_thread() {
                        self.wake_thread();
                    }
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Err(error) => {
                    ids = Err(error);
                    break;
                }
            }
        }
        pool.refill(&mut state.pool);
        let wakes = state.must_wake_thread();
        if !waits {
            self.set_signal_again(&state);
        }
        drop(state);
        if wakes {
            self.wake_thread();
        }
        ids
    }

    /// Sets the signal after a call has cleared it, if another call may return something.
    fn set_signal_again(&self, state: &State) {
        let has_room = state.room_request.is_some_and(|request| self.has_room(state, request));
        let has_window = state.awaits_window() && !state.window_outcomes.is_empty();
        let may_begin = state.wants_window && state.can_begin_window();
        if has_room || has_window || may_begin || state.outcome.is_some() || state.thread_gone {
            self.changed_signal.set();
        }
    }

    /// Whether a message of `group` is accepted now, or has to wait for room.
    fn may_accept(&self, state: &State, group: u8, request: RoomRequest) -> Result<bool, PutError> {
        if let Some(Err(shortfall)) = &state.outcome {
            return Err(PutError::Failed(shortfall.clone()));
        }
        match state.groups[usize::from(group)] {
            None => return Err(PutError::NoGroup),
            Some(GroupCount { accepted, max }) if accepted >= max => {
                return Err(PutError::TooMany(max));
            }
            Some(_) => {}
        }
        match state {
            State { input_ended: true, .. } => Err(PutError::Ended),
            State { complete: true, .. } => Ok(true),
            State { thread_gone: true, .. } => Err(PutError::NoThread),
            _ => Ok(self.has_room(state, request)),
        }
    }

    /// Gives a command to the sender thread.
    pub fn command(&self, command: Command) {
        let mut state = self.lock();
        if matches!(command, Command::Finish | Command::Cancel | Command::Abandon) {
            (state.input_ended, state.room_request) = (true, None);
            state.wants_window = false;
            // A thread that waits for room learns that there will be none.
            self.changed.notify_all();
        }
        if command == Command::FinishWindow {
            state.room_request = None;
            state.windows_finished = state.window.wrapping_add(1);
        }
        self.push_command(state, command);
    }

    fn push_command(&self, mut state: MutexGuard<'_, State>, command: Command) {
        state.commands.push(command);
        state.thread_sleeps = false;
        drop(state);
        // It may sleep to pace without being noted as asleep: wake it anyway.
        self.wake_thread();
    }

    /// Changes a sampling rate from the current window on, or from the next one on, and waits for
    /// the answer of the sender thread; `None` if the job has ended.
    pub fn set_msr(&self, group: u8, msr: Msr, is_of_next: bool) -> Option<Result<(), MsrError>> {
        let state = self.lock();
        let window = state.window.wrapping_add(is_of_next.into());
        self.push_command(state, Command::SetMsr { window, group, msr });
        let mut state = self.lock();
        while state.msr_answer.is_none() && state.outcome.is_none() && !state.thread_gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.msr_answer.take()
    }

    /// Waits for the oldest window end that was not taken yet; `None` if the job has ended instead.
    pub fn window_outcome(&self) -> Option<WindowReport> {
        let mut state = self.lock();
        while state.window_outcomes.is_empty() && state.outcome.is_none() && !state.thread_gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.window_outcomes.pop_front()
    }

    /// The same, if it is there. `Some(None)`: the job has ended instead.
    pub fn try_window_outcome(&self) -> Option<Option<WindowReport>> {
        self.changed_signal.clear();
        let mut state = self.lock();
        let report = state.window_outcomes.pop_front();
        self.set_signal_again(&state);
        match report {
            None if state.outcome.is_none() && !state.thread_gone => None,
            report => Some(report),
        }
    }

    /// The shortfall with which the job has failed. It waits for nothing.
    pub fn failure(&self) -> Option<Box<Shortfall>> {
        self.lock().outcome.as_ref()?.as_ref().err().cloned()
    }

    /// Whether the next window may begin: at most one window has not ended.
    ///
    /// If not, the signal shows when it may.
    pub fn can_begin_window(&self) -> bool {
        self.changed_signal.clear();
        let mut state = self.lock();
        state.wants_window = !state.can_begin_window();
        self.set_signal_again(&state);
        !state.wants_window
    }

    /// Begins a window: counts each group's messages from 0, and sets the limits given in
    /// `messages`. Other groups keep theirs. Waits until at most one window has not ended.
    pub fn begin_window(&self, messages: Vec<(u8, u32)>) {
        let mut state = self.lock();
        while !state.can_begin_window() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.input_ended {
            // Another thread has ended the job: no window follows.
            return;
        }
        (state.window, state.wants_window) = (state.window.wrapping_add(1), false);
        for group in state.groups.iter_mut().flatten() {
            group.accepted = 0;
        }
        for (group, max) in &messages {
            if let Some(group) = &mut state.groups[usize::from(*group)] {
                group.max = *max;
            }
        }
        // The receiver may have ended the job meanwhile.
        state.complete = matches!(state.outcome, Some(Ok(_)));
        self.push_command(state, Command::BeginWindow { messages });
    }

    /// Waits for the job's outcome. `None` if the sender thread ended without one.
    pub fn outcome(&self) -> Option<Outcome> {
        let mut state = self.lock();
        while state.outcome.is_none() && !state.thread_gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outcome.take()
    }

    /// Whether the receiver has ended the job; `None` if it has not ended, or with an error.
    pub fn ended_by_receiver(&self) -> Option<bool> {
        let state = self.lock();
        Some(state.outcome.as_ref()?.as_ref().ok()?.ended_by_receiver)
    }

    /// The job's outcome if it has ended. `Some(None)`: the sender thread ended without one. From
    /// then on the signal stays set: the end is news for each call that waits.
    pub fn try_outcome(&self) -> Option<Option<Outcome>> {
        self.changed_signal.clear();
        let mut state = self.lock();
        match state.outcome.take() {
            None if !state.thread_gone => {
                self.set_signal_again(&state);
                None
            }
            outcome => {
                self.changed_signal.set();
                Some(outcome)
            }
        }
    }

    /// Forgets the calls that found no room or could not begin a window. Others that wait for the
    /// same try again.
    pub fn forget_waits(&self) {
        let mut state = self.lock();
        (state.room_request, state.wants_window) = (None, false);
        drop(state);
        self.notify();
    }

    /// The descriptor that is readable when something that the application waits for may be there.
    pub fn changed_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.changed_signal.fd()
    }

    /// The progress that was published last, with the current number of messages.
    pub fn progress(&self) -> Progress {
        let state = self.lock();
        Progress { messages: state.accepted, complete: state.complete, ..state.progress }
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
            self.notify();
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

    /// Ends the application's wait for room: the window needs no more messages.
    pub fn set_complete(&self, window: u32) {
        let mut state = self.lock();
        state.complete |= window == state.window;
        drop(state);
        self.notify();
    }

    pub fn set_msr_answer(&self, answer: Result<(), MsrError>) {
        self.lock().msr_answer = Some(answer);
        self.notify();
    }

    pub fn set_window_outcome(&self, report: WindowReport) {
        let mut state = self.lock();
        state.windows_reported = report.window.wrapping_add(1);
        state.window_outcomes.push_back(report);
        drop(state);
        self.notify();
    }

    pub fn set_progress(&self, progress: Progress) {
        self.lock().progress = progress;
    }

    pub fn set_outcome(&self, outcome: Outcome) {
        let mut state = self.lock();
        state.complete = outcome.is_ok();
        state.outcome = Some(outcome);
        self.notify();
    }

    /// Ends every wait of the application: the sender thread has ended, perhaps by a panic.
    pub fn set_thread_gone(&self) {
        let mut state = self.lock();
        state.thread_gone = true;
        // Dropping a message may call the application: not under the lock.
        let never_sent = std::mem::take(&mut state.waiting);
        drop(state);
        drop(never_sent);
        self.notify();
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

    fn notify(&self) {
        self.changed.notify_all();
        self.changed_signal.set();
    }

    fn wake_thread(&self) {
        // A full counter (2^64 - 2 wakeups) wakes the thread as well.
        let _ = self.wake.write(1);
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
mod tests;
