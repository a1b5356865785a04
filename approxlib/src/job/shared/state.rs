//! The state of [`super::Shared`] under its lock, and what the two threads give each other.

use crate::{
    error::Shortfall,
    job::{buffer_pool::BufferPool, data::Data, progress::Progress},
    report::{Report, WindowReport},
};
use atp_proto::{MsrError, flow::Command};
use std::collections::VecDeque;

/// A message for the sender thread.
pub type NewMessage = atp_proto::flow::NewMessage<Data>;

/// How a job ended.
pub type Outcome = Result<Report, Box<Shortfall>>;

/// The state under the lock.
#[derive(Debug, Default)]
pub struct State {
    /// Messages that the sender thread has not taken yet.
    pub waiting: Vec<NewMessage>,
    /// Memory of messages that the sender thread released.
    pub pool: BufferPool,
    pub commands: Vec<Command>,
    /// Bytes and messages that wait here or that the sender thread holds.
    pub held_bytes: u64,
    pub held_messages: u32,
    pub accepted: u64,
    /// By group: messages accepted in this window, and their limit; `None` if the job has no such
    /// group.
    pub groups: Vec<Option<GroupCount>>,
    /// The sender thread sleeps until the eventfd wakes it.
    pub thread_sleeps: bool,
    /// Messages with packets that were never sent, as of the last exchange, and those put since.
    pub untried_messages: u32,
    /// The message for which the application waits for room.
    pub room_request: Option<RoomRequest>,
    /// A call could not begin the next window, because two have not ended.
    pub wants_window: bool,
    /// The application has ended the input, or the job.
    pub input_ended: bool,
    /// The job needs no more messages.
    pub complete: bool,
    pub thread_gone: bool,
    pub progress: Progress,
    pub msr_answer: Option<Result<(), MsrError>>,
    /// The number of the window that the application is in.
    pub window: u32,
    /// The number of windows whose outcome the sender thread has given.
    pub windows_reported: u32,
    /// Outcomes that the application has not taken.
    pub window_outcomes: VecDeque<WindowReport>,
    /// The number of windows whose input the application has ended.
    pub windows_finished: u32,
    pub outcome: Option<Outcome>,
}

/// A message that needs room.
#[derive(Clone, Copy, Debug)]
pub struct RoomRequest {
    pub bytes: u64,
    /// The job holds a copy, not the application's memory.
    pub is_copy: bool,
}

impl RoomRequest {
    pub fn of(message: &Data) -> Self {
        Self { bytes: message.len() as u64, is_copy: matches!(message, Data::Copied(_)) }
    }
}

/// Messages of one group in the current window.
#[derive(Clone, Copy, Debug)]
pub struct GroupCount {
    pub accepted: u32,
    /// N, or the most that a job can have if N was not announced.
    pub max: u32,
}

impl State {
    /// Hands a message to the sender thread. A complete job doesn't need it, and returns it.
    pub fn accept(&mut self, group: u8, data: Data) -> Option<Data> {
        self.accepted += 1;
        // A message as long as the one that waits was that one, or found its room.
        let waited = |request: &mut RoomRequest| request.bytes <= data.len() as u64;
        self.room_request.take_if(waited);
        if let Some(group) = &mut self.groups[usize::from(group)] {
            group.accepted += 1;
        }
        if self.complete {
            return Some(data);
        }
        self.held_bytes += data.len() as u64;
        self.held_messages += 1;
        self.untried_messages += 1;
        let (window, len_bytes) = (self.window, data.len() as u32);
        self.waiting.push(NewMessage { window, group, len_bytes, data });
        None
    }

    /// Whether at most one window has not ended, or the job or its input has.
    pub fn can_begin_window(&self) -> bool {
        let has_ended = self.input_ended || self.outcome.is_some() || self.thread_gone;
        has_ended || self.windows_reported.wrapping_sub(self.window) as i32 >= 0
    }

    /// Whether the application has ended a window of which it hasn't taken the outcome. The end of
    /// the job is not the end of a window that somebody waits for.
    pub fn awaits_window(&self) -> bool {
        let taken = self.windows_reported.wrapping_sub(self.window_outcomes.len() as u32);
        !self.input_ended && self.windows_finished.wrapping_sub(taken) as i32 > 0
    }

    /// Notes that a message waits for room. If several wait, the shortest wakes them all.
    pub fn request_room(&mut self, request: RoomRequest) {
        let shortest = self.room_request.filter(|waiting| waiting.bytes <= request.bytes);
        self.room_request = Some(shortest.unwrap_or(request));
    }

    /// Whether messages wait while the sender thread sleeps. It then counts as awake: the caller
    /// wakes it.
    pub fn must_wake_thread(&mut self) -> bool {
        !self.waiting.is_empty() && std::mem::take(&mut self.thread_sleeps)
    }
}
