//! What the application's thread and the sending thread hand each other: messages one way, room
//! and the outcome the other. One short lock per message, none per packet.

use super::spare::Spares;
use crate::{error::Shortfall, report::Report};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// What is known of a job while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Messages handed over.
    pub messages: u32,
    /// Messages that the receiver has.
    pub delivered: u32,
    /// The lane's rate.
    pub rate_bytes_per_s: u64,
    /// DATA packets that left.
    pub packets_sent: u64,
}

/// How much may be on its way at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub buffer_bytes: u64,
    pub buffer_messages: u32,
    /// N, or the most that a job can have if it was not announced.
    pub messages: u32,
}

/// Why a message was not taken.
#[derive(Debug)]
pub enum Refusal {
    /// The job has all of its N, or all that it can have.
    TooMany(u32),
    /// The job has failed.
    Failed(Box<Shortfall>),
    /// The sending thread is gone.
    NoThread,
}

/// How a job ended.
pub type Outcome = Result<Report, Box<Shortfall>>;

/// What the application wants of the sending thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// No more messages come.
    pub finish: bool,
    /// Let go of the job at once.
    pub abandon: bool,
}

/// The place of exchange.
#[derive(Debug)]
pub struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
    wake: EventFd,
    limits: Limits,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Box<[u8]>>,
    /// Memory of messages that the sending thread let go.
    spares: Spares,
    /// Messages and bytes that the sending thread holds or that wait for it.
    held_bytes: u64,
    held_messages: u32,
    accepted: u32,
    wishes: Wishes,
    /// The sending thread sleeps until something new comes.
    thread_sleeps: bool,
    /// The application waits for so many bytes of room.
    wanted_bytes: Option<u64>,
    /// The job needs no more messages.
    complete: bool,
    thread_gone: bool,
    progress: Progress,
    outcome: Option<Outcome>,
}

impl Mailbox {
    pub fn new(limits: Limits) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { state: Mutex::default(), changed: Condvar::new(), wake, limits })
    }

    /// Hands a message over, waiting for room; returns its id. Brings memory for others into `spares`.
    pub fn put(&self, message: Box<[u8]>, spares: &mut Spares) -> Result<u32, Refusal> {
        let len = message.len() as u64;
        let mut state = self.lock();
        loop {
            if let Some(Err(shortfall)) = &state.outcome {
                return Err(Refusal::Failed(shortfall.clone()));
            }
            if state.accepted >= self.limits.messages {
                return Err(Refusal::TooMany(self.limits.messages));
            }
            if state.complete || self.has_room(&state, len) {
                break;
            }
            if state.thread_gone {
                return Err(Refusal::NoThread);
            }
            state.wanted_bytes = Some(len);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.wanted_bytes = None;
        }
        spares.refill(&mut state.spares);
        let id = state.accepted;
        state.accepted += 1;
        if !state.complete {
            state.held_bytes += len;
            state.held_messages += 1;
            state.waiting.push(message);
            self.wake_if_asleep(state);
        }
        Ok(id)
    }

    /// Tells the sending thread what is wanted.
    pub fn wish(&self, wishes: Wishes) {
        let mut state = self.lock();
        state.wishes = wishes;
        state.thread_sleeps = true; // It may be pacing: wake it anyway.
        self.wake_if_asleep(state);
    }

    /// Waits for the job's end. `None` if the sending thread died without one.
    pub fn outcome(&self) -> Option<Outcome> {
        let mut state = self.lock();
        while state.outcome.is_none() && !state.thread_gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outcome.take()
    }

    /// Where the job stands.
    pub fn progress(&self) -> Progress {
        let state = self.lock();
        Progress { messages: state.accepted, ..state.progress }
    }

    /// The sending thread takes all messages that wait, and says how many messages and bytes it has
    /// let go since the last time.
    pub fn exchange(
        &self,
        taken: &mut Vec<Box<[u8]>>,
        released: Released,
        spares: &mut Spares,
    ) -> Wishes {
        debug_assert!(taken.is_empty());
        let mut state = self.lock();
        state.spares.refill(spares);
        std::mem::swap(taken, &mut state.waiting);
        state.held_bytes = state.held_bytes.saturating_sub(released.bytes);
        state.held_messages = state.held_messages.saturating_sub(released.messages);
        if state.wanted_bytes.is_some_and(|len| self.is_worth_waking(&state, len)) {
            self.changed.notify_all();
        }
        state.wishes
    }

    /// Asks to be woken by the next message, unless one waits already: then `false`.
    pub fn prepare_to_sleep(&self, known: Wishes) -> bool {
        let mut state = self.lock();
        if !state.waiting.is_empty() || state.wishes != known {
            return false;
        }
        state.thread_sleeps = true;
        true
    }

    /// The sending thread is awake again.
    pub fn awake(&self, woken: bool) {
        self.lock().thread_sleeps = false;
        if woken {
            // Nothing to read only means that nobody wrote.
            let _ = self.wake.read();
        }
    }

    /// To be woken by.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The job needs no more messages: whoever waits for room need not.
    pub fn set_complete(&self) {
        self.lock().complete = true;
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

    /// Whatever happens to the sending thread, nobody waits for it for ever.
    pub fn set_thread_gone(&self) {
        self.lock().thread_gone = true;
        self.changed.notify_all();
    }

    /// A message longer than the whole buffer goes when the buffer is empty.
    fn has_room(&self, state: &State, len: u64) -> bool {
        state.held_messages == 0
            || (state.held_bytes + len <= self.limits.buffer_bytes
                && state.held_messages < self.limits.buffer_messages)
    }

    /// Not for every message that goes: a quarter of the buffer at a time.
    fn is_worth_waking(&self, state: &State, len: u64) -> bool {
        self.has_room(state, len)
            && state.held_bytes <= self.limits.buffer_bytes / 4 * 3
            && state.held_messages <= self.limits.buffer_messages / 4 * 3
    }

    fn wake_if_asleep(&self, mut state: MutexGuard<'_, State>) {
        let asleep = std::mem::take(&mut state.thread_sleeps);
        drop(state);
        if asleep {
            // Full (2^64 - 2 wake-ups) means awake as well.
            let _ = self.wake.write(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every update of the state is whole before the lock is let go, so a panic elsewhere
        // leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the sending thread let go of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Released {
    pub messages: u32,
    pub bytes: u64,
}
