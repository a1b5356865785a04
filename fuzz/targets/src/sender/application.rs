//! The application of a job: it keeps the contract of the library's `Job`, and checks what it is
//! told.

use atp_common::units::Msr;
use atp_proto::{
    MESSAGES_MAX,
    flow::{Command, Event, Job, NewMessage},
};

/// A message's window and length, in place of its bytes.
#[derive(Debug)]
pub struct Data {
    /// The number of the window for which it was given.
    pub window: u32,
    /// The message's length.
    pub len_bytes: u32,
}

/// The state of the application: its window, and the answers that it awaits.
#[derive(Debug, Default)]
pub struct Application {
    /// The number of the window for which it gives messages.
    window: u32,
    /// It has ended that window's input, and not begun the next.
    is_between: bool,
    has_ended: bool,
    /// The window that is reported next.
    reported: u32,
    /// Changes of rates without an answer.
    unanswered: u32,
}

impl Application {
    /// Gives a message, if the job takes messages and has room.
    pub fn queue(&mut self, job: &mut Job<Data>, group: u8, len_bytes: u32) {
        if !self.has_ended && !self.is_between && job.sender.has_room(len_bytes) {
            let (window, data) = (self.window, Data { window: self.window, len_bytes });
            job.give([NewMessage { window, group, len_bytes, data }]);
        }
    }

    /// Ends the input of the window.
    pub fn finish_window(&mut self, job: &mut Job<Data>) {
        if !self.has_ended && !self.is_between && job.sender.config().windows {
            self.is_between = true;
            job.command(Command::FinishWindow);
        }
    }

    /// Begins the next window, one at most beyond those that are open.
    pub fn begin_window(&mut self, job: &mut Job<Data>, total: Option<u32>) {
        if !self.has_ended && self.is_between && self.window == job.sender.window() {
            (self.window, self.is_between) = (self.window + 1, false);
            let groups = job.sender.config().groups.iter().map(|group| group.group);
            let messages = groups.map(|group| (group, total.unwrap_or(MESSAGES_MAX))).collect();
            job.command(Command::BeginWindow { messages });
        }
    }

    /// Changes a rate, between two windows that of the next one.
    pub fn set_msr(&mut self, job: &mut Job<Data>, group: u8, msr: Msr) {
        let window = self.window + u32::from(self.is_between);
        self.unanswered += 1;
        job.command(Command::SetMsr { window, group, msr });
    }

    /// Finishes or cancels the job. A job may be canceled after it was finished.
    pub fn end(&mut self, job: &mut Job<Data>, command: Command) {
        if !self.has_ended || command == Command::Cancel {
            self.has_ended = true;
            job.command(command);
        }
    }

    /// Takes an event.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::WindowEnded(ended) => {
                assert_eq!(ended.window, self.reported, "a window's report is missing or early");
                assert!(ended.window <= self.window, "{ended:?} was never begun");
                assert_eq!(ended.groups.len(), ended.lost_ids.len());
                self.reported += 1;
            }
            Event::MsrAnswer(_) => {
                let left = self.unanswered.checked_sub(1);
                self.unanswered = left.expect("a change that was made");
            }
            Event::Complete(_) | Event::Hurried(_) => {}
        }
    }

    /// Whether each change of a rate has its answer.
    pub fn has_answers(&self) -> bool {
        self.unanswered == 0
    }
}
