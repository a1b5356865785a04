use super::*;
use atp_common::wire::{Fields, FinBody, FinGroup, Flags, HEADER_LEN, Kind};

const S: u64 = 1_000_000_000;
const SOURCES_MAX: usize = 8;

fn sources() -> Sources<()> {
    let limits = Admission { sources_max: SOURCES_MAX, ..Admission::new(1) };
    let budget = Budget::new(limits.transport.budget_bytes_min());
    Sources::new(limits, budget)
}

fn header(kind: Kind, cookie: u32, message: u32, count: u32) -> Header {
    header_of_job(1, kind, cookie, message, count)
}

fn header_of_job(job: u32, kind: Kind, cookie: u32, message: u32, count: u32) -> Header {
    Header::new(&Fields { job, cookie, message, count, ..Fields::of(kind) })
}

/// Every cookie has an address of its own.
fn address(cookie: u32) -> SocketAddr {
    SocketAddr::from(((0x0a00_0000 | cookie).to_be_bytes(), 1_000))
}

fn ends(source: SocketAddr) -> Ends {
    Ends { source, local: None }
}

/// The tombstone of a packet that found no place; `None` if there was no room for it.
type Rejected = Option<Tombstone>;

fn admit(sources: &mut Sources<()>, now_ns: u64, header: &Header) -> Result<(), Rejected> {
    admit_at(sources, now_ns, address(header.cookie()), header)
}

fn admit_at(
    sources: &mut Sources<()>,
    now_ns: u64,
    address: SocketAddr,
    header: &Header,
) -> Result<(), Rejected> {
    match sources.admit(now_ns, ends(address), header) {
        Admitted::Here(source) => {
            source.transport.on_data(now_ns, header, &[1]);
            Ok(())
        }
        Admitted::Gone(tombstone) => Err(Some(tombstone)),
        Admitted::Refused(ResetReason::NoRoom) => Err(None),
        Admitted::Refused(reason) => panic!("{reason:?}"),
    }
}

/// Delivers a message of one packet.
fn deliver(sources: &mut Sources<()>, now_ns: u64, cookie: u32, message: u32) -> bool {
    admit(sources, now_ns, &header(Kind::Data, cookie, message, 1)).is_ok()
}

/// The body of a FIN of one group, all of whose messages are needed.
fn fin_body(messages: u32) -> [u8; 20] {
    let group = FinGroup { group: 0, messages, needed: messages, delivered: 0 };
    let mut body = [0; 20];
    FinBody::write(&mut body, 0, &[group]).unwrap();
    body
}

/// The groups of a tombstone's answer to a FIN of one message.
fn stated(rejected: Result<(), Rejected>, cookie: u32) -> Vec<FinGroup> {
    let Err(Some(Tombstone::Ended { end, .. })) = rejected else { panic!("{rejected:?}") };
    let (body, mut out) = (fin_body(1), [0; 100]);
    let fin = header(Kind::Fin, cookie, 1, 1);
    let len = end.answer(&fin, &FinBody::parse(&body).unwrap(), &mut out);
    let (answer, kind) = Header::parse(&out[..len]).unwrap();
    assert!(kind == Kind::FinAck && answer.flags().contains(Flags::ENDED));
    FinBody::parse(&out[HEADER_LEN..len]).unwrap().groups().collect()
}

fn finish(sources: &mut Sources<()>, now_ns: u64, cookie: u32, messages: u32) {
    let header = header(Kind::Fin, cookie, messages, 1);
    let body = fin_body(messages);
    let Admitted::Here(source) = sources.admit(now_ns, ends(address(cookie)), &header) else {
        panic!()
    };
    let mut out = [0; HEADER_LEN + 20];
    source.transport.on_fin(now_ns, &header, &FinBody::parse(&body).unwrap(), &mut out);
    assert!(source.transport.is_finished());
    let key = source.key;
    sources.note_ended(key);
}

#[test]
fn admit__a_flood_does_not_evict_a_sender_that_sends() {
    let mut sources = sources();
    let mut admitted = 0;
    for step in 0..10_000u32 {
        let now_ns = u64::from(step) * S / 1_000;
        // This sender sends once a second.
        if step % 1_000 == 0 {
            assert!(deliver(&mut sources, now_ns, 0, step / 1_000), "at step {step}");
        }
        admitted += u32::from(deliver(&mut sources, now_ns, 1 + step, 0));
    }
    assert_eq!(sources.len(), SOURCES_MAX);
    // Every three of the ten seconds, the strangers replace each other in all entries but one.
    assert_eq!(admitted, 4 * (SOURCES_MAX as u32 - 1));
}

#[test]
fn admit__evicts_strangers_after_their_idle_limit() {
    let mut sources = sources();
    for cookie in 0..SOURCES_MAX as u32 {
        assert!(deliver(&mut sources, 0, cookie, 0xff_ffff));
    }
    assert!(!deliver(&mut sources, 3 * S - SEARCH_NS, 100, 0));
    assert!(deliver(&mut sources, 3 * S, 100, 0));
    assert_eq!((sources.len(), sources.evicted()), (SOURCES_MAX, 1));
}

/// Each search looks at every sender, and strangers can ask for places as often as they like.
#[test]
fn admit__searches_no_more_often_than_each_interval() {
    let mut sources = sources();
    for cookie in 0..SOURCES_MAX as u32 {
        assert!(deliver(&mut sources, 0, cookie, 0xff_ffff));
    }
    let searched_ns = 3 * S - 1;
    assert!(!deliver(&mut sources, searched_ns, 100, 0));
    // All of them are silent for long enough by now.
    assert!(!deliver(&mut sources, 3 * S, 100, 0));
    assert!(!deliver(&mut sources, searched_ns + SEARCH_NS - 1, 100, 0));
    for cookie in 100..100 + SOURCES_MAX as u32 {
        assert!(deliver(&mut sources, searched_ns + SEARCH_NS, cookie, 0));
    }
    assert_eq!((sources.len(), sources.evicted()), (SOURCES_MAX, SOURCES_MAX as u64));
}

#[test]
fn admit__evicts_the_sender_that_delivered_most_last() {
    let mut sources = sources();
    for cookie in 0..SOURCES_MAX as u32 {
        for message in 0..=cookie {
            assert!(deliver(&mut sources, 0, cookie, message));
        }
    }
    for cookie in 0..SOURCES_MAX as u32 {
        assert!(deliver(&mut sources, 20 * S, 100 + cookie, 0));
        let gone = header(Kind::Data, cookie, 50, 1);
        for later_s in [20, 26, 3_000] {
            let again = admit(&mut sources, later_s * S, &gone);
            assert_eq!(again, Err(Some(Tombstone::Forgotten)));
        }
    }
}

#[test]
fn admit__a_sender_that_delivered_nothing_may_come_back() {
    let mut sources = sources();
    for cookie in 0..SOURCES_MAX as u32 {
        assert_eq!(admit(&mut sources, 0, &header(Kind::Data, cookie, 0, 2)), Ok(()));
    }
    assert!(deliver(&mut sources, 2 * S, 100, 0));
    assert!(deliver(&mut sources, 2 * S, 0, 0));
}

#[test]
fn admit__evicts_ended_jobs_at_once_and_still_answers_them() {
    let mut sources = sources();
    for cookie in 0..100 {
        let now_ns = S + u64::from(cookie) * SEARCH_NS / SOURCES_MAX as u64;
        assert!(deliver(&mut sources, now_ns, cookie, 0), "job {cookie}");
        finish(&mut sources, now_ns, cookie, 1);
    }
    assert_eq!((sources.len(), sources.evicted()), (SOURCES_MAX, 0));
    let again = admit(&mut sources, S, &header(Kind::Fin, 90, 1, 0));
    assert_eq!(stated(again, 90)[0].delivered, 1);
    assert_eq!(sources.lingering_ends().count(), TOMBSTONES_PER_SOURCE * SOURCES_MAX);
    // A late packet is not delivered a second time.
    assert!(!deliver(&mut sources, S, 90, 0));
    sources.expire(60 * S);
    assert!(!deliver(&mut sources, 60 * S, 90, 0));
}

#[test]
fn newest_unknown_end_ns__counts_from_the_last_fin_of_an_evicted_job_too() {
    let mut sources = sources();
    for cookie in 0..SOURCES_MAX as u32 {
        assert!(deliver(&mut sources, S, cookie, 0));
        finish(&mut sources, S, cookie, 1);
    }
    assert!(deliver(&mut sources, 3 * S, 99, 0));
    assert_eq!(sources.lingering_ends().count(), 1);
    assert_eq!(sources.newest_unknown_end_ns(3 * S), Some(2 * S));
}

/// Packets may come long after the state is gone: replayed, or FINs of a sender that lost the
/// answers.
#[test]
fn expire__packets_of_an_ended_job_begin_no_new_job() {
    let mut sources = sources();
    assert!(deliver(&mut sources, S, 7, 0));
    finish(&mut sources, S, 7, 1);
    sources.expire(7 * S);
    assert_eq!(sources.len(), 0);
    for later_s in [7, 60, 3_000] {
        assert!(!deliver(&mut sources, later_s * S, 7, 0), "after {later_s} s");
        let again = admit(&mut sources, later_s * S, &header(Kind::Fin, 7, 1, 1));
        assert_eq!(stated(again, 7).len(), 1);
    }
    // No sender waits for an answer by then.
    assert_eq!(sources.lingering_ends().count(), 0);
}

/// A crashed run sends no end, and its records would stay until its silence is long enough.
#[test]
fn free_memory__evicts_a_crashed_run_of_the_same_job_and_address_only() {
    for (own, neighbor) in [("10.9.9.9", "10.9.9.8"), ("2001:db8::9", "2001:db8::8")] {
        let mut sources = sources();
        let at = |host: &str, port| SocketAddr::new(host.parse().unwrap(), port);
        let data = |job, cookie| header_of_job(job, Kind::Data, cookie, 0, 1);
        let runs = [
            (at(neighbor, 1), data(1, 1)),
            (at(own, 2), data(2, 2)),
            (at(own, 3), data(1, 3)),
            (at(own, 4), data(1, 4)),
        ];
        for (address, header) in &runs {
            assert_eq!(admit_at(&mut sources, 0, *address, header), Ok(()));
        }
        let [_, _, crashed, restarted] = runs.map(|(address, h)| SourceKey::new(address, &h));
        sources.free_memory(S, &restarted);
        assert_eq!(sources.len(), 4, "the crashed run isn't silent for long enough yet");
        let held_bytes = sources.memory_bytes();
        for later_s in [60, 61, 62] {
            sources.free_memory(later_s * S, &restarted);
            assert_eq!((sources.len(), sources.evicted()), (3, 1), "after {later_s} s");
        }
        assert_eq!(sources.memory_bytes(), held_bytes / 4 * 3);
        assert!(sources.iter_mut().all(|source| source.key != crashed));
    }
}

/// One address with any number of ports and cookies leaves places, and evicts no one else.
#[test]
fn admit__one_address_gets_its_share_of_the_places() {
    let mut sources = sources();
    let stranger = |cookie: u32| SocketAddr::from(([10, 9, 9, 9], 1_000 + cookie as u16));
    let data = |cookie| header(Kind::Data, cookie, 0, 1);
    assert!(deliver(&mut sources, 0, 0, 0));
    let mut admitted = 0;
    for cookie in 1..1_000 {
        let now_ns = u64::from(cookie) * S / 1_000;
        admitted += admit_at(&mut sources, now_ns, stranger(cookie), &data(cookie)).is_ok() as u32;
    }
    assert_eq!(admitted, 6);
    // The other sender was silent for long enough to be evicted, but for a small address only.
    for cookie in 1_000..2_000 {
        let _ = admit_at(&mut sources, 100 * S, stranger(cookie), &data(cookie));
    }
    assert!(sources.find(address(0), &data(0)).is_some());
    assert!(deliver(&mut sources, 100 * S, 2_001, 0), "another address");
    assert_eq!(sources.len(), SOURCES_MAX);
}
