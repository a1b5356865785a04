//! Hands out packets: DATA in the order of the schedule, FIN and TERMS when they are due.

use super::{
    PackedMessage, Packet, Sender,
    ending::Attempt,
    handout::Handout,
    report::MessageId,
    sent_packets::TransmissionState,
    terms::{Announcement, Facts},
    window::Window,
};
use atp_common::wire::Flags;

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
        let Self {
            config, windows, transmissions, peer, first_window, announcement, report, ..
        } = self;
        transmissions.note_overdue(now_ns);
        for window in windows.each_mut() {
            if window.is_over() || window.sends_only_fin() || peer.no_room.is_paused(now_ns) {
                continue;
            }
            let mut room = transmissions.slots_left(config.window_packets());
            first_window.open(now_ns, peer, window.is_exact());
            let first_room = first_window.room(config, peer, transmissions.sent.in_flight());
            room = room.min(first_room.unwrap_or(room));
            let next = window.next_message(|lane| {
                may_send(config.groups[usize::from(lane)].group)
                    && transmissions.has_lane_room(lane)
            });
            let Some((key, fresh_only)) = next.filter(|_| room > 0) else { continue };
            first_window.on_sent(now_ns);
            announcement.on_sent(now_ns);
            let may_pack = config.packing && peer.may_take_packed(report.packets_sent);
            let lane = window.ledger.message(key).group;
            let mut handout = Handout {
                now_ns,
                config,
                window,
                transmissions,
                counters: report,
                states_backlogs: peer.advice.wants_backlogs(),
            };
            if may_pack && let Some(packet) = handout.pack(key, fresh_only) {
                take(packet);
                return 1;
            }
            let room = room.min(handout.transmissions.lane_room(lane).unwrap_or(room));
            return handout.packets_of(key, number.min(room as usize), take);
        }
        0
    }

    /// The messages in a packed packet, in the packet's order; none in any other packet. Only for a
    /// packet that was just handed out.
    pub fn packed_messages(&self, packet: &Packet) -> impl Iterator<Item = PackedMessage> + '_ {
        let sent = &self.transmissions.sent;
        let members = sent.get(packet.header.slot()).into_iter().flat_map(|t| sent.members(t));
        let MessageId { window, group, .. } = packet.message;
        members.map(move |member| PackedMessage {
            message: MessageId { window, group, id: member.message },
            len: member.len_bytes,
        })
    }

    /// Takes back a packet that did not leave: the socket refused it, or the host dropped it.
    /// Packets that are taken back in reverse order give their slots back too.
    pub fn take_back(&mut self, packet: &Packet) {
        let sent = &mut self.transmissions.sent;
        let Some(&transmission) = sent.get(packet.header.slot()) else { return };
        let Some(window) = self.windows.of(&transmission) else { return };
        let same = window.message_id(&transmission) == packet.message
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
            _ => sent.members(&transmission).map(|member| u64::from(member.len_bytes)).sum(),
        };
        self.report.messages_packed -= u64::from(transmission.members);
        window.take_back(&transmission, was_lost, sent);
        sent.take_back(packet.header.slot());
    }

    /// Writes the next control packet (FIN or TERMS), header and body, into `out` and returns its
    /// length. `None` if none is due. 524 bytes are always enough, 84 for one group. Once the job
    /// has ended, the last FINs tell the receiver so: no answer follows them.
    pub fn next_control(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        if let Some(len) = self.next_fin(now_ns, true, out) {
            return Some(len);
        }
        if let Some(len) = self.windows.current.next_confirmation(now_ns, &self.config, out) {
            return Some(len);
        }
        // Windows end in order.
        if self.windows.closing().is_none()
            && let Some(len) = self.next_fin(now_ns, false, out)
        {
            return Some(len);
        }
        if let Some(len) = self.windows.current.next_confirmation(now_ns, &self.config, out) {
            return Some(len);
        }
        let (facts, announcement) = self.facts_and_announcement();
        announcement.next(now_ns, &facts, out)
    }

    /// Writes the next FIN of the current window or of the one before it, if it is due.
    fn next_fin(&mut self, now_ns: u64, of_closing: bool, out: &mut [u8]) -> Option<usize> {
        let timeout_ns = match of_closing {
            true => self.fin_timeout_ns(self.windows.before_current()?),
            false => self.fin_timeout_ns(&self.windows.current),
        };
        let is_due = timeout_ns.is_some_and(|at_ns| at_ns <= now_ns);
        if is_due && !of_closing {
            let (facts, announcement) = self.facts_and_announcement();
            if announcement.fin_waits_until_ns(&facts).is_some()
                && let Some(len) = announcement.next_before_fin(now_ns, &facts, out)
            {
                return Some(len);
            }
        }
        let Self { config, windows, transmissions, peer, report, .. } = self;
        let window = match of_closing {
            true => windows.before_current_mut()?,
            false => &mut windows.current,
        };
        if !is_due {
            // The reason for a FIN may have disappeared between two of its pages.
            window.ending.stop_pages();
            return None;
        }
        let start = Attempt {
            now_ns,
            timeout_ns: transmissions.lanes.base_timeout_ns(),
            backlog_ns: transmissions.lanes.longest_backlog_ns(),
            packets_sent: report.packets_sent,
            pages: window.fin_pages(),
        };
        let sent = &mut transmissions.sent;
        let len = window.next_fin(&start, config, sent, &mut peer.silence, out);
        windows.void_ended(sent);
        len
    }

    /// When the next FIN of an open window is due.
    pub(super) fn fin_timeout_ns(&self, window: &Window) -> Option<u64> {
        let paused_until_ns = self.peer.no_room.paused_until_ns().unwrap_or(0);
        let is_current = window.number == self.windows.current.number;
        let terms_ns = is_current.then(|| self.announcement.fin_waits_until_ns(&self.facts()));
        let terms_ns = terms_ns.flatten().unwrap_or(0);
        Some(window.fin_timeout_ns()?.max(paused_until_ns).max(terms_ns))
    }

    /// The facts on which the announcement of terms depends.
    pub(super) fn facts(&self) -> Facts<'_> {
        let Self { config, windows, transmissions, report, .. } = self;
        let packets_sent = report.packets_sent;
        Facts { config, window: &windows.current, transmissions, packets_sent }
    }

    /// The same, and the announcement.
    fn facts_and_announcement(&mut self) -> (Facts<'_>, &mut Announcement) {
        let Self { config, windows, transmissions, report, announcement, .. } = self;
        let packets_sent = report.packets_sent;
        let facts = Facts { config, window: &windows.current, transmissions, packets_sent };
        (facts, announcement)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        SenderConfig,
        tests::{MS, ack, config, send_all},
    };
    use super::*;
    use crate::{GroupConfig, Pace, sender::loss::REORDER_PACKETS};
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
                let has_slots = sender.transmissions.sent.span() < sender.config.window_packets();
                if packets.len() < batch && has_slots {
                    let has_more = sender.windows.iter().any(|w| w.next_message(|_| true).is_some());
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
                let has_more = sender.windows.iter().any(|w| w.next_message(|_| true).is_some());
                if sender.in_flight() == 0 && !has_more {
                    break;
                }
            }
            prop_assert_eq!(sender.in_flight(), 0);
            prop_assert!(sender.windows.iter().all(|w| w.next_message(|_| true).is_none()));
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
        let (in_flight, overdue) = sender.transmissions.sent.lane_in_flight(0);
        in_flight - overdue.min(3 * window_packets + REORDER_PACKETS)
    }

    fn is_repeated(packet: &Packet) -> bool {
        packet.header.flags().contains(Flags::RETRANSMIT)
    }

    #[test]
    fn initial_window__until_something_is_received() {
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
        // Anything that is received ends the limit, but for that before the first advice.
        (0..40).for_each(|_| _ = sender.queue(0, 10).unwrap());
        ack(&mut sender, timeouts_ns[5] + MS, &last[0]);
        sender.set_awaiting_packets(16);
        assert_eq!(send_all(&mut sender, timeouts_ns[5] + MS).len() + 4, 16);
        let later_ns = timeouts_ns[5] + 4 * MS;
        assert!(send_all(&mut sender, later_ns).len() > 16);
    }
}
