//! Queues messages: a queued message enters the ledger and its group's schedule.

use super::{
    Sender,
    group::Group,
    ledger::Message,
    report::{MessageId, QueueError, State},
};

impl Sender {
    /// Queues a message of `len_bytes` (0 is allowed). The data stays with the caller, keyed by the
    /// id, until [`Sender::released`] gives the id back.
    pub fn queue(&mut self, group: u8, len_bytes: u32) -> Result<MessageId, QueueError> {
        let index = self.group_index(group).ok_or(QueueError::UnknownGroup(group))?;
        self.check_queue(&self.window.groups[usize::from(index)], len_bytes)?;
        let group = &mut self.window.groups[usize::from(index)];
        let id =
            MessageId { window: self.window.number, group: group.config.group, id: group.queued };
        group.queued += 1;
        group.untried += 1;
        let payload_bytes_max = self.config.payload_bytes_max;
        let key = self.window.ledger.insert(Message::new(id, index, len_bytes, payload_bytes_max));
        let message = self.window.ledger.message(key);
        group.schedule.set(&mut self.window.ranks, key, None, message.priority());
        if group.note_weight(message.packets.count, len_bytes) {
            self.announcement.change_order();
        }
        Ok(id)
    }

    /// Whether the send buffer has room for a message of `len_bytes`.
    pub fn has_room(&self, len_bytes: u32) -> bool {
        let messages: u32 = self.windows().map(|window| window.ledger.len()).sum();
        let bytes: u64 = self.windows().map(|window| window.ledger.bytes).sum();
        messages < self.config.buffer_messages_max
            && bytes + u64::from(len_bytes) <= self.config.buffer_bytes_max
    }

    fn check_queue(&self, group: &Group, len_bytes: u32) -> Result<(), QueueError> {
        let buffer_bytes_max = u32::try_from(self.config.buffer_bytes_max).unwrap_or(u32::MAX);
        let len_bytes_max = self.config.message_bytes_max.min(buffer_bytes_max);
        let total = group.config.total.unwrap_or(self.config.messages_max);
        match self.window.state {
            State::Failed(_) => Err(QueueError::Failed),
            _ if group.closed => Err(QueueError::AfterFinish),
            State::Done | State::Ended | State::Finishing => Err(QueueError::Complete),
            _ if len_bytes > len_bytes_max => {
                Err(QueueError::TooLarge { len_bytes, len_bytes_max })
            }
            _ if group.queued >= total => Err(QueueError::TooMany(total)),
            _ if self.window.ledger.ids() >= self.config.messages_max => {
                Err(QueueError::TooMany(self.config.messages_max))
            }
            _ if !self.has_room(len_bytes) => Err(QueueError::Full),
            _ => Ok(()),
        }
    }
}
