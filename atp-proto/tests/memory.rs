//! The memory of receivers and senders.

use atp_common::{
    units::Msr,
    wire::{
        Fields, FinBody, FinGroup, GroupName, Header, Kind, Order, TERMS_GROUPS_MAX,
        TERMS_PAGES_MAX, TermsBody, TermsGroup,
    },
};
use atp_proto::{
    Budget, GroupConfig, Outcome, Receiver, ReceiverConfig, Sender, SenderConfig, Share,
};
use counting_allocator::bytes;
use std::sync::Arc;

const SOURCES: usize = 1_000;
const SOURCE_BYTES_MAX: usize = 10_000;

/// The bytes that this thread holds beyond those of `before`.
fn since(before: isize) -> usize {
    usize::try_from(bytes() - before).unwrap()
}

fn header(kind: Kind, cookie: u32, message: u32, count: u32) -> Header {
    Header::new(&Fields { job: 1, cookie, message, count, ..Fields::of(kind) })
}

/// A receiver of one message of one byte, after everything that a receiver does for a message.
fn claim(cookie: u32, message: u32) -> Receiver {
    let data = header(Kind::Data, cookie, message, 1);
    let mut receiver = Receiver::new(ReceiverConfig::default(), 0, &data);
    let outcome = receiver.on_data(0, &data, &[7]);
    assert!(outcome == Outcome::Complete && receiver.next_message().is_some(), "{outcome:?}");
    assert_eq!(receiver.on_data(1, &data, &[7]), Outcome::Duplicate);
    let mut out = [0; 1_280];
    assert!(receiver.write_receipt(0, &mut out) > 0);
    for now_ns in 1..10 {
        // This writes nothing once three times the received bytes were sent.
        receiver.write_receipt(now_ns, &mut out);
    }
    let ids = message + 1;
    let group = FinGroup { group: 0, messages: ids, needed: 0, delivered: 0 };
    let mut body = [0; 20];
    FinBody::write(&mut body, 0, &[group]).unwrap();
    let body = FinBody::parse(&body).unwrap();
    assert!(receiver.on_fin(20, &header(Kind::Fin, cookie, ids, 1), &body, &mut out) > 0);
    let lost = &receiver.take_summary().unwrap().groups[0].lost;
    assert_eq!(lost.iter().map(|range| range.end - range.start).sum::<u32>(), message);
    receiver
}

#[test]
fn receiver__memory_grows_with_the_packets_not_with_the_claimed_ids() {
    let id_max = ReceiverConfig::default().messages_max - 1;
    let before = bytes();
    let mut receivers = Vec::with_capacity(SOURCES);
    for cookie in 0..SOURCES {
        receivers.push(claim(cookie as u32, id_max));
        let bytes = since(before);
        let bytes_max = (cookie + 1) * SOURCE_BYTES_MAX + SOURCES * size_of::<Receiver>();
        assert!(bytes < bytes_max, "{} sources cost {bytes} bytes", cookie + 1);
    }
    drop(receivers);
}

/// A stranger that sends whatever costs most: single messages far apart in all groups, and first
/// packets of messages that never end. The memory of the process is that of the budget.
#[test]
fn receiver__memory_stays_within_the_budget() {
    const BUDGET_BYTES: u64 = 16 << 20;
    let before = bytes();
    let budget = Budget::new(BUDGET_BYTES);
    let share = budget.share();
    let mut receivers = Vec::new();
    let (mut refused, mut most_bytes) = (0, 0);
    for cookie in 0..8 {
        let first = header(Kind::Data, cookie, 0, 1);
        let share = Some(share.clone());
        let mut receiver = Receiver::with_share(ReceiverConfig::default(), 0, &first, share);
        for n in 0..20_000u32 {
            let fields = |message, count| Fields {
                group: n as u8,
                job: 1,
                cookie,
                message,
                count,
                slot: n,
                ..Fields::of(Kind::Data)
            };
            let far = fields(n / 256 * 65_536, 1);
            let endless = fields(n / 256 * 65_536 + 1, 20);
            for (fields, data) in [(far, &[7; 10][..]), (endless, &[7; 100][..])] {
                let outcome = receiver.on_data(0, &Header::new(&fields), data);
                refused += u32::from(matches!(outcome, Outcome::Refused(_)));
                while receiver.next_message().is_some() {}
            }
            assert!(budget.bytes() <= BUDGET_BYTES);
        }
        receivers.push(receiver);
        most_bytes = most_bytes.max(since(before));
    }
    assert!(refused > 10_000 && budget.bytes() > BUDGET_BYTES / 4, "{refused}, {budget:?}");
    println!("{most_bytes} bytes for {} accounted", budget.bytes());
    // Vectors and tables of keys grow by doubling.
    assert!(most_bytes < BUDGET_BYTES as usize, "{most_bytes} bytes");
    drop(receivers);
    assert_eq!(budget.bytes(), 0);
}

/// A stranger with many runs of a job, each of which tells all terms but the last page. Its address
/// gets half of the records' quarter for them; an honest sender is still told its terms.
#[test]
fn receiver__memory_of_terms_stays_within_the_budget() {
    const BUDGET_BYTES: u64 = 4 << 20;
    let budget = Budget::new(BUDGET_BYTES);
    let start = |cookie, share: &Arc<Share>| {
        let first = header(Kind::Data, cookie, 0, 1);
        let config = ReceiverConfig::default();
        let mut receiver = Receiver::with_share(config, 0, &first, Some(share.clone()));
        assert_eq!(receiver.on_data(0, &first, &[7]), Outcome::Complete);
        receiver
    };
    let share = budget.share();
    let mut receivers: Vec<_> = (0..100).map(|cookie| start(cookie, &share)).collect();
    let (before, accounted_before) = (bytes(), budget.bytes());
    for receiver in &mut receivers {
        tell(receiver, 23);
        assert_eq!(receiver.take_terms(), None);
    }
    let bytes = since(before);
    let accounted = budget.bytes() - accounted_before;
    assert_eq!(accounted, bytes as u64);
    let room = BUDGET_BYTES / 8 - accounted_before;
    assert!((room - 2_000..=room).contains(&accounted), "{accounted} of {room} bytes");
    assert!(receivers.last().unwrap().stats().packets_no_room == 23);

    let mut honest = start(1_000, &budget.share());
    tell(&mut honest, 24);
    assert_eq!(honest.take_terms().unwrap().groups.len(), 256);
    // A repetition of what was dropped is taken once there is room, and nothing leaks.
    let mut last = receivers.pop().unwrap();
    drop(receivers);
    tell(&mut last, 24);
    assert_eq!(last.take_terms().unwrap().groups.len(), 256);
    drop((last, honest));
    assert_eq!(budget.bytes(), 0);
}

/// The first pages of the terms of 256 groups.
fn tell(receiver: &mut Receiver, pages: usize) {
    let groups: Vec<_> = (0..=255).map(terms).collect();
    let mut out = [0; 1_280];
    for (page, groups) in groups.chunks(TERMS_GROUPS_MAX).take(pages).enumerate() {
        let len = TermsBody::write(&mut out, 0, 0, groups.iter().copied()).unwrap();
        let header = Header::new(&Fields {
            group: groups[0].group,
            job: receiver.job(),
            cookie: receiver.cookie(),
            index: 1,
            count: TERMS_PAGES_MAX as u32,
            epoch: page as u16,
            ..Fields::of(Kind::Terms)
        });
        receiver.on_terms(0, &header, &TermsBody::parse(&out[..len]).unwrap());
    }
}

fn terms(group: u8) -> TermsGroup {
    TermsGroup {
        group,
        exact: false,
        messages: None,
        msr: Msr::NONE,
        order: Order::Unknown,
        shortest_first: false,
        name: GroupName::default(),
    }
}

/// The documented memory of a sender, beside the messages' own bytes.
#[test]
fn sender__memory_per_message_and_transmission() {
    const MESSAGES: usize = 40_000;
    let group = |id| GroupConfig::new(id, Msr::from_parts_per_billion(900_000_000).unwrap());
    let before = bytes();
    let groups = (0..=255).map(group).collect();
    let mut sender =
        Sender::new(SenderConfig { groups, ..SenderConfig::new(1, 2, group(0)) }).unwrap();
    let of_groups = since(before);
    for i in 0..MESSAGES {
        sender.queue(i as u8, 1_400).unwrap();
    }
    let of_messages = since(before) - of_groups;
    while sender.next_packet(0).is_some() {}
    let of_packets = since(before) - of_groups - of_messages;
    let each = [of_groups / 256, of_messages / MESSAGES, of_packets / MESSAGES];
    println!("bytes per group, message and packet in flight: {each:?}");
    // Vectors grow by doubling: they have up to twice the used size.
    assert!(each[0] < 1_000 && each[1] < 400 && each[2] < 100, "{each:?}");
}
