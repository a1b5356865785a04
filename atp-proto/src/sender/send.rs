//! Hands out packets: chooses the next message, gives its packets slots, and writes their headers.

use super::{
    Sender,
    loss::REORDER_PACKETS,
    report::MessageId,
    sent_packets::{Transmission, TransmissionState},
    window::Window,
};
use crate::packets::PacketState;
use atp_common::wire::{Fields, Flags, Header, Kind};

/// The most packets whose ACKs are overdue, in windows: if a queue holds all packets up, or the
/// path is broken, a lane doesn't go on forever. Beyond these, as many as find a lost packet.
const OVERDUE_WINDOWS: u32 = 3;

/// One DATA packet: `header`, then `len` bytes of `message` from `offset`. If the header is flagged
/// PACKED, the body holds several messages, which [`Sender::packed_messages`] names.
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

impl Sender {
    /// The next packet to send, in the order of MRDF or of queueing. It counts as in flight from
    /// now on. `None` if there is nothing to send or the window is full. Call again after
    /// acknowledgments, receipts, and the time of [`Sender::poll_timeout`].
    pub fn next_packet(&mut self, now_ns: u64) -> Option<Packet> {
        self.next_packet_of(now_ns, |_| true)
    }

    /// The next packet of the groups for which `may_send` is true: each group has its own rate.
    pub fn next_packet_of(&mut self, now_ns: u64, may_send: impl Fn(u8) -> bool) -> Option<Packet> {
        let mut packet = None;
        self.hand_out(now_ns, may_send, 1, |next| packet = Some(next));
        packet
    }

    /// Appends the packets that up to `number` calls of [`Sender::next_packet`] would return, at a
    /// lower cost.
    pub fn next_packets(&mut self, now_ns: u64, number: usize, packets: &mut Vec<Packet>) {
        let end = packets.len() + number;
        while packets.len() < end {
            let left = end - packets.len();
            if self.hand_out(now_ns, |_| true, left, |packet| packets.push(packet)) == 0 {
                return;
            }
        }
    }

    /// Hands out up to `number` packets of the next message, as long as it stays the next message.
    /// Returns how many. Messages of an older window come first.
    fn hand_out(
        &mut self,
        now_ns: u64,
        may_send: impl Fn(u8) -> bool,
        number: usize,
        mut take: impl FnMut(Packet),
    ) -> usize {
        self.note_overdue(now_ns);
        let of_closing = self
            .in_closing(|sender| sender.hand_out_of_window(now_ns, &may_send, number, &mut take));
        match of_closing {
            None | Some(0) => self.hand_out_of_window(now_ns, &may_send, number, &mut take),
            Some(handed) => handed,
        }
    }

    fn hand_out_of_window(
        &mut self,
        now_ns: u64,
        may_send: impl Fn(u8) -> bool,
        number: usize,
        mut take: impl FnMut(Packet),
    ) -> usize {
        if self.has_ended() || self.sends_only_fin() || self.is_paused(now_ns) {
            return 0;
        }
        let mut room = self.config.window_packets().saturating_sub(self.sent_packets.span());
        if room == 0 {
            self.sent_packets.reclaim(|_| true);
            room = self.config.window_packets().saturating_sub(self.sent_packets.span());
        }
        self.open_first_window(now_ns);
        room = room.min(self.first_window_room().unwrap_or(room));
        let next = self.window.next_message(|group| may_send(group) && self.has_lane_room(group));
        let Some((key, fresh_only)) = next.filter(|_| room > 0) else {
            return 0;
        };
        self.first_window.on_sent(now_ns);
        self.announcement.on_sent(now_ns);
        if number > 0
            && self.may_pack()
            && let Some(packet) = self.pack(now_ns, key, fresh_only)
        {
            take(packet);
            return 1;
        }
        let message = self.window.ledger.message(key);
        let (group, before, is_fresh) =
            (message.group, message.priority(), message.packets.new > 0);
        let departs_ns = now_ns + self.lanes.backlog_ns(group);
        let no_ack = self.lanes.is_no_ack(group);
        let lane_room = self.lane_room(group).unwrap_or(room);
        let (number, odd_window) = (number.min(room.min(lane_room) as usize), self.window.is_odd());
        let mut handed = 0;
        while handed < number {
            let message = self.window.ledger.message_mut(key);
            let Some((position, was_lost)) = message.packets.hand_out() else { break };
            let index = message.index_at(position);
            let slot = self.sent_packets.push(Transmission {
                departs_ns,
                number: 0,
                group,
                message: message.id.id,
                index,
                position,
                attempt: message.attempt,
                state: TransmissionState::InFlight,
                odd_window,
                no_ack,
                members: 0,
                first_member: 0,
            });
            let was_last_new = is_fresh && message.packets.new == 0;
            let packet = self.packet(key, index, slot, was_lost);
            self.report.packets_sent += 1;
            self.report.packets_retransmitted += u64::from(was_lost);
            self.report.bytes_sent += u64::from(packet.len);
            take(packet);
            handed += 1;
            // Only lost packets of the message are left: another message may come first.
            if was_last_new {
                break;
            }
        }
        self.update_message(now_ns, key, before);
        handed
    }

    /// The number of packets that a lane's window has room for; `None` if it has no window.
    fn lane_room(&self, lane: u8) -> Option<u32> {
        let packets = self.lanes.window_packets(lane);
        let (in_flight, overdue) = self.sent_packets.lane_in_flight(lane);
        let ignored = packets.saturating_mul(OVERDUE_WINDOWS).saturating_add(REORDER_PACKETS);
        let awaited = in_flight - overdue.min(ignored);
        (packets > 0).then(|| packets.saturating_sub(awaited))
    }

    /// Makes room in the lanes' windows for packets whose ACKs are overdue. With a packet or two in
    /// flight no later packet overtakes a lost one, and a lane would be silent until the timeout.
    pub(super) fn note_overdue(&mut self, now_ns: u64) {
        for lane in 0..self.config.groups.len() {
            let lane = lane as u8;
            if self.lanes.window_packets(lane) > 0 {
                self.sent_packets.set_overdue(lane, now_ns, self.lanes.overdue_ns(lane));
            }
        }
    }

    /// When an overdue ACK makes room in a full window.
    pub(super) fn window_timeout_ns(&self) -> Option<u64> {
        let is_full = |lane: &u8| self.lane_room(*lane) == Some(0);
        let overdue_ns = |lane| {
            let (_, departs_ns) = self.sent_packets.first_awaited(lane)?;
            Some(departs_ns.saturating_add(self.lanes.overdue_ns(lane)))
        };
        let lanes = (0..self.config.groups.len()).map(|lane| lane as u8);
        lanes.filter(is_full).filter_map(overdue_ns).min()
    }

    fn has_lane_room(&self, group: u8) -> bool {
        self.group_index(group).and_then(|lane| self.lane_room(lane)) != Some(0)
    }

    /// Whether a lane's window is full and the lane has more to send: its ACKs are awaited.
    pub fn waits_for_acks(&self) -> bool {
        let is_full = |group| !self.has_lane_room(group);
        self.windows().any(|window| window.next_message(is_full).is_some())
    }

    /// Whether all windows are full: no new message could be sent now.
    pub fn is_full(&self) -> bool {
        self.config.groups.iter().all(|group| !self.has_lane_room(group.group))
    }

    fn packet(&self, key: u32, index: u32, slot: u32, was_lost: bool) -> Packet {
        let message = self.window.ledger.message(key);
        let offset = index * message.payload_bytes;
        let has_more = self.has_more(key);
        let header = self.header(key, index, slot, was_lost, 0, has_more);
        let len = (message.len_bytes - offset).min(message.payload_bytes);
        Packet { header, message: message.id, offset, len }
    }

    /// The header of a packet of the message `key`, or of a packed packet that begins with it if
    /// there are `members`. `has_more`: the lane has more to send after it.
    pub(super) fn header(
        &self,
        key: u32,
        index: u32,
        slot: u32,
        was_lost: bool,
        members: u16,
        has_more: bool,
    ) -> Header {
        let message = self.window.ledger.message(key);
        let group = &self.window.groups[usize::from(message.group)];
        let backlogged = self.receiver_advice.wants_backlogs() && has_more;
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            kind: Kind::Data,
            flags: flag(was_lost, Flags::RETRANSMIT)
                .with(flag(group.exact, Flags::ORDERED))
                .with(flag(members > 0, Flags::PACKED))
                .with(flag(backlogged, Flags::BACKLOGGED))
                .with(flag(self.lanes.is_no_ack(message.group), Flags::NO_ACK)),
            group: message.id.group,
            job: self.config.job,
            cookie: self.config.cookie,
            message: message.id.id,
            index,
            count: if members > 0 { members.into() } else { message.packets.count },
            epoch: 0,
            slot,
            time: 0,
        })
        .with_segmentation(message.segmentation);
        match self.config.windows {
            true => header.with_window(self.window.number),
            false => header,
        }
    }

    /// Takes back a packet that did not leave: the socket refused it, or the host dropped it.
    /// Packets that are taken back in reverse order give their slots back too.
    pub fn take_back(&mut self, packet: &Packet) {
        let slot = packet.header.slot();
        let Some(&transmission) = self.sent_packets.get(slot) else { return };
        self.in_window_of(&transmission, |sender| {
            sender.take_back_of_window(packet, &transmission)
        });
    }

    fn take_back_of_window(&mut self, packet: &Packet, &transmission: &Transmission) {
        let slot = packet.header.slot();
        let same = self.message_id(&transmission) == packet.message
            && transmission.index == packet.header.index()
            && transmission.state == TransmissionState::InFlight;
        if !same {
            return;
        }
        let was_lost = packet.header.flags().contains(Flags::RETRANSMIT);
        self.report.packets_sent -= 1;
        self.report.packets_retransmitted -= u64::from(was_lost);
        self.report.bytes_sent -= match transmission.members {
            0 => u64::from(packet.len),
            _ => self.sent_packets.members(&transmission).map(|m| u64::from(m.len_bytes)).sum(),
        };
        self.report.messages_packed -= u64::from(transmission.members);
        // The last message is put back first.
        for n in (0..transmission.parts()).rev() {
            let part = self.sent_packets.part(&transmission, n);
            let was_lost = if transmission.members == 0 { was_lost } else { part.was_lost };
            let Some(key) = self.part_key(transmission.group, &part) else { continue };
            let message = self.window.ledger.message_mut(key);
            if message.packets.state(part.position) == PacketState::InFlight {
                let before = message.priority();
                let state = if was_lost { PacketState::Lost } else { PacketState::New };
                message.packets.set(part.position, state);
                self.update_message(transmission.departs_ns, key, before);
            }
        }
        self.sent_packets.take_back(slot);
    }
}

impl Window {
    /// The next message to send, and whether its group sends only messages that were never tried in
    /// full: the configuration may want that of a group that has enough. Otherwise such a group
    /// sends nothing more.
    pub(super) fn next_message(&self, may_send: impl Fn(u8) -> bool) -> Option<(u32, bool)> {
        // While needed messages are still to be queued, unneeded ones are sent as well, but last:
        // otherwise they would fill the buffer forever.
        let ending = self
            .groups
            .iter()
            .all(|group| group.is_all_queued() || group.has_enough() && !group.tries_all);
        let candidates = self.groups.iter().filter_map(|group| {
            let enough = group.has_enough();
            if enough && ending && !group.tries_all || !may_send(group.config.group) {
                return None;
            }
            let fresh_only = enough && ending;
            let (rank, key) = group.schedule.first(fresh_only)?;
            // An exact group's ranks are ids, not remaining data.
            Some(((enough, !group.exact, rank), (key, fresh_only)))
        });
        candidates.min_by_key(|(order, _)| *order).map(|(_, next)| next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        SenderConfig,
        tests::{MS, ack, config, send_all},
    };
    use super::*;
    use crate::{GroupConfig, Pace};
    use atp_common::laws::rtt::Rtt;
    use proptest::prelude::*;

    proptest! {
        /// A lane's window limits its packets in flight that aren't overdue, at any size and at
        /// each moment, and no other lane's. The job ends, whatever is lost.
        #[test]
        fn next_packets__keeps_the_window(
            messages in proptest::collection::vec((0u8..2, 1u32..1_000), 1..40),
            windows in proptest::collection::vec(1u32..20, 1..10),
            batch in 1usize..50,
            overdue_ms in prop_oneof![1u64..20, Just(u64::MAX / MS)],
            lost in proptest::collection::vec(any::<bool>(), 1..30),
        ) {
            let own = config();
            let other = GroupConfig { group: 1, ..own.groups[0] };
            let mut sender =
                Sender::new(SenderConfig { groups: vec![own.groups[0], other], ..own }).unwrap();
            messages.iter().for_each(|(group, bytes)| _ = sender.queue(*group, *bytes).unwrap());
            sender.finish();
            let (mut now_ns, mut in_flight, mut number) = (0, Vec::new(), 0);
            for round in 0..5_000 {
                now_ns += MS;
                let window_packets = windows[round % windows.len()];
                let rtt = Rtt::default().observe(MS);
                let overdue_ns = overdue_ms * MS;
                sender.set_pace(0, Pace { rtt, window_packets, overdue_ns, ..Pace::default() });
                sender.set_pace(1, Pace { rtt, ..Pace::default() });
                sender.handle_timeout(now_ns);
                let before = awaited(&sender, window_packets);
                let mut packets = Vec::new();
                sender.next_packets(now_ns, batch, &mut packets);
                let after = awaited(&sender, window_packets);
                prop_assert!(after <= window_packets.max(before));
                // All that is left waits for ACKs of its lane, unless slots are scarce.
                let has_slots = sender.sent_packets.span() < sender.config.window_packets();
                if packets.len() < batch && has_slots {
                    let has_more = sender.windows().any(|w| w.next_message(|_| true).is_some());
                    prop_assert_eq!(has_more, sender.waits_for_acks());
                    prop_assert!(!has_more || after >= window_packets);
                }
                // The packets of the last round arrive, and some are lost.
                for packet in std::mem::replace(&mut in_flight, packets) {
                    number += 1;
                    if !lost[number % lost.len()] || round > 1_000 {
                        ack(&mut sender, now_ns, &packet);
                    }
                }
                let has_more = sender.windows().any(|w| w.next_message(|_| true).is_some());
                if sender.in_flight() == 0 && !has_more {
                    break;
                }
            }
            prop_assert_eq!(sender.in_flight(), 0);
            prop_assert!(sender.windows().all(|w| w.next_message(|_| true).is_none()));
        }
    }

    /// A packet that is lost makes room for the next one long before its timeout, and a job without
    /// any ACK sends no more than a window in each such time.
    #[test]
    fn next_packet__an_overdue_ack_makes_room() {
        let mut sender = Sender::new(config()).unwrap();
        (0..100).for_each(|_| _ = sender.queue(0, 1_000).unwrap());
        let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(MS / 5));
        let pace = Pace { rtt, window_packets: 2, overdue_ns: MS / 2, ..Pace::default() };
        sender.set_pace(0, pace);
        assert_eq!(send_all(&mut sender, 0).len(), 2);
        for round in 1..8 {
            let due_ns = sender.poll_timeout().unwrap();
            assert_eq!(due_ns, round * MS / 2);
            assert_eq!(send_all(&mut sender, due_ns - 1).len(), 0);
            sender.handle_timeout(due_ns);
            let packets = send_all(&mut sender, due_ns);
            assert!(packets.len() == 2 && packets.iter().all(|p| !is_repeated(p)), "{packets:?}");
        }
        // Four windows and eight packets are in flight. The timeout is next.
        sender.handle_timeout(4 * MS);
        assert_eq!(send_all(&mut sender, 4 * MS).len(), 0);
        assert!((4 * MS..=5 * MS).contains(&sender.poll_timeout().unwrap()));
    }

    #[test]
    fn next_packet__an_overdue_ack_makes_room_in_the_last_of_all_lanes() {
        let own = config();
        let group = |group| GroupConfig { group, ..own.groups[0] };
        let groups = (0..=u8::MAX).map(group).collect();
        let mut sender = Sender::new(SenderConfig { groups, ..own.clone() }).unwrap();
        (0..2).for_each(|_| _ = sender.queue(u8::MAX, 10).unwrap());
        let rtt = Rtt::default().observe(MS / 5);
        let pace = Pace { rtt, window_packets: 1, overdue_ns: MS, ..Pace::default() };
        sender.set_pace(u8::MAX, pace);
        assert_eq!(sender.needed_of_yielding().0, 0);
        assert_eq!(send_all(&mut sender, 0).len(), 1);
        assert_eq!(sender.poll_timeout(), Some(MS));
        assert_eq!(send_all(&mut sender, MS).len(), 1);
    }

    /// The packets in flight that take room in the window of lane 0.
    fn awaited(sender: &Sender, window_packets: u32) -> u32 {
        let (in_flight, overdue) = sender.sent_packets.lane_in_flight(0);
        in_flight - overdue.min(3 * window_packets + REORDER_PACKETS)
    }

    fn is_repeated(packet: &Packet) -> bool {
        packet.header.flags().contains(Flags::RETRANSMIT)
    }

    #[test]
    fn initial_window__until_something_is_heard() {
        let config = SenderConfig { initial_window_packets: 5, ..config() };
        // With more messages, the window would grow before the first timeout.
        let mut sender = Sender::new(config.clone()).unwrap();
        (0..5).for_each(|_| _ = sender.queue(0, 10).unwrap());
        assert_eq!(send_all(&mut sender, 0).len(), 5);
        // The limit can change until then. A sender without one doesn't get one.
        for (packets, expected) in [(9, 9), (2, 2), (0, 1)] {
            let mut sender = Sender::new(config.clone()).unwrap();
            (0..30).for_each(|_| _ = sender.queue(0, 10).unwrap());
            sender.set_initial_window_packets(packets);
            assert_eq!(send_all(&mut sender, 0).len(), expected);
        }
        let unlimited = SenderConfig { initial_window_packets: 0, ..config };
        let mut unlimited = Sender::new(unlimited).unwrap();
        (0..30).for_each(|_| _ = unlimited.queue(0, 10).unwrap());
        unlimited.set_initial_window_packets(2);
        assert_eq!(send_all(&mut unlimited, 0).len(), 30);
        // The first timeout is 20 to 40 ms. It doubles once.
        let (mut timeouts_ns, mut last) = (vec![0], Vec::new());
        for _ in 0..5 {
            let due_ns = sender.poll_timeout().unwrap();
            sender.handle_timeout(due_ns);
            last = send_all(&mut sender, due_ns);
            assert_eq!(last.len(), 5);
            timeouts_ns.push(due_ns);
        }
        let gaps_ns: Vec<_> = timeouts_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((20 * MS..40 * MS).contains(&gaps_ns[0]), "{gaps_ns:?}");
        assert!(gaps_ns[1..].iter().all(|gap_ns| *gap_ns == 2 * gaps_ns[0]), "{gaps_ns:?}");
        // Anything that is heard ends the limit, but for that before the first advice.
        (0..40).for_each(|_| _ = sender.queue(0, 10).unwrap());
        ack(&mut sender, timeouts_ns[5] + MS, &last[0]);
        sender.set_awaiting_packets(16);
        assert_eq!(send_all(&mut sender, timeouts_ns[5] + MS).len() + 4, 16);
        let later_ns = timeouts_ns[5] + 4 * MS;
        assert!(send_all(&mut sender, later_ns).len() > 16);
    }
}
