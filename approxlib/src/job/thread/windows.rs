//! Executes the application's commands, and begins and ends the windows of a stream.

use super::SenderThread;
use crate::{
    job::shared::{Command, Outcome},
    report::WindowReport,
};
use atp_proto::{MESSAGES_MAX, State};
use std::{collections::BTreeMap, time::Duration};

/// The state of a stream's windows. A job without windows has one that lasts until the job's end.
#[derive(Debug)]
pub struct Windows {
    /// How long a window may take from its first message.
    deadline: Option<Duration>,
    /// When the present window's deadline passes.
    deadline_ns: Option<u64>,
    /// Whether the end of the present window was reported to the application.
    reported: bool,
    /// The present window is the empty one at the end of a stream, which has no report.
    is_empty_end: bool,
    /// The application wants no window after this one. If the receiver already expects another, an
    /// empty one follows.
    is_last: bool,
    ended: u32,
    /// Messages of each group in the previous window: the estimate for the next.
    sizes: BTreeMap<u8, u32>,
}

impl Windows {
    pub fn new(deadline: Option<Duration>) -> Self {
        Self {
            deadline,
            deadline_ns: None,
            reported: false,
            is_empty_end: false,
            is_last: false,
            ended: 0,
            sizes: BTreeMap::new(),
        }
    }

    /// Starts the present window's time with its first message.
    pub fn on_message(&mut self, now_ns: u64) {
        if let Some(deadline) = self.deadline
            && !self.reported
        {
            let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            self.deadline_ns.get_or_insert(now_ns.saturating_add(deadline_ns));
        }
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

    /// Executes a command. Returns `false` if the application has dropped the job.
    pub(super) fn handle_command(&mut self, now_ns: u64, command: &Command) -> bool {
        match command {
            Command::Abandon => return false,
            Command::Finish => {
                self.windows.is_last = true;
                self.sender.finish();
                self.end_with_empty_window();
            }
            Command::FinishWindow => self.sender.finish_window(),
            Command::Cancel => {
                self.windows.is_last = true;
                self.sender.cancel();
                self.end_with_empty_window();
            }
            Command::BeginWindow { messages } => self.begin_window(messages),
            Command::SetMsr { group, msr } => {
                self.shared.set_msr_answer(self.sender.set_msr(*group, *msr));
            }
        }
        // Poll the descriptors in this round: the command's wakeup is still in the eventfd.
        self.poll_due_ns = now_ns;
        true
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

    /// Reports the end of the present window, unless that was done before.
    fn report_window_once(&mut self) {
        if !std::mem::replace(&mut self.windows.reported, true) {
            self.windows.ended += 1;
            self.windows.deadline_ns = None;
            let report = WindowReport {
                window: self.sender.window(),
                complete: *self.sender.state() == State::Done,
                groups: self.group_reports(),
            };
            let sizes = report.groups.iter().map(|group| (group.group, group.messages));
            self.windows.sizes = sizes.collect();
            self.shared.set_complete();
            if !self.windows.is_empty_end {
                self.shared.set_window_outcome(report);
            }
        }
    }

    fn begin_window(&mut self, messages: &[(u8, u32)]) {
        let sizes = &self.windows.sizes;
        let begun = self.sender.begin_window(|group| {
            let known = messages.iter().find(|(id, _)| *id == group.group);
            let known = known.map(|(_, messages)| *messages).filter(|known| *known < MESSAGES_MAX);
            (known, sizes.get(&group.group).copied().unwrap_or(0))
        });
        if begun {
            (self.windows.reported, self.windows.deadline_ns, self.finishing) =
                (false, None, false);
        }
    }

    /// If the last window has ended already, ends the stream with an empty one: the receiver was
    /// told that another window follows.
    fn end_with_empty_window(&mut self) {
        if !matches!(self.sender.state(), State::Done | State::Ended) {
            return;
        }
        // The window may have ended in this round, before its end was reported.
        self.report_window_once();
        if self.sender.begin_window(|_| (Some(0), 0)) {
            self.windows.is_empty_end = true;
            (self.windows.reported, self.windows.deadline_ns) = (false, None);
            self.sender.finish();
        }
    }
}
