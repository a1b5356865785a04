//! Queues messages: a queued message enters the ledger and its group's schedule. Names the message
//! that is sent next.

use super::{
    config::SenderConfig,
    ledger::Message,
    report::{MessageId, QueueError, State},
    terms::Announcement,
    window::Window,
};

impl Window {
    /// Queues a message of the group at index `index`, which [`Window::check_queue`] allows.
    pub(super) fn queue(
        &mut self,
        config: &SenderConfig,
        index: u8,
        len_bytes: u32,
        announcement: &mut Announcement,
    ) -> MessageId {
        let group = &mut self.groups[usize::from(index)];
        let id = MessageId { window: self.number, group: group.config.group, id: group.queued };
        group.queued += 1;
        group.untried += 1;
        let message = Message::new(id, index, len_bytes, config.payload_bytes_max);
        let key = self.ledger.insert(message);
        let message = self.ledger.message(key);
        group.schedule.set(&mut self.ranks, key, None, message.priority());
        if group.note_weight(message.packets.count, len_bytes) {
            announcement.change_order();
        }
        id
    }

    /// Why a message of the group at index `index` can't be queued. `has_room`: the send buffer has
    /// room for it.
    pub(super) fn check_queue(
        &self,
        config: &SenderConfig,
        index: u8,
        len_bytes: u32,
        has_room: bool,
    ) -> Result<(), QueueError> {
        let group = &self.groups[usize::from(index)];
        let buffer_bytes_max = u32::try_from(config.buffer_bytes_max).unwrap_or(u32::MAX);
        let len_bytes_max = config.message_bytes_max.min(buffer_bytes_max);
        let total = group.config.total.unwrap_or(config.messages_max);
        match self.state {
            State::Failed(_) => Err(QueueError::Failed),
            _ if group.closed => Err(QueueError::AfterFinish),
            State::Done | State::Ended | State::Finishing => Err(QueueError::Complete),
            _ if len_bytes > len_bytes_max => {
                Err(QueueError::TooLarge { len_bytes, len_bytes_max })
            }
            _ if group.queued >= total => Err(QueueError::TooMany(total)),
            _ if self.ledger.ids() >= config.messages_max => {
                Err(QueueError::TooMany(config.messages_max))
            }
            _ if !has_room => Err(QueueError::Full),
            _ => Ok(()),
        }
    }

    /// The next message to send, and whether its group sends only messages that were never tried in
    /// full: the configuration may want that of a group that has enough. Otherwise such a group
    /// sends nothing more.
    ///
    /// `may_send` says of each lane whether it may send.
    pub(super) fn next_message(&self, may_send: impl Fn(u8) -> bool) -> Option<(u32, bool)> {
        // While needed messages are still to be queued, unneeded ones are sent as well, but last:
        // otherwise they would fill the buffer forever.
        let ending = self
            .groups
            .iter()
            .all(|group| group.is_all_queued() || group.has_enough() && !group.tries_all);
        let candidates = self.groups.iter().zip(0..=u8::MAX).filter_map(|(group, lane)| {
            let enough = group.has_enough();
            if enough && ending && !group.tries_all || !may_send(lane) {
                return None;
            }
            let fresh_only = enough && ending;
            let (rank, key) = group.schedule.first(fresh_only)?;
            // An exact group's ranks are ids, not remaining data.
            Some(((enough, !group.exact, rank), (key, fresh_only)))
        });
        candidates.min_by_key(|(order, _)| *order).map(|(_, next)| next)
    }

    /// Whether a lane has more to send after the packet that its message `key` just handed out. The
    /// message is still in the schedule.
    pub(super) fn has_more(&self, key: u32) -> bool {
        let message = self.ledger.message(key);
        let waiting = self.groups[usize::from(message.group)].schedule.len();
        message.packets.has_pending() || waiting > 1
    }
}
