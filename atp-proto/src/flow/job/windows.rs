//! Begins and ends the windows of a job, and reports their ends. A job without windows has one that
//! lasts until the job's end.

use super::{Event, Job};
use crate::{EndedWindow, GroupReport, MESSAGES_MAX, MsrError, State};
use atp_common::units::Msr;
use std::collections::BTreeMap;

/// The state of a job's windows.
#[derive(Debug, Default)]
pub struct Windows {
    /// The end of the current window was reported.
    is_reported: bool,
    /// The application knows that the current window needs no more messages.
    is_told_complete: bool,
    /// The current window is the empty one at the end of a job, which has no report.
    is_empty_end: bool,
    /// No window of the application follows the current one. If the receiver already expects
    /// another, an empty one follows.
    is_last: bool,
    is_canceled: bool,
    left_out: bool,
    ended: u32,
    /// Messages of each group in the previous window: the estimate for the next.
    sizes: BTreeMap<u8, u32>,
    /// Sampling rates for windows that have not begun.
    rates: Vec<LaterRate>,
}

/// A sampling rate from a later window on.
#[derive(Debug)]
struct LaterRate {
    window: u32,
    group: u8,
    msr: Msr,
}

impl Windows {
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    pub fn is_empty_end(&self) -> bool {
        self.is_empty_end
    }

    /// Whether a cancel has left out messages of a window before the empty one at the end.
    pub fn left_out(&self) -> bool {
        self.left_out
    }

    /// A cancel leaves out windows that have not begun.
    pub fn leave_out(&mut self) {
        self.left_out = true;
    }

    /// The number of windows that have ended.
    pub fn ended(&self) -> u32 {
        self.ended
    }

    fn note_sizes(&mut self, groups: &[GroupReport]) {
        self.sizes = groups.iter().map(|group| (group.group, group.messages)).collect();
    }
}

impl<D> Job<D> {
    /// Ends the job with the current window, or with an empty one.
    pub(super) fn end_job(&mut self) {
        self.windows.is_last = true;
        self.sender.finish();
        self.end_with_empty_window();
    }

    pub(super) fn cancel(&mut self) {
        (self.windows.is_last, self.windows.is_canceled) = (true, true);
        self.sender.cancel();
        self.end_with_empty_window();
    }

    /// Ends the job if the receiver asked for it.
    pub(super) fn obey_end(&mut self) {
        if self.sender.is_ended_by_receiver() && !self.windows.is_last {
            self.windows.is_last = true;
            self.end_with_empty_window();
        }
    }

    /// Sets a rate in the current window, or keeps it for a later one.
    pub(super) fn set_msr(&mut self, window: u32, group: u8, msr: Msr) {
        let answer = match window == self.sender.window() {
            true => self.sender.set_msr(group, msr),
            false if self.windows.is_last => Err(MsrError::Ending),
            false => self.sender.can_change_msr(group).inspect(|()| {
                let rates = &mut self.windows.rates;
                rates.retain(|rate| (rate.window, rate.group) != (window, group));
                rates.push(LaterRate { window, group, msr });
            }),
        };
        self.events.push_back(Event::MsrAnswer(answer));
    }

    pub(super) fn begin_window(&mut self, messages: &[(u8, u32)]) {
        let is_beside = *self.sender.state() == State::Finishing;
        if is_beside {
            self.windows.note_sizes(&self.sender.report().groups);
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
            self.deadlines.begin_window(is_beside);
            (self.windows.is_reported, self.windows.is_told_complete) = (false, false);
            let window = self.sender.window();
            let is_due = |rate: &mut LaterRate| rate.window == window;
            for rate in self.windows.rates.extract_if(.., is_due) {
                // Only a receiver that has ended the job meanwhile refuses it.
                let _ = self.sender.set_msr(rate.group, rate.msr);
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
            self.deadlines.begin_window(false);
            self.windows.is_empty_end = true;
            (self.windows.is_reported, self.windows.is_told_complete) = (false, false);
            self.sender.finish();
        }
    }

    /// Reports the ends of windows. After the last window of the application, the empty one begins
    /// if the receiver expects it.
    pub fn report_ends(&mut self) {
        self.report_closing();
        match self.sender.state() {
            State::Done | State::Ended => {
                self.report_window_once();
                if self.windows.is_last && !self.sender.is_last_window() {
                    self.end_with_empty_window();
                }
            }
            State::Finishing => self.tell_complete_once(),
            State::Open | State::Failed(_) => {}
        }
    }

    /// Reports the end of a window that ended while the next one was open.
    pub(super) fn report_closing(&mut self) {
        let Some(ended) = self.sender.take_ended_window() else { return };
        self.windows.ended += 1;
        self.deadlines.clear_closing();
        self.events.push_back(Event::WindowEnded(ended));
    }

    /// Reports the end of the current window, unless that was done before.
    fn report_window_once(&mut self) {
        if std::mem::replace(&mut self.windows.is_reported, true) {
            return;
        }
        self.windows.ended += 1;
        self.deadlines.clear_current();
        let ended = EndedWindow {
            window: self.sender.window(),
            is_done: *self.sender.state() == State::Done,
            groups: self.sender.report().groups,
            lost_ids: self.sender.lost_ids(),
        };
        self.windows.note_sizes(&ended.groups);
        self.tell_complete_once();
        if !self.windows.is_empty_end {
            self.events.push_back(Event::WindowEnded(ended));
        }
    }

    fn tell_complete_once(&mut self) {
        if !std::mem::replace(&mut self.windows.is_told_complete, true) {
            self.events.push_back(Event::Complete(self.sender.window()));
        }
    }
}
