//! Files a message whose packets changed their states: in its group's counts, in the schedule, and
//! among the messages that await a receipt.

use super::{
    config::SenderConfig,
    ledger::MessageState,
    members::Member,
    report::MessageId,
    schedule::Priority,
    sent_packets::{Part, SentPackets, Transmission},
    terms::Announcement,
    window::Window,
};
use crate::packets::PacketState;
use atp_common::wire::MEMBER_HEADER_LEN;

impl Window {
    /// Files a message anew. `before` is its priority before the states of its packets changed.
    pub(super) fn update(&mut self, key: u32, before: Option<Priority>) {
        let message = self.ledger.message_mut(key);
        let group = &mut self.groups[usize::from(message.group)];
        let after = message.priority();
        if before != after {
            group.schedule.set(&mut self.ranks, key, before, after);
        }
        let state = message.current_state();
        if state == message.state {
            return;
        }
        *group.counter(message.state) -= 1;
        *group.counter(state) += 1;
        if message.state == MessageState::AwaitingReceipt {
            self.awaiting_receipt.remove(key);
        }
        message.state = state;
        if state == MessageState::AwaitingReceipt {
            self.awaiting_receipt.push(message.acked_ns, key);
        }
    }

    /// Takes in the acknowledgment of a transmission of this window. `sent` holds it.
    pub(super) fn acknowledge(&mut self, now_ns: u64, acked: &Transmission, sent: &SentPackets) {
        for n in 0..acked.parts() {
            let part = sent.part(acked, n);
            let Some(key) = self.part_key(acked.group, &part) else { continue };
            let message = self.ledger.message_mut(key);
            if message.packets.state(part.position) != PacketState::Acked {
                let before = message.priority();
                message.packets.set(part.position, PacketState::Acked);
                message.note_ack(now_ns, sent.next_slot());
                self.update(key, before);
            }
        }
    }

    /// Makes the packets of a lost transmission sendable, unless other transmissions of them
    /// arrived. Returns whether any is. `sent` holds the transmission.
    pub(super) fn lose(&mut self, lost: &Transmission, sent: &SentPackets) -> bool {
        let mut any_lost = false;
        for n in 0..lost.parts() {
            any_lost |= self.set_pending(lost.group, &sent.part(lost, n), PacketState::Lost);
        }
        any_lost
    }

    /// Puts the packets of a transmission that did not leave back. `was_lost`: it was a
    /// retransmission. `sent` holds the transmission.
    pub(super) fn take_back(&mut self, taken: &Transmission, was_lost: bool, sent: &SentPackets) {
        // The last message is put back first.
        for n in (0..taken.parts()).rev() {
            let part = sent.part(taken, n);
            let was_lost = if taken.members == 0 { was_lost } else { part.was_lost };
            let state = if was_lost { PacketState::Lost } else { PacketState::New };
            self.set_pending(taken.group, &part, state);
        }
    }

    /// Makes a packet in flight one that is to be sent. Returns whether it was in flight.
    fn set_pending(&mut self, group: u8, part: &Part, state: PacketState) -> bool {
        let Some(key) = self.part_key(group, part) else { return false };
        let message = self.ledger.message_mut(key);
        let is_in_flight = message.packets.state(part.position) == PacketState::InFlight;
        if is_in_flight {
            let before = message.priority();
            message.packets.set(part.position, state);
            self.update(key, before);
        }
        is_in_flight
    }

    /// Segments the messages with longer packets anew, for packets of at most the configured
    /// length.
    pub(super) fn segment_anew(&mut self, config: &SenderConfig, announcement: &mut Announcement) {
        let payload_bytes = config.payload_bytes_max;
        for key in self.ledger.keys() {
            let message = self.ledger.message_mut(key);
            let fits = message.len_bytes.min(message.payload_bytes) <= payload_bytes;
            // A message that the peer's host has in full is segmented anew only if it is
            // retransmitted.
            if fits || message.state == MessageState::AwaitingReceipt {
                continue;
            }
            let (before, group) = (message.priority(), message.group);
            message.begin_attempt(payload_bytes);
            let (packets, len_bytes) = (message.packets.count, message.len_bytes);
            self.update(key, before);
            if self.groups[usize::from(group)].note_weight(packets, len_bytes) {
                announcement.change_order();
            }
        }
    }

    /// The message that a transmission of this window was part of.
    pub(super) fn message_id(&self, transmission: &Transmission) -> MessageId {
        let group = self.groups[usize::from(transmission.group)].config.group;
        MessageId { window: self.number, group, id: transmission.message }
    }

    /// The key of a part's message, unless the message was released or a new attempt at it began
    /// since.
    pub(super) fn part_key(&self, group: u8, part: &Part) -> Option<u32> {
        let key = self.ledger.key(group, part.message)?;
        (self.ledger.message(key).attempt == part.attempt).then_some(key)
    }

    /// Bytes of a transmission's body, if its message still has that segmentation. `sent` holds the
    /// transmission.
    pub(super) fn body_bytes(
        &self,
        transmission: &Transmission,
        sent: &SentPackets,
    ) -> Option<u32> {
        if transmission.members > 0 {
            let bytes = |member: Member| MEMBER_HEADER_LEN as u32 + u32::from(member.len_bytes);
            return Some(sent.members(transmission).map(bytes).sum());
        }
        let part = sent.part(transmission, 0);
        let message = self.ledger.message(self.part_key(transmission.group, &part)?);
        let offset = transmission.index * message.payload_bytes;
        Some((message.len_bytes - offset).min(message.payload_bytes))
    }
}
