//! Assembles packed packets in memory: header, members and padding in one piece. The kernel copies
//! one piece of 1,400 bytes faster than a dozen short ones, and a call takes 1,024 pieces at most.

use super::store::Store;
use atp_common::wire::{Flags, HEADER_LEN, member_header};
use atp_proto::{Packet, Sender};

/// Padding may be this part of a packet.
const PADDING_PART: u32 = 16;

/// The packed packets of a batch. Its memory is reused.
#[derive(Debug, Default)]
pub struct PackedPackets {
    bytes: Vec<u8>,
    /// The end of each packet in `bytes`.
    ends: Vec<usize>,
}

impl PackedPackets {
    /// Assembles the packed packets among `packets`.
    pub fn assemble(&mut self, packets: &[Packet], sender: &Sender, store: &Store) {
        self.bytes.clear();
        self.ends.clear();
        for packet in packets.iter().filter(|packet| packet.is_packed()) {
            let end = self.bytes.len() + HEADER_LEN + packet.len as usize;
            self.bytes.extend_from_slice(packet.header.as_bytes());
            for member in sender.packed_messages(packet) {
                self.bytes.extend_from_slice(&member_header(member.message.id, member.len));
                self.bytes.extend_from_slice(store.get(member.message).bytes);
            }
            self.bytes.resize(end, 0);
            self.ends.push(end);
        }
    }

    /// The assembled packets, in the order of the batch.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// Pads packed packets that get no ACK of their own to the longest of them, if that costs little:
/// the segments of a GSO buffer have one length.
pub fn pad(packets: &mut [Packet]) {
    let joins = |packet: &Packet| packet.header.flags().contains(Flags::PACKED.with(Flags::NO_ACK));
    let packed = || packets.iter().filter(|packet| joins(packet));
    let Some(longest) = packed().map(|packet| packet.len).max() else { return };
    for packet in packets.iter_mut().filter(|packet| joins(packet)) {
        if longest - packet.len <= longest / PADDING_PART {
            packet.len = longest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::data::{Data, MessageCopy};
    use atp_common::{
        units::Msr,
        wire::{Header, PackedBody},
    };
    use atp_proto::{GroupConfig, MessageId, SenderConfig};

    #[test]
    fn assemble__packets_that_a_receiver_reads() {
        let config = SenderConfig { packing: true, ..config() };
        let mut sender = Sender::new(config).unwrap();
        let mut store = Store::default();
        for n in 0..100u32 {
            let bytes = vec![n as u8; 50 + n as usize];
            sender.queue(0, bytes.len() as u32).unwrap();
            let data = match n % 2 {
                0 => Data::Copied(MessageCopy::copy(&bytes, None)),
                _ => Data::Shared(bytes.into()),
            };
            store.insert(MessageId { window: 0, group: 0, id: n }, data);
        }
        sender.set_no_ack(0, true);
        let mut packets = Vec::new();
        sender.next_packets(0, 100, &mut packets);
        pad(&mut packets);
        let mut packed = PackedPackets::default();
        packed.assemble(&packets, &sender, &store);
        let mut next = 1;
        for bytes in packed.packets() {
            let (header, _) = Header::parse(bytes).unwrap();
            let body = PackedBody::parse(&header, &bytes[HEADER_LEN..]).unwrap();
            for (id, data) in body.members() {
                assert_eq!((id, data), (next, &vec![next as u8; 50 + next as usize][..]));
                next += 1;
            }
        }
        // The first packet of a flow is never packed.
        assert_eq!((next, packets[0].is_packed()), (100, false));
        let lens: Vec<_> = packets[1..].iter().map(|packet| packet.len).collect();
        let longest = *lens.iter().max().unwrap();
        assert!(lens.iter().filter(|len| **len == longest).count() > lens.len() / 2, "{lens:?}");
        assert!(longest <= 1_400);
    }

    fn config() -> SenderConfig {
        SenderConfig::new(1, 2, GroupConfig::new(0, Msr::from_parts_per_billion(1).unwrap()))
    }
}
