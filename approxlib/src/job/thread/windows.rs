//! Executes the application's commands, and begins and ends the windows of a job.

use super::{SenderThread, reporting::group_reports};
use crate::{
    job::shared::{Command, NewMessage, Outcome},
    report::WindowReport,
};
use atp_common::{laws::urgency::Urgency, units::Msr};
use atp_proto::{MESSAGES_MAX, MsrError, State};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Messages and commands of the application, in order, that the sender thread hasn't handled: they
/// belong to a window that can't begin yet.
#[derive(Debug, Default)]
pub struct Pending {
    pub messages: VecDeque<NewMessage>,
    pub commands: VecDeque<Command>,
}

impl Pending {
    /// Whether the next window waits for the end of an earlier one.
    pub fn is_waiting(&self) -> bool {
        !self.commands.is_empty()
    }
}

/// The state of a job's windows. A job without windows has one that lasts until the job's end.
#[derive(Debug)]
pub struct Windows {
    /// How long a window may take from its first message.
    deadline: Option<Duration>,
    /// When the present window's deadline passes.
    deadline_ns: Option<u64>,
    /// How much the present window hurries, if it has a deadline.
    urgency: Option<Urgency>,
    /// Full windows of packets held the job back in the last round.
    was_full: bool,
    /// Windows that yielded less to exact traffic for their deadlines.
    hurried: u32,
    /// The present window is one of them.
    has_hurried: bool,
    /// The present level of urgency.
    level: u8,
    /// The deadline of the window before, while its end is confirmed beside the present one.
    closing_deadline_ns: Option<u64>,
    /// Whether the end of the present window was reported to the application.
    reported: bool,
    /// The current window is the empty one at the end of a job, which has no report.
    is_empty_end: bool,
    /// The application wants no window after this one. If the receiver already expects another, an
    /// empty one follows.
    is_last: bool,
    /// The application has canceled the job.
    is_canceled: bool,
    /// The cancel has left out messages of a window before the empty one at the end.
    left_out: bool,
    ended: u32,
    /// Messages of each group in the previous window: the estimate for the next.
    sizes: BTreeMap<u8, u32>,
    /// Sampling rates that the application has set for windows that have not begun: the window from
    /// which on they hold, the group and the rate.
    rates: Vec<(u32, u8, Msr)>,
}

impl Windows {
    pub fn new(deadline: Option<Duration>) -> Self {
        Self {
            deadline,
            deadline_ns: None,
            urgency: None,
            was_full: false,
            hurried: 0,
            has_hurried: false,
            level: 0,
            closing_deadline_ns: None,
            reported: false,
            is_empty_end: false,
            is_last: false,
            is_canceled: false,
            left_out: false,
            ended: 0,
            sizes: BTreeMap::new(),
            rates: Vec::new(),
        }
    }

    /// Starts the present window's time with its first message.
    pub fn on_message(&mut self, now_ns: u64) {
        if let Some(deadline) = self.deadline
            && !self.reported
        {
            let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            let deadline_ns = *self.deadline_ns.get_or_insert(now_ns.saturating_add(deadline_ns));
            self.urgency.get_or_insert(Urgency::begin(now_ns, deadline_ns));
        }
    }

    /// Whether the current window is the empty one at the end of a job.
    pub fn is_empty_end(&self) -> bool {
        self.is_empty_end
    }

    /// Whether a cancel has left out messages of a window before the empty one at the end.
    pub fn left_out(&self) -> bool {
        self.left_out
    }

    /// Notes that full windows of packets hold the job back until the next round.
    pub fn note_full(&mut self) {
        self.was_full = true;
    }

    /// Ends the present window's deadline, and returns it.
    fn take_deadline(&mut self) -> Option<u64> {
        (self.urgency, self.has_hurried) = (None, false);
        self.deadline_ns.take()
    }

    /// The number of windows that yielded less to exact traffic for their deadlines.
    pub fn hurried(&self) -> u32 {
        self.hurried
    }

    /// The number of windows that have ended.
    pub fn ended(&self) -> u32 {
        self.ended
    }
}

impl SenderThread {
    /// When the present window's deadline passes. `None` if it has no deadline, or while its N is
    /// unknown: without N the receiver can't be told how many messages it misses.
    pub(super) fn window_deadline_ns(&self) -> Option<u64> {
        self.windows.deadline_ns.filter(|_| self.sender.can_end_now())
    }

    /// When a deadline passes next.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.window_deadline_ns().into_iter().chain(self.windows.closing_deadline_ns).min()
    }

    /// Ends the windows whose deadlines have passed.
    pub(super) fn end_in_time(&mut self, now_ns: u64) {
        let has_passed =
            |deadline_ns: Option<u64>| deadline_ns.is_some_and(|at_ns| at_ns <= now_ns);
        if has_passed(self.windows.closing_deadline_ns) {
            self.windows.closing_deadline_ns = None;
            self.sender.end_closing_now();
        }
        if has_passed(self.window_deadline_ns()) {
            self.sender.end_now();
        }
    }

    /// Lets lanes that yield to exact traffic yield less where the present window would miss its
    /// deadline.
    pub(super) fn hurry(&mut self, now_ns: u64) {
        let has_deadline = self.window_deadline_ns().is_some();
        let was_full = std::mem::take(&mut self.windows.was_full);
        let level = match &mut self.windows.urgency {
            Some(urgency) if has_deadline => match urgency.is_due(now_ns, was_full) {
                true => {
                    let (delivered, needed) = self.sender.needed_of_yielding();
                    urgency.look(now_ns, delivered, needed)
                }
                false => urgency.level(),
            },
            _ => 0,
        };
        if level == std::mem::replace(&mut self.windows.level, level) {
            return;
        }
        self.sender.set_urgency(level);
        let window = self.sender.window();
        tracing::debug!(window, level, "the deadline of the window has set its urgency");
        if level > 0 && !std::mem::replace(&mut self.windows.has_hurried, true) {
            self.windows.hurried += 1;
            if self.windows.hurried == 1 {
                tracing::info!(
                    window,
                    peer = %self.peer,
                    "the window would miss its deadline: it yields less to exact traffic"
                );
            }
        }
    }

    /// Queues messages and executes commands in order, up to the first of a window that can't begin
    /// yet. Commands were given after the messages of their window. Returns `false` if the
    /// application has dropped the job.
    pub(super) fn handle_pending(&mut self, now_ns: u64) -> bool {
        if self.pending.commands.contains(&Command::Abandon) {
            return false;
        }
        if self.pending.commands.contains(&Command::Cancel) {
            // Windows that have not begun never will.
            let is_begin = |command: &Command| matches!(command, Command::BeginWindow { .. });
            if let Some(first) = self.pending.commands.iter().position(is_begin) {
                self.windows.left_out = true;
                self.pending.commands.truncate(first);
                self.pending.commands.push_back(Command::Cancel);
            }
        }
        loop {
            let window = self.sender.window();
            while self.pending.messages.front().is_some_and(|message| message.window == window)
                && let Some(message) = self.pending.messages.pop_front()
            {
                self.started_ns.get_or_insert(now_ns);
                self.windows.on_message(now_ns);
                self.queue(message);
            }
            let is_begin =
                matches!(self.pending.commands.front(), Some(Command::BeginWindow { .. }));
            if is_begin && !self.sender.can_begin_window() {
                self.answer_rates();
                return true;
            }
            let Some(command) = self.pending.commands.pop_front() else { return true };
            self.handle_command(now_ns, &command);
        }
    }

    fn handle_command(&mut self, now_ns: u64, command: &Command) {
        match command {
            Command::Abandon => {}
            Command::Finish => {
                self.windows.is_last = true;
                self.sender.finish();
                self.end_with_empty_window();
            }
            Command::FinishWindow => self.sender.finish_window(),
            Command::Cancel => {
                (self.windows.is_last, self.windows.is_canceled) = (true, true);
                self.sender.cancel();
                self.end_with_empty_window();
            }
            Command::BeginWindow { messages } => self.begin_window(messages),
            Command::SetMsr { window, group, msr } => self.set_msr(*window, *group, *msr),
        }
        // Poll the descriptors in this round: the command's wakeup is still in the eventfd.
        self.poll_due_ns = now_ns;
    }

    /// Sets a rate in the present window, or keeps it for a later one. The application waits for
    /// the answer.
    fn set_msr(&mut self, window: u32, group: u8, msr: Msr) {
        let answer = match window == self.sender.window() {
            true => self.sender.set_msr(group, msr),
            false if self.windows.is_last => Err(MsrError::Ending),
            false => self.sender.can_change_msr(group).inspect(|()| {
                self.windows.rates.retain(|rate| (rate.0, rate.1) != (window, group));
                self.windows.rates.push((window, group, msr));
            }),
        };
        self.shared.set_msr_answer(answer);
    }

    /// Takes rates out of the commands that wait for the next window.
    fn answer_rates(&mut self) {
        let is_rate = |command: &Command| matches!(command, Command::SetMsr { .. });
        while let Some(at) = self.pending.commands.iter().position(is_rate)
            && let Some(Command::SetMsr { window, group, msr }) = self.pending.commands.remove(at)
        {
            self.set_msr(window, group, msr);
        }
    }

    /// Ends the job if the receiver asked for it.
    pub(super) fn obey_end(&mut self) {
        if self.sender.is_ended_by_receiver() && !self.windows.is_last {
            self.windows.is_last = true;
            self.end_with_empty_window();
        }
    }

    /// Reports the end of a window. The end of the last one is the end of the job.
    pub(super) fn window_ended(&mut self) -> Option<Outcome> {
        self.report_window_once();
        if self.sender.is_last_window() {
            return Some(Ok(self.report()));
        }
        if self.windows.is_last {
            self.end_with_empty_window();
        }
        None
    }

    /// Reports the end of a window that ended while the next one was open.
    pub(super) fn report_closing(&mut self) {
        let Some(ended) = self.sender.take_ended_window() else { return };
        self.windows.ended += 1;
        self.windows.closing_deadline_ns = None;
        self.shared.set_window_outcome(WindowReport {
            window: ended.window,
            complete: ended.is_done,
            groups: group_reports(&ended.groups, ended.lost_ids),
        });
    }

    /// Reports the end of the present window, unless that was done before.
    fn report_window_once(&mut self) {
        if !std::mem::replace(&mut self.windows.reported, true) {
            self.windows.ended += 1;
            self.windows.take_deadline();
            let report = WindowReport {
                window: self.sender.window(),
                complete: *self.sender.state() == State::Done,
                groups: self.group_reports(),
            };
            let sizes = report.groups.iter().map(|group| (group.group, group.messages));
            self.windows.sizes = sizes.collect();
            self.shared.set_complete(self.sender.window());
            if !self.windows.is_empty_end {
                self.shared.set_window_outcome(report);
            }
        }
    }

    fn begin_window(&mut self, messages: &[(u8, u32)]) {
        let is_beside = *self.sender.state() == State::Finishing;
        if is_beside {
            let groups = self.sender.report().groups;
            let sizes = groups.iter().map(|group| (group.group, group.messages));
            self.windows.sizes = sizes.collect();
        } else {
            // The window may have ended in this round, before its end was reported.
            self.report_window_once();
        }
        let sizes = &self.windows.sizes;
        let begun = self.sender.begin_window(|group| {
            let known = messages.iter().find(|(id, _)| *id == group.group);
            let known = known.map(|(_, messages)| *messages).filter(|known| *known < MESSAGES_MAX);
            (known, sizes.get(&group.group).copied().unwrap_or(0))
        });
        if begun {
            let deadline_ns = self.windows.take_deadline();
            self.windows.closing_deadline_ns = deadline_ns.filter(|_| is_beside);
            (self.windows.reported, self.finishing) = (false, false);
            let window = self.sender.window();
            for (_, group, msr) in self.windows.rates.extract_if(.., |rate| rate.0 == window) {
                // Only a receiver that has ended the job meanwhile refuses it.
                let _ = self.sender.set_msr(group, msr);
            }
        }
    }

    /// If the last window has ended already, ends the job with an empty one: the receiver was
    /// told that another window follows.
    fn end_with_empty_window(&mut self) {
        if !matches!(self.sender.state(), State::Done | State::Ended) {
            return;
        }
        let is_cut = *self.sender.state() == State::Ended;
        self.windows.left_out |= self.windows.is_canceled && is_cut;
        // The window may have ended in this round, before its end was reported.
        self.report_window_once();
        if self.sender.begin_window(|_| (Some(0), 0)) {
            self.windows.is_empty_end = true;
            self.windows.take_deadline();
            self.windows.reported = false;
            self.sender.finish();
        }
    }
}
