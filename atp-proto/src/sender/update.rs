//! Files a message whose packets changed their states: in its group's counts, in the schedule, and
//! among the messages that await a receipt.

use super::{
    Sender,
    ledger::MessageState,
    members::Member,
    report::MessageId,
    schedule::Priority,
    sent_packets::{Part, Transmission},
};
use atp_common::wire::MEMBER_HEADER_LEN;

impl Sender {
    /// Files a message anew. `before` is its priority before the states of its packets changed.
    pub(super) fn update_message(&mut self, now_ns: u64, key: u32, before: Option<Priority>) {
        let next_slot = self.sent_packets.next_slot();
        let message = self.window.ledger.message_mut(key);
        let group = &mut self.window.groups[usize::from(message.group)];
        let after = message.priority();
        if before != after {
            group.schedule.set(&mut self.window.ranks, key, before, after);
        }
        let state = message.current_state();
        if state == message.state {
            return;
        }
        *group.counter(message.state) -= 1;
        *group.counter(state) += 1;
        if message.state == MessageState::AwaitingReceipt {
            self.window.awaiting_receipt.remove(key);
        }
        message.state = state;
        if state == MessageState::AwaitingReceipt {
            message.complete_ns = now_ns;
            message.complete_slot = next_slot;
            self.window.awaiting_receipt.push(now_ns, key);
        }
    }

    /// The message that a transmission of this window was part of.
    pub(super) fn message_id(&self, transmission: &Transmission) -> MessageId {
        let group = self.window.groups[usize::from(transmission.group)].config.group;
        MessageId { window: self.window.number, group, id: transmission.message }
    }

    /// The key of a part's message, unless the message was released or a new attempt at it began
    /// since.
    pub(super) fn part_key(&self, group: u8, part: &Part) -> Option<u32> {
        let key = self.window.ledger.key(group, part.message)?;
        (self.window.ledger.message(key).attempt == part.attempt).then_some(key)
    }

    /// Bytes of a transmission's body, if its message still has that segmentation.
    pub(super) fn payload_bytes_of(&self, transmission: &Transmission) -> Option<u32> {
        if transmission.members > 0 {
            let bytes = |member: Member| MEMBER_HEADER_LEN as u32 + u32::from(member.len_bytes);
            return Some(self.sent_packets.members(transmission).map(bytes).sum());
        }
        let part = self.sent_packets.part(transmission, 0);
        let message = self.window.ledger.message(self.part_key(transmission.group, &part)?);
        let offset = transmission.index * message.payload_bytes;
        Some((message.len_bytes - offset).min(message.payload_bytes))
    }
}
