//! The windows of a stream, and commands that change what a job is about to do.

use super::{
    mailbox::{Command, Outcome},
    worker::Worker,
};
use crate::report::WindowReport;
use atp_proto::{MESSAGES_MAX, State};
use std::{collections::BTreeMap, time::Duration};

/// Where a stream stands. A job without windows has one that never ends by itself.
#[derive(Debug)]
pub struct Windows {
    deadline: Option<Duration>,
    /// Of the present window, from its first message on.
    deadline_ns: Option<u64>,
    /// What the present window's end was told of.
    told: bool,
    /// The application wants no window after this one. The receiver may have been told of another
    /// already: then that one is empty.
    is_last: bool,
    ended: u32,
    /// Messages of each group in the last window: what is expected of the next.
    sizes: BTreeMap<u8, u32>,
}

impl Windows {
    pub fn new(deadline: Option<Duration>) -> Self {
        Self {
            deadline,
            deadline_ns: None,
            told: false,
            is_last: false,
            ended: 0,
            sizes: BTreeMap::new(),
        }
    }

    /// The present window's time begins with its first message.
    pub fn message_came(&mut self, now_ns: u64) {
        if let Some(deadline) = self.deadline
            && !self.told
        {
            let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            self.deadline_ns.get_or_insert(now_ns.saturating_add(deadline_ns));
        }
    }

    /// How many have ended.
    pub fn ended(&self) -> u32 {
        self.ended
    }
}

impl Worker {
    /// When the present window has to be ended, if that can be done by then: not before its N is known.
    /// Until the application has said what it has, nobody can say how much of that is missing.
    pub(super) fn window_deadline_ns(&self) -> Option<u64> {
        self.windows.deadline_ns.filter(|_| self.sender.can_end_now())
    }

    /// Does what the application wants; `false` if that is to let go of the job.
    pub(super) fn obey(&mut self, now_ns: u64, command: &Command) -> bool {
        match command {
            Command::Abandon => return false,
            Command::Finish => {
                self.windows.is_last = true;
                self.sender.finish();
                self.end_with_nothing();
            }
            Command::FinishWindow => self.sender.finish_window(),
            Command::Cancel => {
                self.windows.is_last = true;
                self.sender.cancel();
                self.end_with_nothing();
            }
            Command::BeginWindow { messages } => self.begin_window(messages),
            Command::SetMsr { group, msr } => {
                self.mailbox.set_msr_answer(self.sender.set_msr(*group, *msr));
            }
        }
        self.look_ns = now_ns;
        true
    }

    /// The window has ended: of a job without others, or of the last, that is the job's end.
    pub(super) fn window_ended(&mut self) -> Option<Outcome> {
        self.count_window();
        if self.sender.is_last_window() {
            return Some(Ok(self.report()));
        }
        if self.windows.is_last {
            self.end_with_nothing();
        }
        None
    }

    /// Tells of the end of a window, once.
    fn count_window(&mut self) {
        if !std::mem::replace(&mut self.windows.told, true) {
            self.windows.ended += 1;
            self.windows.deadline_ns = None;
            let report = WindowReport {
                window: self.sender.window(),
                complete: *self.sender.state() == State::Done,
                groups: self.group_reports(),
            };
            let sizes = report.groups.iter().map(|group| (group.group, group.messages));
            self.windows.sizes = sizes.collect();
            self.mailbox.set_complete();
            self.mailbox.set_window_outcome(report);
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
            (self.windows.told, self.windows.deadline_ns, self.finishing) = (false, None, false);
        }
    }

    /// A stream whose last window had ended before anybody knew that it was the last ends with one of
    /// no messages.
    fn end_with_nothing(&mut self) {
        if !matches!(self.sender.state(), State::Done | State::Ended) {
            return;
        }
        // It may have ended in this very turn.
        self.count_window();
        if self.sender.begin_window(|_| (Some(0), 0)) {
            (self.windows.told, self.windows.deadline_ns) = (false, None);
            self.sender.finish();
        }
    }
}
