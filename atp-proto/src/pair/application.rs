//! The sending application, with the room that its library gives it.

use super::{Scenario, scenario::Window};
use crate::{
    EndedWindow,
    flow::{Command, Event, Job, NewMessage},
};
use std::collections::{BTreeMap, VecDeque};

/// The bytes of one message. No two messages and no two packets are alike.
pub fn content(window: u32, group: u8, message: u32, len: u32) -> Vec<u8> {
    let own = window.wrapping_mul(77) ^ u32::from(group) << 5 ^ message.wrapping_mul(31);
    (0..len).map(|i| (own ^ i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// The sending application: how far it is in the scenario.
pub struct Application {
    /// The window that it is in.
    window: u32,
    /// Messages of this window that are still to be given.
    left: VecDeque<(u8, u32)>,
    /// The number of messages given in this window, by group.
    given: BTreeMap<u8, u32>,
    next_give_ns: u64,
    /// It has ended the input of its window.
    has_finished_window: bool,
    /// It has ended the job's input, or canceled the job.
    has_ended: bool,
    has_canceled: bool,
    /// The window needs no more messages.
    is_complete: bool,
    /// The number of changes of the sampling rate that were made, and of those with an answer.
    msr_changes: usize,
    msr_answers: usize,
    /// The number of windows whose end was reported.
    windows_reported: u32,
    /// Messages and bytes that the job has not released.
    held_messages: u32,
    held_bytes: u64,
}

impl Application {
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            window: 0,
            left: scenario.windows[0].messages.iter().copied().collect(),
            given: BTreeMap::new(),
            next_give_ns: 0,
            has_finished_window: false,
            has_ended: false,
            has_canceled: false,
            is_complete: false,
            msr_changes: 0,
            msr_answers: 0,
            windows_reported: 0,
            held_messages: 0,
            held_bytes: 0,
        }
    }

    /// Gives the job all that is due and has room.
    pub fn act(&mut self, now_ns: u64, scenario: &Scenario, job: &mut Job<Vec<u8>>) {
        self.change_msr(now_ns, scenario, job);
        if self.cancel_ns(scenario).is_some_and(|at_ns| at_ns <= now_ns) {
            job.command(Command::Cancel);
            (self.has_canceled, self.has_ended) = (true, true);
            self.left.clear();
        }
        while !self.has_ended {
            self.give_messages(now_ns, scenario, job);
            let Some(command) = self.next_command(scenario) else { return };
            job.command(command);
        }
    }

    fn change_msr(&mut self, now_ns: u64, scenario: &Scenario, job: &mut Job<Vec<u8>>) {
        let due = scenario.msr_changes[self.msr_changes..].iter();
        for change in due.take_while(|change| change.at_ns <= now_ns) {
            let window = self.window + u32::from(self.has_finished_window && !self.has_ended);
            job.command(Command::SetMsr { window, group: change.group, msr: change.msr });
            self.msr_changes += 1;
        }
    }

    fn give_messages(&mut self, now_ns: u64, scenario: &Scenario, job: &mut Job<Vec<u8>>) {
        let config = &scenario.sender;
        while let Some(&(group, len_bytes)) = self.left.front() {
            let has_room = self.held_messages < config.buffer_messages_max
                && self.held_bytes + u64::from(len_bytes) <= config.buffer_bytes_max;
            if now_ns < self.next_give_ns || !(has_room || self.is_complete) {
                return;
            }
            self.left.pop_front();
            self.next_give_ns = now_ns + scenario.queue_pause_ns;
            let given = self.given.entry(group).or_default();
            if !self.is_complete {
                let data = content(self.window, group, *given, len_bytes);
                job.give([NewMessage { window: self.window, group, len_bytes, data }]);
                self.held_messages += 1;
                self.held_bytes += u64::from(len_bytes);
            }
            *given += 1;
        }
    }

    /// The next command of an application that has given all messages of its window.
    fn next_command(&mut self, scenario: &Scenario) -> Option<Command> {
        if !self.left.is_empty() {
            return None;
        }
        let next = scenario.windows.get(self.window as usize + 1);
        if !self.has_finished_window {
            self.has_finished_window = true;
            self.has_ended = next.is_none() && !scenario.finishes_late;
            return Some(if self.has_ended { Command::Finish } else { Command::FinishWindow });
        }
        // At most two windows are open, or one without overlap.
        let open = self.window + 1 - self.windows_reported;
        if open > u32::from(scenario.sender.overlap && next.is_some()) {
            return None;
        }
        let Some(next) = next else {
            self.has_ended = true;
            return Some(Command::Finish);
        };
        self.window += 1;
        self.left = next.messages.iter().copied().collect();
        self.given.clear();
        (self.has_finished_window, self.is_complete) = (false, false);
        Some(Command::BeginWindow { messages: announced(scenario, next) })
    }

    /// Takes an event of the job. Returns a window that has ended.
    pub fn on_event(&mut self, event: Event) -> Option<EndedWindow> {
        match event {
            Event::Complete(window) => self.is_complete |= window == self.window,
            Event::MsrAnswer(_) => self.msr_answers += 1,
            Event::WindowEnded(ended) => {
                assert_eq!(ended.window, self.windows_reported, "windows end in order");
                assert!(ended.window <= self.window, "it never began");
                self.windows_reported += 1;
                return Some(ended);
            }
            Event::Hurried(_) => {}
        }
        None
    }

    /// Takes back a message's room.
    pub fn released(&mut self, data: &[u8]) {
        self.held_messages -= 1;
        self.held_bytes -= data.len() as u64;
    }

    /// Whether every change of a sampling rate has its answer.
    pub fn has_answers(&self) -> bool {
        self.msr_changes == self.msr_answers
    }

    pub fn windows_reported(&self) -> u32 {
        self.windows_reported
    }

    pub fn has_canceled(&self) -> bool {
        self.has_canceled
    }

    /// When it acts next, if it doesn't wait for its job.
    pub fn next_ns(&self, now_ns: u64, scenario: &Scenario) -> Option<u64> {
        let gives = !self.left.is_empty() && self.next_give_ns > now_ns;
        let change = scenario.msr_changes.get(self.msr_changes).map(|change| change.at_ns);
        let give_ns = gives.then_some(self.next_give_ns);
        [give_ns, change, self.cancel_ns(scenario)].into_iter().flatten().min()
    }

    fn cancel_ns(&self, scenario: &Scenario) -> Option<u64> {
        scenario.cancel_ns.filter(|_| !self.has_canceled)
    }
}

/// The N that the application announces for a window, by group.
fn announced(scenario: &Scenario, window: &Window) -> Vec<(u8, u32)> {
    let with_total = scenario.sender.groups.iter().filter(|group| group.total.is_some());
    let number = |group: u8| window.messages.iter().filter(|message| message.0 == group).count();
    with_total.map(|group| (group.group, number(group.group) as u32)).collect()
}
