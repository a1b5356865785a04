//! The application's side of a job: it queues messages, begins windows and ends them.

use super::{
    EndedWindow, Sender,
    config::GroupConfig,
    group::Group,
    report::{MessageId, QueueError},
    window::Window,
};

impl Sender {
    /// Queues a message of `len_bytes` (0 is allowed). The data stays with the caller, keyed by the
    /// id, until [`Sender::released`] gives the id back.
    pub fn queue(&mut self, group: u8, len_bytes: u32) -> Result<MessageId, QueueError> {
        let index = self.indices.index(group).ok_or(QueueError::UnknownGroup(group))?;
        let has_room = self.has_room(len_bytes);
        let window = &mut self.windows.current;
        window.check_queue(&self.config, index, len_bytes, has_room)?;
        Ok(window.queue(&self.config, index, len_bytes, &mut self.announcement))
    }

    /// Whether the send buffer has room for a message of `len_bytes`.
    pub fn has_room(&self, len_bytes: u32) -> bool {
        let config = &self.config;
        self.windows.has_room(len_bytes, config.buffer_messages_max, config.buffer_bytes_max)
    }

    /// Takes the ids of messages whose data is no longer needed: they are delivered, or the job has
    /// ended. Each id comes once.
    pub fn released(&mut self) -> impl Iterator<Item = MessageId> + '_ {
        self.windows.drain_released()
    }

    /// Whether the next window may begin: the current one has ended, or it only waits for its end,
    /// and the receiver takes windows that overlap.
    pub fn can_begin_window(&self) -> bool {
        self.windows.can_begin(self.config.overlap && self.peer.takes_overlap())
    }

    /// Begins the next window of the job, if [`Sender::can_begin_window`] allows it. `sizes` gives
    /// each group's N, known or expected. Ids are counted from 0 again. Returns whether it began.
    ///
    /// If the current window has not ended, it goes on beside the next one, and
    /// [`Sender::take_ended_window`] tells its end.
    pub fn begin_window(&mut self, sizes: impl Fn(&GroupConfig) -> (Option<u32>, u32)) -> bool {
        if !self.can_begin_window() {
            return false;
        }
        let sent = &mut self.transmissions.sent;
        let before_slot = sent.next_slot().wrapping_sub(1);
        let next = self.windows.current.next(&self.config, before_slot, sizes);
        self.windows.begin(next, sent);
        self.announcement.begin_window(self.report.packets_sent);
        true
    }

    /// The number of the window before the current one, if it has not ended.
    pub fn closing_window(&self) -> Option<u32> {
        self.windows.closing().map(|closing| closing.number)
    }

    /// Takes the outcome of a window that has ended while the next one was open. The window after
    /// that can begin then.
    pub fn take_ended_window(&mut self) -> Option<EndedWindow> {
        self.windows.take_ended(self.config.names_lost)
    }

    /// Announces that no more messages come, in this window or any other. N becomes the number of
    /// queued messages, unless the job is ending already with its configured N. Further calls do
    /// nothing.
    ///
    /// The current window ends the job. If a FIN of this window was sent before that said that
    /// others follow, the job ends with the next window, which may be empty.
    pub fn finish(&mut self) {
        self.windows.current.ending.set_last();
        self.finish_window();
    }

    /// Announces that no more messages come in this window.
    pub fn finish_window(&mut self) {
        if self.windows.current.finish() {
            self.announcement.change();
        }
    }

    /// Ends the current window (or a job without windows) now, with the messages delivered so far.
    /// From now on only FIN is sent. [`State::Ended`] follows, or [`State::Done`] if enough was
    /// delivered.
    ///
    /// [`State::Ended`]: super::State::Ended
    /// [`State::Done`]: super::State::Done
    pub fn end_now(&mut self) {
        self.windows.current.end_now();
    }

    /// Ends the window before the current one now, if it has not ended.
    pub fn end_closing_now(&mut self) {
        if let Some(window) = self.windows.before_current_mut() {
            window.end_now();
        }
    }

    /// Whether [`Sender::end_now`] would tell the receiver the true N of every group. `false` once
    /// the window has ended, or was told to end.
    pub fn can_end_now(&self) -> bool {
        let window = &self.windows.current;
        let is_ending = window.is_over() || window.sends_only_fin();
        !is_ending && window.groups.iter().all(Group::is_total_known)
    }

    /// Ends the job now, as [`Sender::end_now`] ends the window.
    pub fn cancel(&mut self) {
        self.windows.current.ending.set_last();
        // Names of lost messages are not worth waiting for any more.
        self.windows.each_mut().for_each(Window::cancel);
        self.windows.void_ended(&mut self.transmissions.sent);
    }
}
