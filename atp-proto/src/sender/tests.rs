//! Tests the sender alone, step by step. Complete jobs are in `tests/two_hosts.rs`.

use super::*;
use atp_common::{
    laws::rtt::Rtt,
    maps::ack_ring,
    units::Msr,
    wire::{
        Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind, ReceiptBody, ReceiptWord,
        ResetReason,
    },
};
use proptest::prelude::*;

pub(super) const MS: u64 = 1_000_000;

pub(super) const fn id(id: u32) -> MessageId {
    MessageId { window: 0, group: 0, id }
}

pub(super) fn config() -> SenderConfig {
    // A group that may lose almost nothing, but isn't exact: MRDF applies.
    let group = GroupConfig::new(0, Msr::from_parts_per_billion(999_999_999).unwrap());
    SenderConfig {
        payload_bytes_max: 10,
        message_bytes_max: 1_000,
        ack_ring_words: 4,
        ..SenderConfig::new(1, 2, group)
    }
}

/// An RTT of 1 ms; timeouts after 5 ms.
pub(super) fn sender(config: SenderConfig) -> Sender {
    let mut sender = Sender::new(config).unwrap();
    let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(MS));
    sender.set_pace(0, Pace { rtt, backlog_ns: 0, ..Pace::default() });
    sender
}

fn with_messages(number: u32, len_bytes: u32) -> Sender {
    let mut sender = sender(config());
    for _ in 0..number {
        sender.queue(0, len_bytes).unwrap();
    }
    sender
}

pub(super) fn send_all(sender: &mut Sender, now_ns: u64) -> Vec<Packet> {
    std::iter::from_fn(|| sender.next_packet(now_ns)).collect()
}

pub(super) fn ack(sender: &mut Sender, now_ns: u64, packet: &Packet) {
    sender.on_ack(now_ns, &packet.header.into_ack(false)).unwrap();
}

pub(super) fn fields(kind: Kind) -> Fields {
    Fields { job: 1, cookie: 2, index: 1, ..Fields::of(kind) }
}

/// A receipt, numbered `number`, for the first 64 messages.
pub(super) fn receipt(number: u32, slot: u32, bits: u64) -> Vec<u8> {
    let header = Header::new(&Fields { index: number, slot, ..fields(Kind::Receipt) });
    let mut out = header.as_bytes().to_vec();
    out.resize(100, 0);
    let words = [ReceiptWord { group: 0, index: 0, bits }];
    let len = ReceiptBody::write(&mut out[HEADER_LEN..], 0, bits.count_ones(), 0, &words).unwrap();
    out.truncate(HEADER_LEN + len);
    out
}

pub(super) fn fin_ack(fin: &[u8], delivered: u32) -> Vec<u8> {
    let (header, kind) = Header::parse(fin).unwrap();
    assert_eq!(kind, Kind::Fin);
    let requested = FinBody::parse(&fin[HEADER_LEN..]).unwrap().groups().next().unwrap();
    let (index, slot) = (header.index(), header.slot());
    let ended = delivered >= requested.needed;
    let flags = if ended { header.flags().with(Flags::ENDED) } else { header.flags() };
    let fields = Fields { flags, index, slot, count: 1, ..fields(Kind::FinAck) };
    let mut out = Header::new(&fields).as_bytes().to_vec();
    out.resize(HEADER_LEN + 20, 0);
    FinBody::write(&mut out[HEADER_LEN..], 0, &[FinGroup { delivered, ..requested }]).unwrap();
    out
}

pub(super) fn control(sender: &mut Sender, now_ns: u64) -> Option<Vec<u8>> {
    let mut out = [0; 52];
    sender.next_control(now_ns, &mut out).map(|len| out[..len].to_vec())
}

#[test]
fn next_packet__segments_messages_and_names_each_transmission() {
    let mut sender = with_messages(1, 25);
    let packets = send_all(&mut sender, 0);
    let segments: Vec<_> = packets.iter().map(|p| (p.header.index(), p.offset, p.len)).collect();
    assert_eq!(segments, [(0, 0, 10), (1, 10, 10), (2, 20, 5)]);
    assert!(packets.iter().all(|p| p.header.count() == 3 && p.header.kind() == Ok(Kind::Data)));
    assert!(packets.iter().map(|p| p.header.slot()).eq(0..3));
    assert_eq!(sender.in_flight(), 3);
}

#[test]
fn next_packet__stops_at_half_the_ring() {
    let mut sender = with_messages(100, 10);
    let packets = send_all(&mut sender, 0);
    assert_eq!(packets.len(), 64);
    // An acknowledgment in the middle doesn't move the window, but one at its start does.
    ack(&mut sender, 1, &packets[1]);
    assert_eq!(sender.next_packet(1), None);
    ack(&mut sender, 1, &packets[0]);
    assert_eq!(send_all(&mut sender, 1).len(), 2);
}

#[test]
fn take_back__is_as_if_it_had_never_been_handed_out() {
    let mut sender = with_messages(1, 30);
    let packets = send_all(&mut sender, 0);
    sender.take_back(&packets[2]);
    sender.take_back(&packets[1]);
    sender.take_back(&packets[1]);
    assert_eq!((sender.in_flight(), sender.report().packets_sent), (1, 1));
    let again = send_all(&mut sender, 1);
    assert_eq!(again, packets[1..]);
    // Taking back the oldest first only leaves a hole in the slots.
    sender.take_back(&again[0]);
    let again = send_all(&mut sender, 2);
    assert_eq!((again[0].header.index(), again[0].header.slot()), (1, 3));
    assert_eq!(again[0].header.flags(), Flags::NONE);
}

#[test]
fn loss__by_order_only_beyond_the_margin() {
    let mut sender = with_messages(20, 10);
    let packets = send_all(&mut sender, 0);
    ack(&mut sender, 100, &packets[7]);
    assert_eq!(sender.next_packet(100), None);
    ack(&mut sender, 100, &packets[8]);
    let again = sender.next_packet(100).unwrap();
    assert_eq!(again.message, packets[0].message);
    assert_eq!(again.header.flags(), Flags::RETRANSMIT);
    assert_eq!(sender.next_packet(100), None);
}

#[test]
fn loss__by_order_of_time() {
    for margin_ns in [MS, MS / 25] {
        let config = SenderConfig { timer_granularity_ns: margin_ns, ..config() };
        let mut sender = Sender::new(config).unwrap();
        let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(margin_ns));
        sender.set_pace(0, Pace { rtt, backlog_ns: 0, ..Pace::default() });
        sender.queue(0, 10).unwrap();
        sender.queue(0, 10).unwrap();
        let first = sender.next_packet(0).unwrap();
        let second = sender.next_packet(margin_ns - 1).unwrap();
        ack(&mut sender, 2 * margin_ns, &second);
        assert_eq!(sender.next_packet(2 * margin_ns), None);
        sender.queue(0, 10).unwrap();
        let third = sender.next_packet(2 * margin_ns).unwrap();
        ack(&mut sender, 3 * margin_ns, &third);
        assert_eq!(sender.next_packet(3 * margin_ns).unwrap().message, first.message);
    }
}

/// Packets with NO_ACK are overtaken by PROBEs, not by each other.
#[test]
fn loss__no_ack_packets_by_answers_only() {
    let mut sender = with_messages(20, 10);
    sender.set_no_ack(0, true);
    let packets = send_all(&mut sender, 0);
    assert!(packets.iter().all(|packet| packet.header.flags() == Flags::NO_ACK));
    ack(&mut sender, 100, &packets[19]);
    ack(&mut sender, 100, &packets[1]);
    assert_eq!(sender.next_packet(100), None);
    // The PROBE left after packet 9: packets 0 and 2 are eight or more before it.
    sender.probe_answered(100, 0, 0..10, 0);
    let again: Vec<_> = send_all(&mut sender, 100).iter().map(|packet| packet.message).collect();
    assert_eq!(again, [packets[0].message, packets[2].message]);
    // A quarter of an RTT later, at least a millisecond, is late enough for all of them.
    sender.probe_answered(MS, 0, 0..10, MS);
    assert_eq!(send_all(&mut sender, MS).len(), 7);
    assert_eq!(sender.oldest_in_flight(0), Some(10));
}

/// Silence without a PROBE is no loss.
#[test]
fn loss__no_ack_packets_by_silence_only_after_a_probe() {
    let mut sender = with_messages(1, 10);
    sender.set_no_ack(0, true);
    sender.next_packet(0).unwrap();
    assert_eq!(sender.poll_timeout(), None);
    sender.handle_timeout(500 * MS);
    assert_eq!(sender.next_packet(500 * MS), None);
    sender.probe_sent(501 * MS, 0);
    sender.probe_sent(503 * MS, 0);
    assert_eq!(sender.poll_timeout(), Some(506 * MS));
    sender.handle_timeout(506 * MS);
    assert!(sender.next_packet(506 * MS).is_some());
}

#[test]
fn stop_probing__treats_packets_as_others() {
    let mut sender = with_messages(20, 10);
    sender.set_no_ack(0, true);
    let packets = send_all(&mut sender, 0);
    sender.stop_probing();
    ack(&mut sender, 100, &packets[9]);
    let again = send_all(&mut sender, 100);
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|packet| packet.header.flags() == Flags::RETRANSMIT));
    assert!(sender.poll_timeout().is_some());
}

#[test]
fn loss__by_silence_counts_from_departure() {
    let mut sender = with_messages(1, 10);
    let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(MS));
    sender.set_pace(0, Pace { rtt, backlog_ns: 40 * MS, ..Pace::default() });
    sender.next_packet(0).unwrap();
    sender.set_pace(0, Pace { rtt, backlog_ns: 0, ..Pace::default() });
    assert_eq!(sender.poll_timeout(), Some(45 * MS));
    sender.handle_timeout(45 * MS - 1);
    assert_eq!(sender.next_packet(45 * MS - 1), None);
    sender.handle_timeout(45 * MS);
    assert!(sender.next_packet(45 * MS).is_some());
    // Twice as long the second time.
    assert_eq!(sender.poll_timeout(), Some(55 * MS));
}

// Five times the timer granularity once the RTT is known; before, twenty to forty times.
#[test]
fn loss__by_silence_depends_on_the_timer_granularity() {
    const US: u64 = 1_000;
    for cookie in 0..100 {
        let config = SenderConfig { timer_granularity_ns: 40 * US, cookie, ..config() };
        let mut sender = Sender::new(config).unwrap();
        sender.queue(0, 10).unwrap();
        sender.next_packet(0).unwrap();
        let first_ns = sender.poll_timeout().unwrap();
        assert!((800 * US..1_600 * US).contains(&first_ns), "{first_ns}");
        let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(10 * US));
        sender.set_pace(0, Pace { rtt, backlog_ns: 0, ..Pace::default() });
        assert_eq!(sender.poll_timeout(), Some(200 * US));
    }
    for timer_granularity_ns in [0, 999, 25_000_001] {
        let refused = Sender::new(SenderConfig { timer_granularity_ns, ..config() }).unwrap_err();
        assert_eq!(refused, ConfigError::TimerGranularity(timer_granularity_ns));
    }
}

#[test]
fn loss__without_a_wrong_one_for_long_narrows_the_margin_again() {
    let mut sender = with_messages(30, 10);
    let packets = send_all(&mut sender, 0);
    ack(&mut sender, 100, &packets[8]);
    ack(&mut sender, 100, &packets[0]);
    // 15 later is not enough now...
    ack(&mut sender, 200, &packets[16]);
    assert_eq!((sender.report().packets_lost_wrongly, sender.report().packets_lost), (1, 1));
    // ...but 8 later is, sixteen round trips of a millisecond after the wrong loss.
    ack(&mut sender, 17 * MS, &packets[17]);
    ack(&mut sender, 17 * MS, &packets[18]);
    assert!(sender.report().packets_lost > 8, "{:?}", sender.report());
}

#[test]
fn loss__proved_wrong_is_taken_back_and_widens_the_margin() {
    let mut sender = with_messages(30, 10);
    let packets = send_all(&mut sender, 0);
    ack(&mut sender, 100, &packets[8]);
    ack(&mut sender, 100, &packets[0]);
    assert_eq!(sender.report().packets_lost_wrongly, 1);
    assert_eq!(sender.next_packet(100), None);
    ack(&mut sender, 100, &packets[16]);
    assert_eq!(sender.report().packets_lost, 1);
    ack(&mut sender, 100, &packets[17]);
    assert_eq!(sender.report().packets_lost, 2);
}

#[test]
fn lost__counts_messages_tried_in_full_and_no_others() {
    let mut sender = with_messages(2, 20);
    let lost = |sender: &Sender| sender.progress(0).unwrap().lost;
    let packets = send_all(&mut sender, 0);
    ack(&mut sender, MS, &packets[0]);
    sender.handle_timeout(10 * MS);
    assert_eq!(lost(&sender), 2);
    // A message with a retransmission in flight doesn't count as lost. MRDF chooses the message
    // with less left.
    let again = sender.next_packet(10 * MS).unwrap();
    assert_eq!((again.message, again.header.index()), (packets[1].message, 1));
    assert_eq!(lost(&sender), 1);
    ack(&mut sender, 11 * MS, &again);
    assert_eq!(lost(&sender), 1);
}

#[test]
fn receipt__releases_messages_and_retransmits_those_the_application_never_got() {
    let mut sender = with_messages(3, 10);
    let packets = send_all(&mut sender, 0);
    for packet in &packets[..2] {
        ack(&mut sender, MS, packet);
    }
    // Slot 2 was sent before message 1 was acknowledged in full: no proof.
    sender.on_packet(2 * MS, &receipt(1, 2, 0b101)).unwrap();
    assert_eq!(sender.released().map(|id| id.id).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(sender.report().messages_retransmitted, 0);
    sender.queue(0, 10).unwrap();
    let later = sender.next_packet(2 * MS).unwrap();
    assert_eq!(later.header.slot(), 3);
    // The library has read a later packet, and has named all of its messages.
    sender.on_packet(3 * MS, &receipt(2, 3, 0b1101)).unwrap();
    assert_eq!(sender.report().messages_retransmitted, 1);
    let again = sender.next_packet(3 * MS).unwrap();
    assert_eq!((again.message, again.header.slot()), (id(1), 4));
    // The old acknowledgment, repeated, doesn't count for the new attempt.
    ack(&mut sender, 3 * MS, &packets[1]);
    assert_eq!(sender.windows.current.groups[0].awaiting_receipt, 0);
}

#[test]
fn receipt__that_is_old_proves_nothing() {
    let mut sender = with_messages(1, 10);
    let packet = sender.next_packet(0).unwrap();
    ack(&mut sender, MS, &packet);
    sender.queue(0, 10).unwrap();
    sender.next_packet(MS).unwrap();
    sender.on_packet(2 * MS, &receipt(5, 0, 0)).unwrap();
    sender.on_packet(2 * MS, &receipt(4, 1, 0)).unwrap();
    assert_eq!(sender.report().messages_retransmitted, 0);
}

#[test]
fn end__fin_is_sent_once_the_host_has_enough_and_its_answer_ends_the_job() {
    let mut sender = with_messages(1, 10);
    let packet = sender.next_packet(0).unwrap();
    ack(&mut sender, MS, &packet);
    assert_eq!(control(&mut sender, MS), None);
    sender.finish();
    let fin = control(&mut sender, MS).unwrap();
    assert_eq!(control(&mut sender, MS), None);
    assert_eq!(sender.poll_timeout(), Some(11 * MS));
    // The message was lost in the receiver's buffer, and the sender continues.
    sender.on_packet(2 * MS, &fin_ack(&fin, 0)).unwrap();
    assert_eq!(*sender.state(), State::Finishing);
    let again = sender.next_packet(2 * MS).unwrap();
    ack(&mut sender, 3 * MS, &again);
    let fin = control(&mut sender, 11 * MS).unwrap();
    sender.on_packet(12 * MS, &fin_ack(&fin, 1)).unwrap();
    assert_eq!(*sender.state(), State::Done);
    assert_eq!(sender.report().groups[0].delivered, 1);
    assert_eq!((sender.poll_timeout(), sender.next_packet(12 * MS)), (None, None));
    assert!(sender.released().eq([id(0)]));
    // The receiver learns that the sender knows, twice, and answers neither.
    for _ in 0..2 {
        let (known, _) = Header::parse(&control(&mut sender, 12 * MS).unwrap()).unwrap();
        assert_eq!((known.flags(), known.index()), (Flags::ENDED, 2));
    }
    assert_eq!(control(&mut sender, 200 * MS), None);
}

#[test]
fn end__comes_before_all_is_queued_if_the_total_is_known() {
    let msr = Msr::from_parts_per_billion(500_000_000).unwrap();
    let groups = vec![GroupConfig { total: Some(4), ..GroupConfig::new(0, msr) }];
    let mut sender = sender(SenderConfig { groups, ..config() });
    for _ in 0..2 {
        sender.queue(0, 10).unwrap();
    }
    for packet in send_all(&mut sender, 0) {
        ack(&mut sender, MS, &packet);
    }
    let fin = control(&mut sender, MS).unwrap();
    let counts = FinBody::parse(&fin[HEADER_LEN..]).unwrap().groups().next().unwrap();
    assert_eq!((counts.messages, counts.needed), (4, 2));
    assert_eq!(sender.queue(0, 10), Err(QueueError::Complete));
    sender.finish();
    assert_eq!(sender.report().groups[0].messages, 4);
}

#[test]
fn queue__refuses_with_the_reason() {
    let groups = vec![GroupConfig { total: Some(3), ..GroupConfig::new(0, Msr::EXACT) }];
    let limits = SenderConfig { buffer_messages_max: 2, buffer_bytes_max: 100, groups, ..config() };
    let mut sender = sender(limits);
    let too_large = QueueError::TooLarge { len_bytes: 101, len_bytes_max: 100 };
    assert_eq!(sender.queue(0, 101), Err(too_large));
    assert_eq!(sender.queue(9, 1), Err(QueueError::UnknownGroup(9)));
    sender.queue(0, 60).unwrap();
    assert_eq!(sender.queue(0, 60), Err(QueueError::Full));
    sender.queue(0, 0).unwrap();
    assert_eq!(sender.queue(0, 0), Err(QueueError::Full));
    for packet in send_all(&mut sender, 0) {
        ack(&mut sender, 1, &packet);
    }
    sender.on_packet(1, &receipt(1, 0, 0b11)).unwrap();
    sender.queue(0, 0).unwrap();
    assert_eq!(sender.queue(0, 0), Err(QueueError::TooMany(3)));
    sender.finish();
    assert_eq!(sender.queue(0, 0), Err(QueueError::AfterFinish));
}

#[test]
fn reset__fails_with_the_reason_if_it_has_the_cookie() {
    let mut sender = with_messages(2, 10);
    let reset = Fields { epoch: ResetReason::NotWanted as u16, ..fields(Kind::Reset) };
    let forged = Header::new(&Fields { cookie: 3, ..reset });
    assert_eq!(sender.on_packet(0, forged.as_bytes()), Err(PacketRefused::Foreign));
    sender.on_packet(0, Header::new(&reset).as_bytes()).unwrap();
    let State::Failed(error) = sender.state() else { panic!("{:?}", sender.state()) };
    let reason = ResetReason::NotWanted.explain();
    let text = format!("{reason}: group 0 has 0 of 2 messages that it needs");
    assert_eq!(error.to_string(), text);
    assert_eq!(sender.queue(0, 1), Err(QueueError::Failed));
}

#[test]
fn silence__is_only_called_after_sending_again() {
    let mut sender = with_messages(1, 10);
    sender.next_packet(0).unwrap();
    // The caller was absent for a minute: the peer gets another chance.
    sender.handle_timeout(60_000 * MS);
    assert_eq!(*sender.state(), State::Open);
    let mut now_ns = 60_000 * MS;
    while *sender.state() == State::Open {
        sender.next_packet(now_ns);
        now_ns = sender.poll_timeout().unwrap();
        sender.handle_timeout(now_ns);
    }
    let State::Failed(SendError::PeerSilent { silence_ns, short }) = sender.state() else {
        panic!("{:?}", sender.state())
    };
    assert_eq!(*silence_ns, now_ns - 60_000 * MS);
    assert_eq!(*short, [Short { group: 0, delivered: 0, needed: 1 }]);
}

// The socket has room for a packet now and then, and none for TERMS: they stay due all the time.
#[test]
fn silence__counts_while_a_due_packet_can_not_leave() {
    let terms = SenderConfig { announce_terms: true, ..config() };
    let mut sender = sender(terms);
    sender.queue(0, 10).unwrap();
    let mut ms = 0;
    while *sender.state() == State::Open {
        sender.next_packet(ms * MS);
        if sender.poll_timeout().is_some_and(|due_ns| due_ns <= ms * MS) {
            sender.handle_timeout(ms * MS);
        }
        ms += 1;
        assert!(ms < 60_000, "{:?}", sender.poll_timeout());
    }
    let State::Failed(SendError::PeerSilent { silence_ns, .. }) = sender.state() else {
        panic!("{:?}", sender.state())
    };
    assert_eq!(*silence_ns, (ms - 1) * MS);
}

proptest! {
    // A packet with the right job and cookie may still be a lie.
    #[test]
    fn on_packet__survives_anything(
        steps in proptest::collection::vec(
            (1u8..8, any::<[u8; 20]>(), proptest::collection::vec(any::<u8>(), 0..80), any::<bool>()), 1..80),
        number in 1u32..40,
    ) {
        let mut sender = with_messages(number, 25);
        let mut now_ns = 0;
        for (kind, bytes, body, small) in steps {
            now_ns += 3 * MS;
            send_all(&mut sender, now_ns);
            sender.finish();
            control(&mut sender, now_ns);
            // Magic, version and kind, flags, group, job and cookie are right; the rest is noise.
            let mut packet = vec![0xa7, 0x10 | kind, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
            // Small numbers are the dangerous ones.
            packet.extend(bytes.map(|byte| if small { byte & 1 } else { byte }));
            packet.extend(body.iter().map(|byte| if small { byte & 1 } else { *byte }));
            let _ = sender.on_packet(now_ns, &packet);
            sender.handle_timeout(now_ns);
            let group = sender.report().groups[0];
            prop_assert!(group.delivered + group.lost <= group.messages);
            prop_assert!(sender.in_flight() <= 64);
        }
    }
}

proptest! {
    // Taking packets together or one by one gives the same packets, with the same consequences.
    #[test]
    fn next_packets__are_those_that_come_one_by_one(
        steps in proptest::collection::vec((0u8..5, 1u32..60, 1usize..12), 1..80),
        mrdf: bool,
    ) {
        let config = SenderConfig { mrdf, ack_ring_words: 64, ..config() };
        let (mut one_by_one, mut together) = (sender(config.clone()), sender(config));
        let mut in_flight = Vec::new();
        for (now_ns, (action, len_bytes, number)) in (0..).map(|step| step * MS / 4).zip(steps) {
            match action {
                0 | 1 => {
                    prop_assert_eq!(one_by_one.queue(0, len_bytes), together.queue(0, len_bytes));
                }
                2 => {
                    let mut packets = Vec::new();
                    together.next_packets(now_ns, number, &mut packets);
                    let expected: Vec<_> =
                        (0..number).map_while(|_| one_by_one.next_packet(now_ns)).collect();
                    prop_assert_eq!(&packets, &expected);
                    in_flight.extend(packets);
                }
                // Some are lost, as the acknowledgments of the others show.
                _ => {
                    let acked = in_flight.split_off(in_flight.len() - number.min(in_flight.len()));
                    for packet in acked.iter().filter(|packet| packet.header.slot() % 3 > 0) {
                        ack(&mut one_by_one, now_ns, packet);
                        ack(&mut together, now_ns, packet);
                    }
                }
            }
            prop_assert_eq!(one_by_one.report(), together.report());
            prop_assert_eq!(one_by_one.poll_timeout(), together.poll_timeout());
        }
    }

    // Taking in acknowledgments together or one by one makes no difference.
    #[test]
    fn scan_acks__is_every_acknowledgment_by_itself(
        lens in proptest::collection::vec(1u32..60, 1..30),
        acked in proptest::collection::vec((0usize..150, 1usize..20), 1..30),
    ) {
        let config = SenderConfig { ack_ring_words: 64, ..config() };
        let (mut by_itself, mut together) = (sender(config.clone()), sender(config));
        let mut packets = Vec::new();
        for len_bytes in lens {
            by_itself.queue(0, len_bytes).unwrap();
            together.queue(0, len_bytes).unwrap();
        }
        let ring = Ring(std::cell::RefCell::new(vec![0; 64]));
        for (now_ns, (start, number)) in (0..).map(|step| step * MS / 8).zip(acked) {
            packets.extend(send_all(&mut by_itself, now_ns));
            send_all(&mut together, now_ns);
            for packet in packets.iter().skip(start).take(number) {
                let slot = packet.header.slot();
                let word = &mut ring.0.borrow_mut()[ack_ring::position(slot, 64) as usize];
                if let Some(next) = ack_ring::acknowledged(*word, slot) {
                    *word = next;
                    by_itself.acknowledge(now_ns, slot);
                }
            }
            by_itself.detect_losses(now_ns);
            together.scan_acks(now_ns, &ring);
            together.detect_losses(now_ns);
            prop_assert_eq!(by_itself.report(), together.report());
            prop_assert_eq!(by_itself.poll_timeout(), together.poll_timeout());
        }
    }
}

struct Ring(std::cell::RefCell<Vec<u64>>);

impl AckRing for Ring {
    fn word(&self, position: u32) -> u64 {
        self.0.borrow()[position as usize]
    }
}

/// "No room" is an invitation to come back, and only whoever saw the job's packets can send it.
#[test]
fn reset__no_room_pauses_the_sender() {
    const MS: u64 = 1_000_000;
    let mut sender = with_messages(3, 10);
    let reset = Fields { epoch: ResetReason::NoRoom as u16, ..fields(Kind::Reset) };
    let reset_of = |slot| Header::new(&Fields { slot, ..reset });
    let never_sent = sender.on_packet(0, reset_of(0).as_bytes());
    assert_eq!(never_sent, Err(PacketRefused::Impossible));
    sender.next_packet(0).unwrap();
    let forged = Header::new(&Fields { cookie: 3, ..reset });
    assert_eq!(sender.on_packet(0, forged.as_bytes()), Err(PacketRefused::Foreign));
    assert!(sender.next_packet(0).is_some());
    sender.on_packet(0, reset_of(0).as_bytes()).unwrap();
    assert!(sender.next_packet(49 * MS).is_none());
    let wakes_ns = (0..200).map(|ms| ms * MS).find(|now_ns| {
        sender.handle_timeout(*now_ns);
        sender.next_packet(*now_ns).is_some()
    });
    assert!((50 * MS..63 * MS).contains(&wakes_ns.unwrap()), "{wakes_ns:?}");
    assert_eq!(sender.report().refusals, 1);
}
