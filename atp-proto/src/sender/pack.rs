//! Packs several whole messages into one packet.
//!
//! A packed packet takes the next messages of one group in the schedule's order, up to the first
//! that isn't a whole one-packet message or doesn't fit. It never skips a message, and never waits
//! for more.
//!
//! A receiver states in each receipt whether it takes packed packets; one that doesn't drops them
//! without an ACK. Before the first receipt the sender assumes that it does, because short jobs
//! live in the first round trips. Two rules bound the cost of a wrong assumption: the first packet
//! of a flow is never packed, and after a timeout nothing is, until a receipt comes.
//! [`Peer::may_take_packed`] has both.
//!
//! [`Peer::may_take_packed`]: super::peer::Peer::may_take_packed

use super::{
    handout::{Handout, Packet, Place},
    members::Member,
    report::MessageId,
    sent_packets::Transmission,
};
use atp_common::wire::MEMBER_HEADER_LEN;

/// A message in a packed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedMessage {
    /// The message.
    pub message: MessageId,
    /// The message's length, bytes.
    pub len: u16,
}

const MEMBER_BYTES: u32 = MEMBER_HEADER_LEN as u32;

impl Handout<'_> {
    /// Hands out the message `first`, the next one, with as many more of its group as fit. `None`
    /// if it can't share a packet. `fresh_only`: see [`Window::next_message`].
    ///
    /// [`Window::next_message`]: super::window::Window::next_message
    pub(super) fn pack(&mut self, first: u32, fresh_only: bool) -> Option<Packet> {
        let mut room_bytes = self.config.payload_bytes_max;
        let group = self.window.ledger.message(first).group;
        // No second message could fit.
        if !self.fits(first, room_bytes.saturating_sub(MEMBER_BYTES)) {
            return None;
        }
        let (first_member, mut members) = (self.transmissions.sent.next_member(), 0);
        let (mut key, mut bytes, mut any_lost) = (first, 0, false);
        loop {
            let Some(member) = self.hand_out_whole(key) else {
                debug_assert!(false, "a scheduled message without a packet to send");
                break;
            };
            self.transmissions.sent.push_member(member);
            (members, any_lost) = (members + 1, any_lost | member.was_lost);
            room_bytes -= MEMBER_BYTES + u32::from(member.len_bytes);
            bytes += u32::from(member.len_bytes);
            let next = self.window.groups[usize::from(group)].schedule.first(fresh_only);
            match next {
                Some((_, next)) if self.fits(next, room_bytes) => key = next,
                _ => break,
            }
        }
        if members == 0 {
            return None;
        }
        let message = self.window.ledger.message(first);
        let (id, attempt) = (message.id, message.attempt);
        if members == 1 {
            self.transmissions.sent.forget_members_from(first_member);
            members = 0;
        }
        let transmission = Transmission {
            message: id.id,
            attempt,
            first_member,
            members,
            ..self.transmission(group)
        };
        let slot = self.transmissions.sent.push(transmission);
        self.counters.packets_sent += 1;
        self.counters.packets_retransmitted += u64::from(any_lost);
        self.counters.bytes_sent += u64::from(bytes);
        self.counters.messages_packed += u64::from(members);
        // Unlike elsewhere, the members have left the schedule already.
        let has_more = self.window.groups[usize::from(group)].schedule.len() > 0;
        let place = Place { index: 0, slot, was_lost: any_lost, members, has_more };
        let len = bytes + u32::from(members) * MEMBER_BYTES;
        Some(Packet { header: self.header(first, &place), message: id, offset: 0, len })
    }

    /// Whether a message may share a packet that has `room_bytes` left: it has one packet, which it
    /// has had from the start. Receivers distinguish segmentations by the header.
    fn fits(&self, key: u32, room_bytes: u32) -> bool {
        let message = self.window.ledger.message(key);
        message.packets.count == 1
            && message.segmentation == 0
            && message.len_bytes + MEMBER_BYTES <= room_bytes
    }

    /// Hands out the only packet of a message.
    fn hand_out_whole(&mut self, key: u32) -> Option<Member> {
        let message = self.window.ledger.message_mut(key);
        let before = message.priority();
        let (_, was_lost) = message.packets.hand_out()?;
        let member = Member {
            message: message.id.id,
            len_bytes: message.len_bytes as u16,
            attempt: message.attempt,
            was_lost,
        };
        self.window.update(key, before);
        Some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Packet, Sender, SenderConfig, tests::*};
    use atp_common::wire::{
        Features, Fields, Flags, HEADER_LEN, Header, Kind, ReceiptBody, ReceiptWord,
    };

    /// Packets of 100 bytes: six members of 10 bytes fit.
    fn packing() -> SenderConfig {
        SenderConfig { payload_bytes_max: 100, ack_ring_words: 64, packing: true, ..config() }
    }

    fn with_lengths(config: SenderConfig, lengths: impl IntoIterator<Item = u32>) -> Sender {
        let mut sender = sender(config);
        for len_bytes in lengths {
            sender.queue(0, len_bytes).unwrap();
        }
        sender
    }

    /// A receipt that names the first 64 messages by `bits`.
    fn receipt(number: u32, features: u16, bits: u64) -> Vec<u8> {
        let fields = Fields { index: number, epoch: features, ..fields(Kind::Receipt) };
        let mut out = Header::new(&fields).as_bytes().to_vec();
        out.resize(100, 0);
        let words = [ReceiptWord { group: 0, index: 0, bits }];
        let body = &mut out[HEADER_LEN..];
        let len = ReceiptBody::write(body, 0, bits.count_ones(), 0, &words).unwrap();
        out.truncate(HEADER_LEN + len);
        out
    }

    fn ids(sender: &Sender, packet: &Packet) -> Vec<u32> {
        match packet.is_packed() {
            true => sender.packed_messages(packet).map(|member| member.message.id).collect(),
            false => vec![packet.message.id],
        }
    }

    #[test]
    fn pack__the_next_messages_up_to_the_first_that_does_not_fit() {
        // Message 4 has two packets, and MRDF sends it last. Message 8 doesn't fit; 9 does.
        let lengths = [10, 10, 20, 30, 110, 0, 10, 5, 90, 10];
        let mut sender = with_lengths(packing(), lengths);
        let packets = send_all(&mut sender, 0);
        let sent: Vec<_> = packets.iter().map(|packet| ids(&sender, packet)).collect();
        // The first packet is never packed. 10 + 20 + 30 + 0 and 4 headers leave 16 bytes for 6.
        assert_eq!(
            sent,
            [vec![0], vec![1, 2, 3, 5, 6], vec![7], vec![8], vec![9], vec![4], vec![4]]
        );
        let packed = &packets[1];
        assert_eq!((packed.offset, packed.len), (0, 10 + 20 + 30 + 10 + 5 * 6));
        let header = packed.header;
        assert_eq!((header.message(), header.index(), header.count()), (1, 0, 5));
        assert_eq!((header.flags(), header.segmentation()), (Flags::PACKED, 0));
        let report = sender.report();
        assert_eq!((report.packets_sent, report.messages_packed), (7, 5));
        assert_eq!(report.bytes_sent, lengths.iter().map(|len| u64::from(*len)).sum::<u64>());
    }

    #[test]
    fn pack__one_ack_and_one_loss_for_all_members() {
        let mut sender = with_lengths(packing(), [10; 64]);
        let packets = send_all(&mut sender, 0);
        assert_eq!(packets.len(), 1 + 63usize.div_ceil(6));
        ack(&mut sender, 1, &packets[10]);
        ack(&mut sender, 1, &packets[9]);
        // Packets 0 and 1 are eight or more packets before packet 9 and 10: messages 0 to 12.
        let report = sender.report();
        assert_eq!((report.packets_lost, report.groups[0].lost), (3, 13));
        let again = send_all(&mut sender, 1);
        assert_eq!(ids(&sender, &again[0]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(again[0].header.flags(), Flags::PACKED.with(Flags::RETRANSMIT));
        assert_eq!(sender.report().packets_retransmitted, 3);
        // The first transmission arrives after all: each message is acknowledged once.
        let lost = sender.report().groups[0].lost;
        ack(&mut sender, 2, &packets[1]);
        ack(&mut sender, 2, &again[0]);
        let report = sender.report();
        assert_eq!((report.packets_acked, report.packets_lost_wrongly), (4, 1));
        assert_eq!(report.groups[0].lost, lost);
    }

    #[test]
    fn pack__taken_back_is_as_if_never_handed_out() {
        let mut sender = with_lengths(packing(), [10; 30]);
        let packets = send_all(&mut sender, 0);
        for packet in packets[2..].iter().rev() {
            sender.take_back(packet);
        }
        sender.take_back(&packets[3]);
        let report = sender.report();
        assert_eq!((report.packets_sent, report.bytes_sent, report.messages_packed), (2, 70, 6));
        let mut left: Vec<_> =
            send_all(&mut sender, 1).iter().flat_map(|packet| ids(&sender, packet)).collect();
        left.sort_unstable();
        assert_eq!(left, (7..30).collect::<Vec<_>>());
    }

    #[test]
    fn pack__states_the_backlog() {
        let mut sender = with_lengths(packing(), [10]);
        send_all(&mut sender, 0);
        let features = Features::PACKED.with(Features::ADVICE);
        sender.on_packet(1, &receipt(1, features.bits(), 1)).unwrap();
        for len_bytes in [10, 10, 10, 10, 90] {
            sender.queue(0, len_bytes).unwrap();
        }
        let flags: Vec<_> = send_all(&mut sender, 1).iter().map(|p| p.header.flags()).collect();
        assert_eq!(flags, [Flags::PACKED.with(Flags::BACKLOGGED), Flags::NONE]);
    }

    #[test]
    fn pack__only_if_the_configuration_wants_it() {
        let config = SenderConfig { packing: false, ..packing() };
        assert_eq!(send_all(&mut with_lengths(config, [10; 30]), 0).len(), 30);
        let config = SenderConfig { mrdf: false, ..packing() };
        assert_eq!(send_all(&mut with_lengths(config, [10; 31]), 0).len(), 6);
    }

    #[test]
    fn support__a_receipt_without_it_ends_packing_and_the_wait_for_acks() {
        let mut sender = with_lengths(packing(), [10; 13]);
        assert_eq!(send_all(&mut sender, 0).len(), 3);
        sender.on_packet(1, &receipt(1, 0, 1)).unwrap();
        // The first packet, which isn't packed, is still in flight.
        assert_eq!((sender.in_flight(), sender.report().packets_lost), (1, 2));
        let again = send_all(&mut sender, 1);
        assert_eq!(again.len(), 12);
        assert!(again.iter().all(|packet| packet.header.flags() == Flags::RETRANSMIT));
        // A later claim changes nothing: the receiver was replaced, or it lies.
        sender.on_packet(2, &receipt(2, 1, 1)).unwrap();
        sender.queue(0, 10).unwrap();
        sender.queue(0, 10).unwrap();
        assert_eq!(send_all(&mut sender, 2).len(), 2);
    }

    #[test]
    fn support__is_doubted_after_a_timeout_until_a_receipt_announces_it() {
        let mut sender = with_lengths(packing(), [10; 13]);
        assert_eq!(send_all(&mut sender, 0).len(), 3);
        sender.handle_timeout(6 * MS);
        assert_eq!(send_all(&mut sender, 6 * MS).len(), 13);
        for message in 0..6 {
            assert_eq!(sender.queue(0, 10), Ok(id(13 + message)));
        }
        // Unknown features change nothing.
        sender.on_packet(7 * MS, &receipt(1, 0xfffd, 1)).unwrap();
        assert_eq!(send_all(&mut sender, 7 * MS).len(), 1);
    }

    #[test]
    fn black_hole__narrower_paths_get_shorter_packed_packets() {
        let config = SenderConfig { payload_bytes_max: 1_400, ..packing() };
        let mut sender = with_lengths(config, [100; 40]);
        send_all(&mut sender, 0);
        sender.on_packet(1, &receipt(1, 1, 1)).unwrap();
        sender.set_payload_bytes(500);
        sender.handle_timeout(10 * MS);
        let packets = send_all(&mut sender, 10 * MS);
        assert_eq!(packets.len(), 39usize.div_ceil(4));
        assert!(packets.iter().all(|packet| packet.len <= 500));
    }
}
