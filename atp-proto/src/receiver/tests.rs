//! Tests the receiver alone, step by step. Complete jobs are in `tests/two_hosts.rs`.

use super::*;
use atp_common::wire::{Advice, Features, Fields, FinBody, FinGroup, Kind};
use proptest::prelude::*;

fn header(message: u32, count: u32, index: u32, slot: u32) -> Header {
    flagged(Flags::NONE, message, count, index, slot)
}

fn flagged(flags: Flags, message: u32, count: u32, index: u32, slot: u32) -> Header {
    Header::new(&Fields { flags, message, index, count, slot, ..FIELDS })
}

const FIELDS: Fields = Fields { job: 1, cookie: 2, count: 1, ..Fields::of(Kind::Data) };

fn receiver() -> Receiver {
    let config =
        ReceiverConfig { message_bytes_max: 100, messages_max: 1_000, ..Default::default() };
    Receiver::new(config, 0, &header(0, 1, 0, 0))
}

fn fin(receiver: &mut Receiver, messages: u32, needed: u32, delivered: u32) -> Option<u32> {
    let group = FinGroup { group: 0, messages, needed, delivered };
    let mut body = [0; 20];
    FinBody::write(&mut body, 0, &[group]).unwrap();
    let mut out = [0; 52];
    let header = header(messages, 1, 0, 9);
    let len = receiver.on_fin(5, &header, &FinBody::parse(&body).unwrap(), &mut out);
    let (answer, kind) = Header::parse(&out[..len]).ok()?;
    assert_eq!((kind, answer.slot(), answer.message()), (Kind::FinAck, 9, messages));
    FinBody::parse(&out[HEADER_LEN..len]).unwrap().groups().next().map(|g| g.delivered)
}

#[test]
fn on_data__delivers_once_and_drops_strangers() {
    let mut receiver = receiver();
    assert_eq!(receiver.on_data(0, &header(3, 1, 0, 0), &[1, 2]), Outcome::Complete);
    let message = Message { window: 0, group: 0, message: 3, data: vec![1, 2] };
    assert_eq!((receiver.next_message(), receiver.next_message()), (Some(message), None));
    assert_eq!(receiver.on_data(0, &header(3, 1, 0, 1), &[1, 2]), Outcome::Duplicate);
    let mut other = Receiver::new(ReceiverConfig::default(), 0, &header(0, 1, 0, 0));
    other.cookie = 99;
    let dropped = Outcome::Dropped(DropReason::Foreign);
    assert_eq!(other.on_data(0, &header(3, 1, 0, 0), &[1]), dropped);
    assert_eq!(fin(&mut other, 1, 0, 0), None);
}

#[test]
fn on_data__refuses_beyond_its_limits() {
    let mut receiver = receiver();
    let too_large = Outcome::Refused(ResetReason::TooLarge);
    assert_eq!(receiver.on_data(0, &header(0, 1, 0, 0), &[0; 101]), too_large);
    let too_many = Outcome::Refused(ResetReason::TooMany);
    assert_eq!(receiver.on_data(0, &header(1_000, 1, 0, 0), &[0]), too_many);
}

#[test]
fn on_data__tells_the_sender_of_repeated_contradictions_only() {
    let mut receiver = receiver();
    assert_eq!(receiver.on_data(0, &header(0, 3, 0, 0), &[1, 1]), Outcome::Incomplete);
    for _ in 0..16 {
        let dropped = Outcome::Dropped(DropReason::Contradiction);
        assert_eq!(receiver.on_data(0, &header(0, 4, 1, 0), &[2, 2]), dropped);
    }
    let refused = Outcome::Refused(ResetReason::Inconsistent);
    assert_eq!(receiver.on_data(0, &header(0, 1, 0, 0), &[2, 2]), refused);
    assert_eq!(receiver.on_data(0, &header(0, 3, 1, 0), &[2, 2]), Outcome::Incomplete);
    assert_eq!(receiver.on_data(0, &header(0, 3, 2, 0), &[3]), Outcome::Complete);
    assert_eq!(receiver.next_message().unwrap().data, [1, 1, 2, 2, 3]);
}

#[test]
fn on_fin__ends_the_job_only_once_enough_is_here() {
    let mut receiver = receiver();
    receiver.on_data(0, &header(0, 1, 0, 0), &[1]);
    assert_eq!(fin(&mut receiver, 4, 2, 0), Some(1));
    assert!(receiver.take_summary().is_none() && receiver.receipt_due(5));
    receiver.on_data(0, &header(2, 1, 0, 0), &[1]);
    assert_eq!(fin(&mut receiver, 4, 2, 2), Some(2));
    let summary = receiver.take_summary().unwrap();
    let group = &summary.groups[0];
    assert_eq!((group.messages, group.delivered, &group.lost[..]), (4, 2, &[1..2, 3..4][..]));
    assert!(!summary.forced && !summary.more && receiver.take_summary().is_none());
    let late = receiver.on_data(6, &header(1, 1, 0, 0), &[1]);
    assert_eq!(late, Outcome::Dropped(DropReason::Ended));
    assert_eq!(fin(&mut receiver, 4, 2, 2), Some(2));
    assert!(!receiver.expired(5_000_000_004) && receiver.expired(5_000_000_005));
}

#[test]
fn on_fin__that_says_that_the_sender_knows_gets_no_answer() {
    let mut receiver = receiver();
    receiver.on_data(0, &header(0, 1, 0, 0), &[1]);
    let known = |receiver: &mut Receiver| {
        let group = FinGroup { group: 0, messages: 1, needed: 1, delivered: 1 };
        let (mut body, mut out) = ([0; 20], [0; 52]);
        FinBody::write(&mut body, 0, &[group]).unwrap();
        let header = flagged(Flags::ENDED, 1, 1, 0, 9);
        receiver.on_fin(7, &header, &FinBody::parse(&body).unwrap(), &mut out)
    };
    // Before the end it says nothing.
    assert_eq!((known(&mut receiver), receiver.is_finished()), (0, false));
    assert_eq!(receiver.stats().packets_refused, 1);
    assert_eq!(receiver.unknown_end_age_ns(9), None);
    assert_eq!(fin(&mut receiver, 1, 1, 1), Some(1));
    assert_eq!(receiver.unknown_end_age_ns(9), Some(4));
    assert_eq!(known(&mut receiver), 0);
    assert_eq!((receiver.unknown_end_age_ns(9), receiver.is_finished()), (None, true));
}

#[test]
fn on_fin__without_a_message_is_an_end_too() {
    let mut receiver = receiver();
    assert_eq!(fin(&mut receiver, 0, 0, 0), Some(0));
    assert!(receiver.is_finished());
    // An N above the limit is refused.
    assert_eq!(fin(&mut receiver, 1_001, 0, 0), None);
}

/// A forged source address makes this receiver send at most three times the received bytes.
#[test]
fn write_receipt__is_no_amplifier() {
    let mut receiver = receiver();
    let (mut came_bytes, mut went_bytes) = (0, 0);
    // As many words of the bitmap as a receipt can name, then FINs that know of no message.
    for message in (0..1_000).step_by(64) {
        receiver.on_data(0, &header(message, 1, 0, 0), &[1]);
        came_bytes += HEADER_LEN + 1;
    }
    let mut out = [0; 1_500];
    for attempt in 0..200 {
        fin(&mut receiver, 1_000, 1_000, 0);
        (came_bytes, went_bytes) = (came_bytes + 52, went_bytes + 52);
        while receiver.receipt_due(5 + attempt) {
            let len = receiver.write_receipt(5 + attempt, &mut out);
            assert!(len > 0, "due, and not written");
            went_bytes += len;
        }
    }
    assert!(went_bytes <= 3 * came_bytes, "{went_bytes} bytes for {came_bytes}");
}

/// Found by fuzzing. A window can begin without an end of the one before, for a receiver that
/// joined in the middle. Complete messages that waited for earlier ones were never handed over.
#[test]
fn on_data__of_another_window_hands_over_held_messages() {
    let mut receiver = receiver();
    let data = |flags: Flags, message: u32, slot: u32| {
        let fields = Fields { flags, message, slot, ..FIELDS };
        Header::new(&fields)
    };
    let waits = data(Flags::ORDERED, 3, 1);
    assert_eq!(receiver.on_data(0, &waits, &[9]), Outcome::Complete);
    assert_eq!(receiver.next_message(), None);
    let next = data(Flags::ORDERED, 0, 2).with_window(1);
    assert_eq!(receiver.on_data(0, &next, &[8]), Outcome::Complete);
    // Windows end in order: a FIN of the second one says that the first has ended.
    assert!(fin_of_window(&mut receiver, 1, 1, 3));
    let late = receiver.on_data(0, &data(Flags::ORDERED, 0, 2), &[7]);
    assert_eq!(late, Outcome::Dropped(DropReason::Ended));
    let handed_over = std::iter::from_fn(|| receiver.next_message());
    let handed_over: Vec<_> = handed_over.map(|m| (m.window, m.message, m.data[0])).collect();
    assert_eq!(handed_over, [(1, 0, 8), (0, 3, 9)]);
}

/// A delayed FIN must not make earlier messages new.
#[test]
fn on_fin__of_a_window_before_changes_nothing() {
    let mut receiver = receiver();
    let fields = Fields { slot: 20, ..FIELDS };
    let second = Header::new(&fields).with_window(2);
    assert_eq!(receiver.on_data(0, &second, &[1]), Outcome::Complete);
    // A FIN of window 0, with a slot before the packet's.
    assert_eq!(fin(&mut receiver, 1, 0, 0), None);
    let again = Header::new(&Fields { slot: 21, ..fields }).with_window(2);
    assert_eq!(receiver.on_data(0, &again, &[1]), Outcome::Duplicate);
}

/// Held messages can't be dropped, but the message that they wait for has room.
#[test]
fn on_data__held_messages_never_block_the_one_they_wait_for() {
    let config = ReceiverConfig {
        message_bytes_max: 1_000,
        messages_max: 100_000,
        incomplete_bytes_max: 0,
        ..Default::default()
    };
    let ordered = |message, count, index| flagged(Flags::ORDERED, message, count, index, 0);
    let mut receiver = Receiver::new(config, 0, &ordered(0, 2, 0));
    let mut full = false;
    for message in 1..50_000 {
        let outcome = receiver.on_data(0, &ordered(message, 1, 0), &[7; 1_000]);
        full = outcome == Outcome::Dropped(DropReason::NoRoom);
        if full {
            break;
        }
        assert_eq!(outcome, Outcome::Complete);
    }
    assert!(full, "there is no bound");
    assert_eq!(receiver.on_data(0, &ordered(0, 2, 0), &[1; 500]), Outcome::Incomplete);
    assert_eq!(receiver.on_data(0, &ordered(0, 2, 1), &[2; 500]), Outcome::Complete);
    assert_eq!(receiver.next_message().map(|message| message.message), Some(0));
    assert_eq!(receiver.next_message().map(|message| message.message), Some(1));
}

/// Two senders at different addresses share a budget in which one long message fits at a time.
#[test]
fn on_data__a_full_budget_refuses_until_another_sender_frees_it() {
    const MS: u64 = 1_000_000;
    let config = ReceiverConfig { message_bytes_max: 1_000_000, ..Default::default() };
    let budget = Budget::new(2_000_000);
    let first = header(0, 700, 0, 0);
    let new = || Receiver::with_share(config, 0, &first, Some(budget.share()));
    let (mut one, mut other) = (new(), new());
    let packet = |receiver: &mut Receiver, now_ns, message| {
        receiver.on_data(now_ns, &header(message, 700, 0, message), &[1; 1_000])
    };
    assert_eq!(packet(&mut one, 0, 0), Outcome::Incomplete);
    assert!((700_000..750_000).contains(&budget.bytes()), "{}", budget.bytes());
    let no_room = Outcome::Refused(ResetReason::NoRoom);
    // One address has its half, and the other's message doesn't fit beside a second message.
    assert_eq!(packet(&mut one, 0, 1), no_room);
    assert_eq!(packet(&mut other, 0, 0), Outcome::Incomplete);
    assert_eq!(packet(&mut other, 0, 1), no_room);
    // A short message needs no more than a record, for which there is room.
    assert_eq!(other.on_data(0, &header(2, 1, 0, 2), &[1]), Outcome::Complete);
    assert_eq!(packet(&mut one, 99 * MS, 1), no_room);
    // Only abandoned messages make room for another sender.
    other.drop_abandoned(99 * MS);
    assert_eq!(packet(&mut one, 99 * MS, 1), no_room);
    other.drop_abandoned(100 * MS);
    assert_eq!(other.stats().messages_evicted, 1);
    assert!(budget.bytes() < 750_000, "{}", budget.bytes());
    drop((one, other));
    assert_eq!(budget.bytes(), 0);
}

proptest! {
    // Complete messages at once or packet by packet have the same result.
    #[test]
    fn on_complete__is_all_packets_one_by_one(
        messages in proptest::collection::vec(
            (0u32..40, 1u32..6, proptest::option::weighted(0.3, 0u32..6), any::<bool>()), 1..100),
        ordered: bool,
    ) {
        let (mut one_by_one, mut at_once) = (receiver(), receiver());
        let (mut slot, mut out) = (0, [[0; 1_196]; 2]);
        let flags = if ordered { Flags::ORDERED } else { Flags::NONE };
        for (now_ns, (message, count, missing, odd)) in (0..).zip(messages) {
            let window = u32::from(odd && slot > 300);
            let header =
                |index| flagged(flags, message, count, index, slot + index).with_window(window);
            let data: Vec<u8> = (0..count as u8 * 2).collect();
            let arrived = || (0..count).filter(|index| Some(*index) != missing);
            for index in arrived() {
                let at = 2 * index as usize;
                one_by_one.on_data(now_ns, &header(index), &data[at..at + 2]);
            }
            if arrived().count() as u32 == count && at_once.accepts_complete(&header(0), data.len()) {
                at_once.on_complete(now_ns, &header(0), data);
            } else {
                for index in arrived() {
                    let at = 2 * index as usize;
                    at_once.on_data(now_ns, &header(index), &data[at..at + 2]);
                }
            }
            slot += count;
            prop_assert_eq!(one_by_one.stats(), at_once.stats());
            prop_assert_eq!(one_by_one.poll_timeout(), at_once.poll_timeout());
            loop {
                let next = one_by_one.next_message();
                prop_assert_eq!(&next, &at_once.next_message());
                if next.is_none() {
                    break;
                }
            }
            let lens = [one_by_one.write_receipt(now_ns, &mut out[0]), at_once.write_receipt(now_ns, &mut out[1])];
            prop_assert_eq!(&out[0][..lens[0]], &out[1][..lens[1]]);
        }
    }
}

#[test]
fn write_receipt__announces_and_gives_advice() {
    const PLAIN: Features =
        Features::PACKED.with(Features::TERMS).with(Features::OVERLAP).with(Features::ORDER);
    const ADVICE: u16 = PLAIN.with(Features::ADVICE).bits();
    let receipt = |receiver: &mut Receiver| {
        let mut out = [0; 100];
        // Receipts may have three times the bytes that came.
        receiver.note_packet(4, &Header::new(&FIELDS), 200);
        let len = receiver.write_receipt(5, &mut out);
        let (header, kind) = Header::parse(&out[..len]).unwrap();
        assert_eq!(kind, Kind::Receipt);
        (header.group(), header.epoch(), Advice::from_wire(header.message()))
    };
    let mut plain = receiver();
    plain.on_data(0, &header(0, 1, 0, 0), &[1; 50]);
    assert_eq!(receipt(&mut plain), (0, PLAIN.bits(), Advice::NONE));
    let config = ReceiverConfig { gives_advice: true, ..plain.config };
    let in_group = |group, message, count| {
        let fields = Fields { group, message, count, ..FIELDS };
        Header::new(&fields)
    };
    let mut receiver = Receiver::new(config, 0, &in_group(9, 0, 2));
    // No message is complete.
    receiver.on_data(0, &in_group(9, 0, 2), &[1; 50]);
    assert_eq!(receipt(&mut receiver), (0, ADVICE, Advice::NONE));
    receiver.set_advice(9, Advice::of(6_400));
    assert_eq!(receipt(&mut receiver), (9, ADVICE, Advice::of(6_400)));
    // Each receipt advises the lane of the group that it names.
    receiver.on_data(0, &in_group(9, 1, 1), &[1; 50]);
    receiver.on_data(0, &in_group(4, 0, 1), &[1; 50]);
    let mut advised = std::array::from_fn::<_, 4, _>(|_| receipt(&mut receiver));
    advised.sort_unstable();
    let (of_four, of_nine) = ((4, ADVICE, Advice::NONE), (9, ADVICE, Advice::of(6_400)));
    assert_eq!(advised, [of_four, of_four, of_nine, of_nine]);
    // A lane without a complete message gets its advice too.
    receiver.on_data(0, &in_group(7, 0, 2), &[1; 50]);
    receiver.set_advice(7, Advice::of(640));
    assert!((0..2).any(|_| receipt(&mut receiver) == (7, ADVICE, Advice::of(640))));
    assert!((0..4).all(|_| receipt(&mut receiver).0 != 7), "it is named although it knows");
    receiver.set_advice(9, Advice::NONE);
    receiver.set_advice(7, Advice::NONE);
    let cleared = std::array::from_fn::<_, 4, _>(|_| receipt(&mut receiver));
    assert!(cleared.iter().all(|(_, _, advice)| *advice == Advice::NONE));
}

#[test]
fn spend__is_bounded_by_three_times_the_received_bytes() {
    let mut receiver = receiver();
    receiver.on_data(0, &header(0, 1, 0, 0), &[1; 68]);
    // 100 bytes with the header.
    assert!(receiver.spend(200) && !receiver.spend(101) && receiver.spend(100));
    assert!(!receiver.spend(1) && receiver.spend(0));
}

/// DATA of a window of a job that has several.
fn of_window(window: u32, message: u32, slot: u32) -> Header {
    header(message, 1, 0, slot).with_window(window)
}

/// A FIN of one group that ends a window after all its messages; another window follows. Returns
/// whether it was answered.
fn fin_of_window(receiver: &mut Receiver, window: u32, messages: u32, slot: u32) -> bool {
    let group = FinGroup { group: 0, messages, needed: messages, delivered: messages };
    let mut body = [0; 20];
    FinBody::write(&mut body, window, &[group]).unwrap();
    let fin = Header::new(&Fields {
        kind: Kind::Fin,
        flags: Flags::MORE,
        message: messages,
        index: window,
        slot,
        ..FIELDS
    });
    receiver.on_fin(0, &fin, &FinBody::parse(&body).unwrap(), &mut [0; 52]) > 0
}

/// A receiver at window 101, after 100 windows of two messages. Window 100 is open too. Window `w`
/// has the slots from `3 * w`, the last of them of its FIN.
fn receiver_after_100_windows() -> Receiver {
    let mut receiver = receiver();
    for window in 0..100 {
        for message in 0..2 {
            let data = of_window(window, message, 3 * window + message);
            assert_eq!(receiver.on_data(0, &data, &[1]), Outcome::Complete);
        }
        assert!(fin_of_window(&mut receiver, window, 2, 3 * window + 2));
    }
    assert_eq!(receiver.on_data(0, &of_window(100, 0, 300), &[1]), Outcome::Complete);
    assert_eq!(receiver.on_data(0, &of_window(101, 0, 301), &[1]), Outcome::Complete);
    while receiver.next_message().is_some() {}
    receiver
}

#[test]
fn on_data__of_overlapping_windows_drops_any_packet_of_an_ended_window() {
    for old in 0..100 {
        let mut receiver = receiver_after_100_windows();
        // Its number modulo 64 may be that of a later window, or of an open one.
        let outcome = receiver.on_data(0, &of_window(old, 1, 3 * old + 1), &[2]);
        assert_eq!(outcome, Outcome::Dropped(DropReason::Ended), "a packet of window {old}");
        assert_eq!((receiver.next_message(), receiver.window()), (None, 101));
        let second = of_window(100, 1, 302);
        assert_eq!(receiver.on_data(0, &second, &[1]), Outcome::Complete);
        assert!(fin_of_window(&mut receiver, 100, 2, 303), "after a packet of window {old}");
    }
}

#[test]
fn on_data__of_overlapping_windows_begins_no_window_that_cannot_follow() {
    for ahead in 1..64 {
        let mut receiver = receiver_after_100_windows();
        receiver.on_data(0, &of_window(101 + ahead, 0, 310), &[2]);
        // Only window 102 may follow: window 101 has not ended. 63 ahead is window 100's number.
        assert_eq!(receiver.window(), if ahead == 1 { 102 } else { 101 }, "{ahead} ahead");
    }
    let mut receiver = receiver_after_100_windows();
    let too_many = of_window(102, 1_000, 310);
    assert_eq!(receiver.on_data(0, &too_many, &[2]), Outcome::Dropped(DropReason::Ended));
    assert_eq!(receiver.window(), 101);
}

#[test]
fn on_fin__of_another_number_renumbers_no_window() {
    let unknown = Outcome::Dropped(DropReason::UnknownWindow);
    // It joins in the middle, at window 130, and knows the number modulo 64.
    let mut receiver = Receiver::new(receiver().config, 0, &of_window(130, 0, 500));
    assert_eq!(receiver.on_data(0, &of_window(130, 0, 500), &[1]), unknown);
    // A FIN that was sent before doesn't tell the number.
    assert!(!fin_of_window(&mut receiver, 66, 0, 250));
    assert_eq!(receiver.on_data(0, &of_window(130, 0, 501), &[1]), unknown);
    // The sender waits for the end of the window before.
    assert!(fin_of_window(&mut receiver, 129, 0, 502));
    assert_eq!(receiver.window(), 130);
    let late = Outcome::Dropped(DropReason::Ended);
    assert_eq!(receiver.on_data(0, &of_window(130, 1, 499), &[1]), late);
    assert_eq!(receiver.on_data(0, &of_window(130, 1, 503), &[1]), Outcome::Complete);
    assert!(!fin_of_window(&mut receiver, 130 + 64, 1, 501), "an old FIN");
    assert_eq!(receiver.window(), 130);
    assert!(fin_of_window(&mut receiver, 130, 1, 505));
}

/// The first packet of a process may be so old that the job has gone on by many windows.
#[test]
fn on_fin__of_a_later_window_is_joined() {
    let config = receiver().config;
    for (first, present) in [(6, 9), (10, 100), (63, 64), (63, 120), (100, 150), (130, 300)] {
        let mut receiver = Receiver::new(config, 0, &of_window(first, 0, 50));
        // A FIN that needs nothing ends its window, though another process has ended it.
        assert!(fin_of_window(&mut receiver, first, 0, 50));
        let outcome = receiver.on_data(0, &of_window(present, 0, 5_000), &[1]);
        let goes_on = outcome == Outcome::Complete && present == first + 1;
        let unknown = Outcome::Dropped(DropReason::UnknownWindow);
        assert!(goes_on || outcome == unknown, "{outcome:?}: {present} after {first}");
        assert!(receiver.poll_timeout().is_some(), "no receipt brings the terms");
        assert!(fin_of_window(&mut receiver, present, 3, 5_001));
        assert_eq!(receiver.window(), present);
        let next = of_window(present, 1, 5_002);
        assert_eq!(receiver.on_data(0, &next, &[1]), Outcome::Complete);
        let mut messages = std::iter::from_fn(|| receiver.next_message());
        assert!(messages.all(|message| message.window == present));
    }
}

/// A receiver that joins in window `present` gets one packet of an earlier window.
#[test]
fn on_data__of_an_ended_window_is_never_taken_by_a_receiver_that_joins() {
    for present in 0..140_u32 {
        for old in 0..present {
            let slot = |window: u32| 100 * window;
            let mut receiver = Receiver::new(receiver().config, 0, &of_window(present, 7, 0));
            receiver.first_slot = slot(present);
            receiver.on_data(0, &of_window(present, 7, slot(present)), &[1]);
            receiver.on_data(0, &of_window(old, 9, slot(old) + 50), &[2]);
            // Not yet known: the terms or a FIN tell the number.
            fin_of_window(&mut receiver, present, 1_000, slot(present) + 1);
            receiver.on_data(0, &of_window(old, 10, slot(old) + 51), &[2]);
            let real = receiver.on_data(0, &of_window(present, 9, slot(present) + 2), &[1]);
            assert_eq!(real, Outcome::Complete, "{old} in {present}");
            for message in std::iter::from_fn(|| receiver.next_message()) {
                let is_of = if message.data == [1] { present } else { old };
                assert_eq!(message.window, is_of, "{message:?}");
            }
        }
    }
}

/// Found by fuzzing. A FIN of the next window began that window, and DATA opened the one before
/// again, with an empty record.
#[test]
fn on_data__of_a_window_that_was_left_is_dropped() {
    let mut receiver = receiver();
    assert_eq!(receiver.on_data(0, &of_window(5, 0, 50), &[1]), Outcome::Complete);
    assert!(fin_of_window(&mut receiver, 6, 1, 51));
    let again = receiver.on_data(0, &of_window(5, 0, 52), &[1]);
    assert!(matches!(again, Outcome::Dropped(_)) && receiver.window() == 6, "{again:?}");
}

/// A window that ended at a FIN behind later DATA keeps its number.
#[test]
fn on_data__of_another_window_renumbers_no_ended_window() {
    let mut receiver = receiver();
    assert_eq!(receiver.on_data(0, &header(0, 1, 0, 10), &[1]), Outcome::Complete);
    assert!(fin_of_window(&mut receiver, 0, 1, 9));
    assert_eq!(receiver.on_data(0, &of_window(2, 0, 20), &[1]), Outcome::Complete);
    assert_eq!(receiver.window(), 2);
    assert!(fin_of_window(&mut receiver, 1, 0, 21));
}

/// TERMS of a window may overtake DATA of the one before.
#[test]
fn place_of_told__two_windows_ahead_keeps_what_this_process_knows() {
    let mut receiver = receiver();
    assert_eq!(receiver.on_data(0, &of_window(0, 0, 1), &[1]), Outcome::Complete);
    assert!(fin_of_window(&mut receiver, 0, 1, 2));
    assert_eq!(receiver.place_of_told(2, 10), Some(Place::Present));
    assert_eq!(receiver.window(), 2);
    assert_eq!(receiver.on_data(0, &of_window(1, 0, 3), &[1]), Outcome::Complete);
    assert_eq!(receiver.on_data(0, &of_window(2, 0, 9), &[1]), Outcome::Complete);
}

/// A window of more than 2^31 slots goes on, and so do those after it.
#[test]
fn on_data__of_a_window_with_billions_of_slots() {
    let mut receiver = receiver();
    assert_eq!(receiver.on_data(0, &of_window(0, 0, 1), &[1]), Outcome::Complete);
    assert!(fin_of_window(&mut receiver, 0, 1, 2));
    for billions in 0..40u32 {
        let slot = (3 + billions).wrapping_add(billions.wrapping_mul(1_000_000_000));
        let next = of_window(1, billions, slot);
        assert_eq!(receiver.on_data(0, &next, &[1]), Outcome::Complete, "{billions}");
    }
    let last = 43u32.wrapping_add(39u32.wrapping_mul(1_000_000_000));
    assert!(fin_of_window(&mut receiver, 1, 40, last));
    assert_eq!(receiver.on_data(0, &of_window(2, 0, last + 1), &[1]), Outcome::Complete);
}
