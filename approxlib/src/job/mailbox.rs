//! What the application's thread and the sending thread hand each other: messages and commands one
//! way, room, answers and outcomes the other. One short lock per message, none per packet.

use super::{data::Data, spare::Spares};
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

/// What is known of a job while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Messages handed over, of all groups and windows.
    pub messages: u32,
    /// Messages that the receiver has, of all groups of the present window.
    pub delivered: u32,
    /// The rates of the job's lanes together.
    pub rate_bytes_per_s: u64,
    /// DATA packets that left.
    pub packets_sent: u64,
}

/// How much may be on its way at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub buffer_bytes: u64,
    pub buffer_messages: u32,
}

/// A message on its way to the sending thread.
#[derive(Debug)]
pub struct Handed {
    pub group: u8,
    pub data: Data,
}

/// Why a message was not taken.
#[derive(Debug)]
pub enum Refusal {
    /// The group has all of its N, or all that it can have.
    TooMany(u32),
    /// The job has no such group.
    NoGroup,
    /// The job has failed.
    Failed(Box<Shortfall>),
    /// The sending thread is gone.
    NoThread,
}

/// How a job ended.
pub type Outcome = Result<Report, Box<Shortfall>>;

/// What the application wants of the sending thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// No more messages come.
    Finish,
    /// No more messages come in this window.
    FinishWindow,
    /// End the job now, whatever has arrived.
    Cancel,
    /// Begin the next window, with N for each group.
    BeginWindow { messages: Vec<(u8, u32)> },
    /// Another sampling rate; answered.
    SetMsr { group: u8, msr: Msr },
    /// Let go of the job at once.
    Abandon,
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
    waiting: Vec<Handed>,
    /// Memory of messages that the sending thread let go.
    spares: Spares,
    commands: Vec<Command>,
    /// Messages and bytes that the sending thread holds or that wait for it.
    held_bytes: u64,
    held_messages: u32,
    accepted: u32,
    /// By group: messages taken in this window, and the most; `None` is no group of the job.
    groups: Vec<Option<Taken>>,
    /// The sending thread sleeps until something new comes.
    thread_sleeps: bool,
    /// Messages of which some packet was never sent, or was not when the sending thread looked last.
    untried_messages: u32,
    /// The application waits for room.
    wanted: Option<Wanted>,
    /// The job needs no more messages.
    complete: bool,
    thread_gone: bool,
    progress: Progress,
    msr_answer: Option<Result<(), MsrError>>,
    window_outcome: Option<WindowReport>,
    outcome: Option<Outcome>,
}

/// Room for a message.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    bytes: u64,
    /// The job has a copy of it.
    is_copy: bool,
}

/// Copies that wait for their turn to be sent, at most, where the whole buffer is sent within
/// [`AHEAD_NS`]: of what was copied longer ago than that, the kernel would have to fetch every line from
/// memory again, at three times the cost.
const AHEAD_BYTES_MAX: u64 = 512 << 10;
const AHEAD_NS: u64 = 10_000_000;

/// Messages of one group in the present window.
#[derive(Clone, Copy, Debug)]
struct Taken {
    taken: u32,
    /// N, or the most that a job can have if it was not announced.
    max: u32,
}

impl Mailbox {
    /// `groups`: each with the most messages that it takes in a window.
    pub fn new(limits: Limits, groups: impl Iterator<Item = (u8, u32)>) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let mut state = State { groups: vec![None; 256], ..State::default() };
        for (group, max) in groups {
            state.groups[usize::from(group)] = Some(Taken { taken: 0, max });
        }
        Ok(Self { state: Mutex::new(state), changed: Condvar::new(), wake, limits })
    }

    /// Hands a message over, waiting for room; returns its id. Brings memory for others into `spares`.
    pub fn put(&self, message: Handed, spares: &mut Spares) -> Result<u32, Refusal> {
        let len = message.data.len() as u64;
        let wanted = Wanted { bytes: len, is_copy: matches!(message.data, Data::Own(_)) };
        let at = usize::from(message.group);
        let mut state = self.lock();
        loop {
            if let Some(Err(shortfall)) = &state.outcome {
                return Err(Refusal::Failed(shortfall.clone()));
            }
            match state.groups[at] {
                None => return Err(Refusal::NoGroup),
                Some(Taken { taken, max }) if taken >= max => return Err(Refusal::TooMany(max)),
                Some(_) => {}
            }
            if state.complete || self.has_room(&state, wanted) {
                break;
            }
            if state.thread_gone {
                return Err(Refusal::NoThread);
            }
            state.wanted = Some(wanted);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.wanted = None;
        }
        spares.refill(&mut state.spares);
        state.accepted = state.accepted.wrapping_add(1);
        let mut id = 0;
        if let Some(group) = &mut state.groups[at] {
            id = group.taken;
            group.taken += 1;
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

    /// Tells the sending thread what is wanted.
    pub fn command(&self, command: Command) {
        let mut state = self.lock();
        state.commands.push(command);
        state.thread_sleeps = true; // It may be pacing: wake it anyway.
        self.wake_if_asleep(state);
    }

    /// Asks for another sampling rate and waits for the answer; `None` if the job has ended.
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

    /// Messages are counted anew; each group takes the most that is given, or as many as before.
    pub fn begin_window(&self, messages: Vec<(u8, u32)>) {
        let mut state = self.lock();
        for group in state.groups.iter_mut().flatten() {
            group.taken = 0;
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

    /// The sending thread takes all messages and commands that wait, and says how many messages and
    /// bytes it has let go since the last time, and how many it has not sent in full; memory of the former
    /// is in `spares`.
    pub fn exchange(
        &self,
        taken: &mut Vec<Handed>,
        released: Released,
        untried_messages: u32,
        spares: &mut Spares,
    ) -> Vec<Command> {
        debug_assert!(taken.is_empty());
        let mut state = self.lock();
        state.untried_messages = untried_messages + state.waiting.len() as u32;
        state.spares.refill(spares);
        std::mem::swap(taken, &mut state.waiting);
        state.held_bytes = state.held_bytes.saturating_sub(released.bytes);
        state.held_messages = state.held_messages.saturating_sub(released.messages);
        if state.wanted.is_some_and(|wanted| self.is_worth_waking(&state, wanted)) {
            self.changed.notify_all();
        }
        std::mem::take(&mut state.commands)
    }

    /// Asks to be woken by the next message, unless one waits already: then `false`.
    pub fn prepare_to_sleep(&self) -> bool {
        let mut state = self.lock();
        if !state.waiting.is_empty() || !state.commands.is_empty() {
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

    /// Whatever happens to the sending thread, nobody waits for it for ever.
    pub fn set_thread_gone(&self) {
        self.lock().thread_gone = true;
        self.changed.notify_all();
    }

    /// A message longer than the whole buffer goes when the buffer is empty.
    fn has_room(&self, state: &State, wanted: Wanted) -> bool {
        state.held_messages == 0
            || (state.held_bytes + wanted.bytes <= self.limits.buffer_bytes
                && state.held_messages < self.limits.buffer_messages
                && self.is_ahead_by(state, wanted, AHEAD_BYTES_MAX))
    }

    /// Not for every message that goes: a quarter of the buffer at a time.
    fn is_worth_waking(&self, state: &State, wanted: Wanted) -> bool {
        self.has_room(state, wanted)
            && state.held_bytes <= self.limits.buffer_bytes / 4 * 3
            && state.held_messages <= self.limits.buffer_messages / 4 * 3
            && self.is_ahead_by(state, wanted, AHEAD_BYTES_MAX / 2)
    }

    /// Whether the copies that wait to be sent, if the others are as long as this message, are `bytes_max`
    /// at most; or need not be.
    fn is_ahead_by(&self, state: &State, wanted: Wanted, bytes_max: u64) -> bool {
        let in_time_bytes = state.progress.rate_bytes_per_s / (1_000_000_000 / AHEAD_NS);
        let waiting_bytes = u64::from(state.untried_messages) * wanted.bytes;
        !wanted.is_copy || in_time_bytes < self.limits.buffer_bytes || waiting_bytes <= bytes_max
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(rate_bytes_per_s: u64) -> Mailbox {
        let limits = Limits { buffer_bytes: 1 << 22, buffer_messages: 1 << 16 };
        let mailbox = Mailbox::new(limits, std::iter::once((0, u32::MAX))).unwrap();
        mailbox.set_progress(Progress { rate_bytes_per_s, ..Progress::default() });
        mailbox
    }

    /// How many messages are taken until the next would have to wait.
    fn taken(mailbox: &Mailbox, is_copy: bool) -> u32 {
        let (mut spares, bytes) = (Spares::default(), [7; 1 << 10]);
        let wanted = Wanted { bytes: 1 << 10, is_copy };
        let mut number = 0;
        while mailbox.has_room(&mailbox.lock(), wanted) {
            let data = match is_copy {
                true => Data::Own(spares.copy(&bytes)),
                false => Data::Shared(bytes.into()),
            };
            mailbox.put(Handed { group: 0, data }, &mut spares).unwrap();
            number += 1;
        }
        number
    }

    #[test]
    fn put__copies_go_ahead_as_far_as_they_stay_in_the_cache_or_the_lane_is_slow() {
        const GIGABYTE_PER_S: u64 = 1_000_000_000;
        assert_eq!(taken(&mailbox(GIGABYTE_PER_S / 10), true), 1 << 12);
        assert_eq!(taken(&mailbox(GIGABYTE_PER_S), false), 1 << 12);
        let fast = mailbox(GIGABYTE_PER_S);
        let ahead = (AHEAD_BYTES_MAX >> 10) as u32;
        assert_eq!(taken(&fast, true), ahead + 1);
        // Whoever waits is woken when half of them were sent, and then there is room.
        let mut handed = Vec::new();
        let mut exchange = |untried| {
            handed.clear();
            fast.exchange(&mut handed, Released::default(), untried, &mut Spares::default());
            let wanted = Wanted { bytes: 1 << 10, is_copy: true };
            fast.is_worth_waking(&fast.lock(), wanted)
        };
        exchange(0);
        assert!(!exchange(ahead / 2 + 1));
        assert!(exchange(ahead / 2));
        assert_eq!(taken(&fast, true), ahead / 2 + 1);
    }
}
