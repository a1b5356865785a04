//! A job at its sender: the application's messages and commands in order, and the windows that
//! these begin and end.
//!
//! In each round, the host
//!
//! 1. gives its [`Sender`] packets and acknowledgments, and the job new messages and commands;
//! 2. calls [`Job::work`], then sends what the sender and the lanes let out;
//! 3. calls [`Job::report_ends`], and takes the events and the outcome.
//!
//! The job doesn't own the lanes. A flow moves between [`Lanes`](super::Lanes) and a daemon's lanes
//! while its job goes on, and a daemon's lanes are pages that the library maps.

mod deadlines;
#[cfg(test)]
mod tests;
mod windows;

use crate::{EndedWindow, MessageId, MsrError, QueueError, SendError, Sender, State};
use atp_common::units::Msr;
use deadlines::Deadlines;
use std::collections::VecDeque;
use windows::Windows;

/// A message of the application.
#[derive(Debug)]
pub struct NewMessage<D> {
    /// The number of its window.
    pub window: u32,
    /// The group.
    pub group: u8,
    /// The length of the data.
    pub len_bytes: u32,
    /// The bytes, or where they are.
    pub data: D,
}

/// A request of the application. It concerns the messages that were given before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// No more messages follow.
    Finish,
    /// No more messages follow in this window.
    FinishWindow,
    /// End the job now, with the messages delivered so far.
    Cancel,
    /// Begin the next window, with the announced N of some groups.
    BeginWindow {
        /// Group and N. An N of [`MESSAGES_MAX`](crate::MESSAGES_MAX) or more
        /// means that N is unknown.
        messages: Vec<(u8, u32)>,
    },
    /// Change a group's sampling rate. [`Event::MsrAnswer`] answers it.
    SetMsr {
        /// The window from which on the rate holds: the current one or a later one.
        window: u32,
        /// The group.
        group: u8,
        /// The new rate.
        msr: Msr,
    },
    /// The application has dropped the job: see [`Job::is_abandoned`].
    Abandon,
}

/// News for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The window of this number needs no more messages.
    Complete(u32),
    /// A window has ended. Each is reported once, in order; the empty window at the end of a job
    /// is not.
    WindowEnded(EndedWindow),
    /// The answer to the oldest [`Command::SetMsr`] that has no answer yet.
    MsrAnswer(Result<(), MsrError>),
    /// The window of this number is the first of this job that would miss its deadline: its lanes
    /// yield less to exact traffic.
    Hurried(u32),
}

/// A sender with its application's messages and commands. `D` is a message's data, or says where
/// that is.
#[derive(Debug)]
pub struct Job<D> {
    /// The host gives packets and timeouts to the sender itself. Only the job queues messages, and
    /// begins and ends windows.
    pub sender: Sender,
    /// Messages and commands that wait for a window that can't begin yet.
    messages: VecDeque<NewMessage<D>>,
    commands: VecDeque<Command>,
    is_abandoned: bool,
    windows: Windows,
    deadlines: Deadlines,
    events: VecDeque<Event>,
}

impl<D> Job<D> {
    /// A job whose windows may take `deadline_ns` from their first message.
    pub fn new(sender: Sender, deadline_ns: Option<u64>) -> Self {
        Self {
            sender,
            messages: VecDeque::new(),
            commands: VecDeque::new(),
            is_abandoned: false,
            windows: Windows::default(),
            deadlines: Deadlines::new(deadline_ns),
            events: VecDeque::new(),
        }
    }

    /// Gives messages to the job, in order.
    pub fn give(&mut self, messages: impl IntoIterator<Item = NewMessage<D>>) {
        self.messages.extend(messages);
    }

    /// Gives a command to the job, after the messages that it concerns.
    pub fn command(&mut self, command: Command) {
        match command {
            Command::Abandon => self.is_abandoned = true,
            Command::Cancel => {
                // Windows that have not begun never will.
                let is_begin = |command: &Command| matches!(command, Command::BeginWindow { .. });
                if let Some(first) = self.commands.iter().position(is_begin) {
                    self.windows.leave_out();
                    self.commands.truncate(first);
                }
                self.commands.push_back(command);
            }
            _ => self.commands.push_back(command),
        }
    }

    /// Queues messages and executes commands, and stops at the first that belongs to a window which
    /// can't begin yet. Then ends the job if its receiver asked for that, and windows whose
    /// deadlines have passed.
    ///
    /// `place` takes the data of each message with its id, or with `None` if the job doesn't need
    /// it.
    pub fn work(&mut self, now_ns: u64, mut place: impl FnMut(Option<MessageId>, D)) {
        self.report_closing();
        loop {
            let window = self.sender.window();
            while self.messages.front().is_some_and(|message| message.window == window)
                && let Some(message) = self.messages.pop_front()
            {
                self.queue(now_ns, message, &mut place);
            }
            let is_begin = matches!(self.commands.front(), Some(Command::BeginWindow { .. }));
            if is_begin && !self.sender.can_begin_window() {
                self.answer_rates();
                break;
            }
            let Some(command) = self.commands.pop_front() else { break };
            self.execute(&command);
        }
        self.obey_end();
        self.deadlines.end_in_time(now_ns, &mut self.sender);
        if let Some(window) = self.deadlines.hurry(now_ns, &mut self.sender) {
            self.events.push_back(Event::Hurried(window));
        }
    }

    fn queue(
        &mut self,
        now_ns: u64,
        message: NewMessage<D>,
        place: &mut impl FnMut(Option<MessageId>, D),
    ) {
        if !self.windows.is_reported() {
            self.deadlines.on_message(now_ns);
        }
        let NewMessage { group, len_bytes, data, .. } = message;
        match self.sender.queue(group, len_bytes) {
            Ok(id) => place(Some(id), data),
            Err(error) => {
                // The application has checked lengths and numbers. A job that has ended needs no
                // more messages, nor does the empty window at the end of a job; any other
                // refusal is a bug.
                let is_over = matches!(error, QueueError::Complete | QueueError::Failed)
                    || self.windows.is_empty_end();
                if !is_over {
                    tracing::error!(group, len_bytes, %error, "the sender did not queue a message");
                }
                place(None, data);
            }
        }
    }

    fn execute(&mut self, command: &Command) {
        match command {
            Command::Abandon => {}
            Command::Finish => self.end_job(),
            Command::FinishWindow => self.sender.finish_window(),
            Command::Cancel => self.cancel(),
            Command::BeginWindow { messages } => self.begin_window(messages),
            Command::SetMsr { window, group, msr } => self.set_msr(*window, *group, *msr),
        }
    }

    /// Takes rates out of the commands that wait for the next window. The application waits for
    /// their answers.
    fn answer_rates(&mut self) {
        let is_rate = |command: &Command| matches!(command, Command::SetMsr { .. });
        while let Some(at) = self.commands.iter().position(is_rate)
            && let Some(command) = self.commands.remove(at)
        {
            self.execute(&command);
        }
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How the job has ended; `None` while it goes on. Call it after [`Self::report_ends`].
    pub fn outcome(&self) -> Option<Result<(), &SendError>> {
        match self.sender.state() {
            State::Done | State::Ended => self.sender.is_last_window().then_some(Ok(())),
            State::Failed(error) => Some(Err(error)),
            State::Open | State::Finishing => None,
        }
    }

    /// Whether the application has dropped the job, and nobody waits for its end.
    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// Whether a window waits that can begin now: [`Self::work`] is due.
    pub fn is_runnable(&self) -> bool {
        !self.commands.is_empty() && self.sender.can_begin_window()
    }

    /// When a deadline passes next: [`Self::work`] is due then.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.deadlines.next_ns(&self.sender)
    }

    /// Notes that the limits of packets in flight hold the job back until the next round.
    pub fn note_full(&mut self) {
        self.deadlines.note_full();
    }

    /// Drops the messages and commands that wait for a window.
    pub fn drop_waiting(&mut self) {
        self.messages = VecDeque::new();
        self.commands = VecDeque::new();
    }

    /// The number of windows that have ended.
    pub fn windows_ended(&self) -> u32 {
        self.windows.ended()
    }

    /// The number of windows that yielded less to exact traffic for their deadlines.
    pub fn windows_hurried(&self) -> u32 {
        self.deadlines.hurried()
    }

    /// Whether the job's end left out messages that were needed: a cancel, or the deadline of the
    /// last window.
    pub fn was_cut(&self) -> bool {
        let is_cut = *self.sender.state() == State::Ended && self.sender.is_last_window();
        self.windows.left_out() || is_cut
    }
}
