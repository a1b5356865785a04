//! Hands out the packets of one message: gives them slots, and writes their headers.

use super::{
    config::SenderConfig,
    report::{MessageId, Report},
    sent_packets::{Transmission, TransmissionState},
    transmissions::Transmissions,
    window::Window,
};
use atp_common::wire::{Fields, Flags, Header, Kind};

/// One DATA packet: `header`, then `len` bytes of `message` from `offset`. If the header is flagged
/// PACKED, the body holds several messages, which [`Sender::packed_messages`] names.
///
/// [`Sender::packed_messages`]: super::Sender::packed_messages
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Complete except for epoch and time, which the datapath stamps.
    pub header: Header,
    /// The message that it is part of; the first one of a packed packet.
    pub message: MessageId,
    /// The position of its data in the message, bytes; 0 in a packed packet.
    pub offset: u32,
    /// The length of its body, bytes. The caller may lengthen a packed packet by padding.
    pub len: u32,
}

impl Packet {
    /// Whether the packet holds several messages.
    pub const fn is_packed(&self) -> bool {
        self.header.flags().contains(Flags::PACKED)
    }
}

/// The state that packets of a window change when they are handed out.
pub(super) struct Handout<'a> {
    pub(super) now_ns: u64,
    pub(super) config: &'a SenderConfig,
    pub(super) window: &'a mut Window,
    pub(super) transmissions: &'a mut Transmissions,
    pub(super) counters: &'a mut Report,
    /// Headers say whether a lane has more to send.
    pub(super) states_backlogs: bool,
}

/// A packet's place, for its header.
pub(super) struct Place {
    /// The index of the packet in its message.
    pub(super) index: u32,
    pub(super) slot: u32,
    pub(super) was_lost: bool,
    /// Messages in a packed packet; 0 if it is not packed.
    pub(super) members: u16,
    /// The lane has more to send after it.
    pub(super) has_more: bool,
}

impl Handout<'_> {
    /// Hands out up to `number` packets of the message `key`, as long as it stays the next message.
    /// Returns how many.
    pub(super) fn packets_of(
        &mut self,
        key: u32,
        number: usize,
        mut take: impl FnMut(Packet),
    ) -> usize {
        let message = self.window.ledger.message(key);
        let (group, before, is_fresh) =
            (message.group, message.priority(), message.packets.new > 0);
        let (transmission, mut handed) = (self.transmission(group), 0);
        while handed < number {
            let message = self.window.ledger.message_mut(key);
            let Some((position, was_lost)) = message.packets.hand_out() else { break };
            let index = message.index_at(position);
            let was_last_new = is_fresh && message.packets.new == 0;
            let (id, attempt) = (message.id.id, message.attempt);
            let transmission =
                Transmission { message: id, attempt, index, position, ..transmission };
            let slot = self.transmissions.sent.push(transmission);
            let has_more = self.window.has_more(key);
            let packet = self.packet(key, &Place { index, slot, was_lost, members: 0, has_more });
            self.counters.packets_sent += 1;
            self.counters.packets_retransmitted += u64::from(was_lost);
            self.counters.bytes_sent += u64::from(packet.len);
            take(packet);
            handed += 1;
            // Only lost packets of the message are left: another message may come first.
            if was_last_new {
                break;
            }
        }
        self.window.update(key, before);
        handed
    }

    /// A transmission of the lane at index `group` that leaves now.
    pub(super) fn transmission(&self, group: u8) -> Transmission {
        let lanes = &self.transmissions.lanes;
        Transmission {
            departs_ns: self.now_ns + lanes.backlog_ns(group),
            group,
            state: TransmissionState::InFlight,
            odd_window: self.window.is_odd(),
            no_ack: lanes.is_no_ack(group),
            ..Transmission::VOID
        }
    }

    fn packet(&self, key: u32, place: &Place) -> Packet {
        let message = self.window.ledger.message(key);
        let offset = place.index * message.payload_bytes;
        let len = (message.len_bytes - offset).min(message.payload_bytes);
        Packet { header: self.header(key, place), message: message.id, offset, len }
    }

    /// The header of a packet of the message `key`, or of a packed packet that begins with it.
    pub(super) fn header(&self, key: u32, place: &Place) -> Header {
        let &Place { index, slot, was_lost, members, has_more } = place;
        let message = self.window.ledger.message(key);
        let group = &self.window.groups[usize::from(message.group)];
        let no_ack = self.transmissions.lanes.is_no_ack(message.group);
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            flags: flag(was_lost, Flags::RETRANSMIT)
                .with(flag(group.exact, Flags::ORDERED))
                .with(flag(members > 0, Flags::PACKED))
                .with(flag(self.states_backlogs && has_more, Flags::BACKLOGGED))
                .with(flag(no_ack, Flags::NO_ACK)),
            group: message.id.group,
            job: self.config.job,
            cookie: self.config.cookie,
            message: message.id.id,
            index,
            count: if members > 0 { members.into() } else { message.packets.count },
            slot,
            ..Fields::of(Kind::Data)
        })
        .with_segmentation(message.segmentation);
        match self.config.windows {
            true => header.with_window(self.window.number),
            false => header,
        }
    }
}
