//! Tests of a query from events to answers.

#![expect(clippy::single_range_in_vec_init, reason = "lost messages are ranges")]

mod end;
mod text;

use crate::{
    Accepted, Session, Verdict,
    kept::Kept,
    session::{HEADER_GROUP, ROWS_GROUP, WAITING_BYTES_MAX},
    strata::STRATA_MAX,
};
use anyhow::{Context, Result, ensure};
use approx_answers::{AcceptedError, Confidence, Planner, Query, RecordOrder, Report, Row, Table};
use approxlib::{Event, Group, GroupSummary, GroupTerms, Job, Order, Receiver, Summary, Terms};
use std::{
    net::SocketAddr,
    ops::Range,
    sync::{Arc, Barrier, mpsc},
    thread,
    time::Duration,
};

const ROWS: u32 = 60_000;
pub const SHUFFLED: Order = Order::Shuffled { buffer: None };

/// Sends a table with a known mean of 4.5, by two senders. Returns the end of the query.
fn run(live: &mut Session, order: Order) -> Result<()> {
    let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0")?;
    let peer = receiver.local_addr()?;
    let together = Arc::new(Barrier::new(2));
    let mut held = Vec::new();
    let senders = [0, 1].map(|_| {
        let together = together.clone();
        let (go, may_go) = mpsc::channel();
        held.push(go);
        thread::spawn(move || {
            let rows: String =
                (0..ROWS).map(|row| format!("k{},{}\n", row % 3, row % 10)).collect();
            let file = format!("key,value\n{rows}");
            let of_file = match order {
                Order::Shuffled { .. } => RecordOrder::Shuffled,
                Order::Ordered | Order::Unknown => RecordOrder::OfFile,
            };
            let table = Table::read(file.as_bytes(), Some(10), of_file).unwrap();
            let number = table.messages.len() as u32;
            let groups = [
                Group::new(ROWS_GROUP).messages(number).order(order),
                Group::new(HEADER_GROUP).messages(2),
            ];
            let groups = [groups[0].msr(0.999), groups[1]];
            let job = Job::builder().control_socket(None).groups(groups);
            let mut job = job.rate_max_bytes_per_s(500_000).connect(peer).unwrap();
            together.wait();
            for head in table.heads() {
                job.send_in(HEADER_GROUP, &head).unwrap();
            }
            for (number, message) in table.messages.iter().enumerate() {
                if number == table.messages.len() / 3 {
                    may_go.recv().unwrap();
                }
                job.send_in(ROWS_GROUP, message).unwrap();
            }
            job.finish().unwrap()
        })
    });
    let mut ended = 0;
    while ended < 2 {
        let event = receiver.recv(Some(Duration::from_secs(60)))?.context("an event")?;
        ended += usize::from(matches!(event, Event::Finished { .. }));
        live.on_event(&event, &receiver)?;
        // A third of the messages is enough for a plan. The rest waits for it, however slow this
        // thread is.
        if live.planner.as_ref().is_none_or(|plan| plan.report().is_some()) {
            held.drain(..).for_each(|go| go.send(()).expect("a sender"));
        }
    }
    for sender in senders {
        let report = sender.join().expect("a sender");
        // A job that met its lowered MSR may end before the request to end it arrives.
        let cut_short = report.ended_by_receiver || report.groups[0].msr < 0.999;
        ensure!(cut_short == live.planner.is_some(), "{report:?}");
    }
    Ok(())
}

#[test]
fn query__answers_by_key_from_two_senders() {
    let query = "avg(value) by key".parse().unwrap();
    let mut live = of_query(query, 2, None);
    run(&mut live, Order::Ordered).unwrap();
    let answers = live.answers().unwrap().unwrap();
    let keys: Vec<String> = answers.rows.iter().map(Row::key_text).collect();
    assert_eq!(keys, ["k0", "k1", "k2"]);
    for Row { estimate, .. } in &answers.rows {
        assert!((estimate.value - 4.5).abs() < 0.1, "{estimate}");
        assert_eq!(estimate.messages_sent, Some(u64::from(ROWS) / 5));
    }
    let answered = live.finish().unwrap();
    let text = answered.text();
    assert!(text.contains("k1") && text.contains("(95 %)"), "{text}");
    let json = answered.json();
    assert_eq!(json["rows"][2]["key"], "k2");
}

#[test]
fn query__with_an_accepted_error_ends_the_job() {
    let query = "avg(value)".parse().unwrap();
    let mut live = of_query(query, 2, accepted(0.05, false));
    run(&mut live, SHUFFLED).unwrap();
    let report = live.planner.as_ref().and_then(Planner::report).expect("a report");
    assert!(report.is_met() && report.reached <= 0.05, "{report}");
    let answers = live.answers().unwrap().unwrap();
    let estimate = &answers.rows[0].estimate;
    assert!((estimate.value - 4.5).abs() < 0.7, "{estimate}");
    assert!(estimate.messages < u64::from(ROWS) / 5, "{estimate:?}");
    // The looks cost confidence.
    let Some((_, Kept::Answers(table))) = &live.table else { unreachable!() };
    let plain = table.answering().overall(Confidence::P95).unwrap().unwrap();
    assert!(estimate.half_width() > plain.half_width() && estimate.confidence == Confidence::P95);
}

pub fn source() -> SocketAddr {
    "127.0.0.1:1".parse().unwrap()
}

pub fn message(job: u32, group: u8, data: &[u8]) -> Event {
    let (source, run, data) = (source(), job.into(), data.to_vec());
    Event::Message { source, job, run, window: 0, group, message: 0, data }
}

pub fn ended(job: u32, messages: u32, lost: impl IntoIterator<Item = Range<u32>>) -> Event {
    let lost: Vec<_> = lost.into_iter().collect();
    let delivered = messages - lost.iter().map(|range| range.len() as u32).sum::<u32>();
    let rows = GroupSummary { group: ROWS_GROUP, messages, delivered, lost, needed: 0 };
    let groups = vec![rows];
    let summary = Summary { window: 0, complete: true, messages, delivered, groups };
    Event::Finished { source: source(), job, run: job.into(), summary }
}

pub fn started(job: u32, order: Order, messages: u32) -> Event {
    let group = ROWS_GROUP;
    let messages = Some(messages);
    let rows = GroupTerms { group, messages, msr: 0.5, order, ..GroupTerms::default() };
    let terms = Terms { window: 0, groups: vec![rows] };
    Event::Started { source: source(), job, run: job.into(), terms }
}

/// The event, as one of another run with the same address and job.
pub fn of_run(run: u64, mut event: Event) -> Event {
    match &mut event {
        Event::Message { run: of, .. }
        | Event::Started { run: of, .. }
        | Event::TermsChanged { run: of, .. }
        | Event::WindowEnded { run: of, .. }
        | Event::Finished { run: of, .. } => *of = run,
    }
    event
}

/// Hands events to a query without a network.
pub fn take(live: &mut Session, events: impl IntoIterator<Item = Event>) {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    events.into_iter().for_each(|event| live.on_event(&event, &receiver).unwrap());
}

pub fn header(job: u32) -> Event {
    message(job, HEADER_GROUP, b"key,value\n")
}

pub fn rows(job: u32, number: u32) -> impl Iterator<Item = Event> {
    (0..number)
        .map(move |value| message(job, ROWS_GROUP, format!("k,{}\n", 100 + value % 7).as_bytes()))
}

/// The text or the JSON of the end, and its verdict.
pub fn finish(session: Session, json: bool) -> (String, Verdict) {
    let answered = session.finish().unwrap();
    (if json { answered.json().to_string() } else { answered.text() }, answered.verdict)
}

fn accepted(share: f64, ends_in_doubt: bool) -> Option<Accepted> {
    let error = AcceptedError::relative(share).unwrap();
    Some(Accepted { error, ends_in_doubt })
}

fn of_query(query: Query, senders: u32, accepted: Option<Accepted>) -> Session {
    Session::of_query(query, senders, Confidence::P95, accepted).unwrap()
}

pub fn live(query: &str, senders: u32, emax: Option<f64>) -> Session {
    let emax = emax.and_then(|share| accepted(share, false));
    of_query(query.parse().unwrap(), senders, emax)
}

#[test]
fn on_event__awaits_all_senders_before_it_ends_them() {
    for query in ["avg(value)", "avg(value) by key"] {
        let mut live = live(query, 2, Some(0.05));
        // One sender's messages meet the error.
        let begun = |job| [header(job), started(job, SHUFFLED, 3_000)].into_iter();
        take(&mut live, begun(1).chain(rows(1, 500)));
        assert_eq!(live.planner.as_ref().and_then(Planner::report), None);
        take(&mut live, begun(2).chain(rows(2, 2_000)));
        let report = live.planner.as_ref().and_then(Planner::report);
        assert!(report.is_some_and(Report::is_met), "{report:?}");
    }
}

/// The terms of a sender and its header come before its records.
#[test]
fn look__awaits_the_records_of_a_sender_of_the_table() {
    let mut live = live("avg(value)", 2, Some(0.05));
    take(&mut live, [header(1), started(1, SHUFFLED, 900), started(2, SHUFFLED, 900)]);
    take(&mut live, [header(2)].into_iter().chain(rows(1, 500)));
    assert_eq!(live.planner.as_ref().and_then(Planner::report), None);
    take(&mut live, rows(2, 900).chain(rows(1, 400)));
    assert!(live.planner.as_ref().and_then(Planner::report).is_some_and(Report::is_met));
}

/// One bad message, or one bad sender, costs no more than its own part.
#[test]
fn on_event__leaves_out_what_is_no_table() {
    let rows_of_2 = |data: &[u8]| vec![header(2), message(2, ROWS_GROUP, data), ended(2, 1, [])];
    let of_header = |message, data: &[u8]| Event::Message {
        source: source(),
        job: 1,
        run: 1,
        window: 0,
        group: HEADER_GROUP,
        message,
        data: data.to_vec(),
    };
    let second_header = |data| of_header(2, data);
    let other_window = Event::Message {
        source: source(),
        job: 1,
        run: 1,
        window: 1,
        group: ROWS_GROUP,
        message: 0,
        data: b"k,1\n".to_vec(),
    };
    for (messages, events, words) in [
        (1, vec![message(2, 7, b"x"), ended(2, 0, [])], "group 7"),
        // Its records may have come first, and have other columns.
        (
            3,
            vec![
                message(2, ROWS_GROUP, b"1,k\n"),
                message(2, HEADER_GROUP, b"value,key\n"),
                message(2, ROWS_GROUP, b"2,k\n"),
                ended(2, 2, []),
            ],
            "differs from that of another sender",
        ),
        (1, vec![second_header(b"value,key\n")], "the second header"),
        (1, rows_of_2(b"a\n"), "lacks column \"value\""),
        (1, rows_of_2(b"a,soon\n"), "\"soon\""),
        (1, rows_of_2(b"a,\xff\n"), "isn't CSV"),
        (2, vec![message(2, ROWS_GROUP, b"k,1\n"), ended(2, 2, [1..2])], "no header"),
        (9, vec![header(2), ended(2, 9, [0..9])], "no message with records arrived"),
        (1, vec![other_window], "several windows"),
        // Fewer than have arrived.
        (1, vec![started(1, Order::Ordered, 3)], "the terms of 127.0.0.1:1"),
        (0, vec![second_header(b"key,value\n")], ""),
        // Totals, and a header in their place.
        (0, vec![of_header(1, b"records 100\nmessages 100\n")], ""),
        (0, vec![of_header(1, b"key,value\n")], ""),
        (1, vec![of_header(1, b"records 1e2\n")], "the totals of 127.0.0.1:1"),
        (
            1,
            vec![of_header(1, b"records 100\n"), of_header(1, b"records 9\n")],
            "100 exact total in one place",
        ),
    ] {
        let mut live = live("avg(value)", 2, Some(1e-6));
        take(&mut live, [header(1)].into_iter().chain(rows(1, 49)).chain(events));
        take(&mut live, rows(1, 51).chain([ended(1, 100, [])]));
        assert_eq!(live.left_out.messages, messages, "{words}: {:?}", live.left_out);
        assert_eq!(live.waiting_bytes, 0, "{words}");
        let (text, _) = finish(live, false);
        assert!(text.contains("from 100 of 100 messages"), "{text}");
        assert!(text.contains(words), "{words}: {text}");
        let said = format!("{messages} messages are left out");
        assert_eq!(text.contains(&said), messages > 0, "{text}");
    }
}

pub fn totals(job: u32, text: &str) -> Event {
    let (source, run, data) = (source(), job.into(), text.into());
    Event::Message { source, job, run, window: 0, group: HEADER_GROUP, message: 1, data }
}

/// The totals may come before the header, before the records, among them, or never.
#[test]
fn on_totals__makes_a_count_exact_at_any_time() {
    let text = "records 123\nmessages 100\n";
    for place in [0, 1, 2, 20, 60] {
        let mut events: Vec<Event> = [header(1), started(1, SHUFFLED, 100)].into();
        events.extend(rows(1, 50));
        events.insert(place.min(events.len()), totals(1, text));
        events.push(ended(1, 100, [50..100]));
        let mut live = live("count(*)", 1, None);
        take(&mut live, events);
        let answers = live.answers().unwrap().unwrap();
        let count = &answers.rows[0].estimate;
        assert_eq!((count.value, count.half_width()), (123.0, 0.0), "{place}");
        let (text, verdict) = finish(live, false);
        assert_eq!(verdict, Verdict::Fine, "{text}");
    }
    // Of two senders, one states its totals.
    let mut live = live("count(*)", 2, None);
    take(&mut live, [header(1), started(1, SHUFFLED, 100), totals(1, text)]);
    take(&mut live, [header(2), started(2, SHUFFLED, 100)]);
    take(&mut live, rows(1, 50).chain(rows(2, 50)));
    let answers = live.answers().unwrap().unwrap();
    let count = &answers.rows[0].estimate;
    assert!(count.value == 223.0 && count.half_width() > 0.0, "{count}");
    // A sender that was cut off has stated the totals of messages that it didn't send.
    take(&mut live, [ended(1, 60, [50..60]), ended(2, 100, [50..100])]);
    let answers = live.answers().unwrap().unwrap();
    assert_eq!(answers.rows[0].estimate.value, 160.0);
}

#[test]
fn finish__without_an_answer_says_why() {
    for (events, words) in [
        (vec![], "no header arrived"),
        (vec![header(1)], "no record arrived"),
        (vec![message(1, HEADER_GROUP, b"a,b\n"), ended(1, 0, [])], "it has a, b"),
    ] {
        let mut live = live("sum(value)", 1, None);
        take(&mut live, events);
        let error = live.finish().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Messages of a byte take much more memory than a byte.
#[test]
fn on_rows__counts_the_memory_of_short_messages() {
    let mut live = live("sum(value)", 1, None);
    take(&mut live, [message(1, ROWS_GROUP, b"1")]);
    assert!(live.waiting_bytes > size_of::<Vec<u8>>(), "{}", live.waiting_bytes);
    live.waiting_bytes = WAITING_BYTES_MAX - 64;
    take(&mut live, [message(1, ROWS_GROUP, b"2")]);
    assert_eq!((live.left_out.messages, live.waiting_bytes), (1, WAITING_BYTES_MAX - 64));
}

/// An incomplete answer is trusted only if its sender said that the records are shuffled.
#[test]
fn finish__warns_of_incomplete_records_that_are_not_shuffled() {
    let unfair = "may be no fair sample";
    let each_fifth = |range: Range<u32>| range.step_by(5).map(|id| id..id + 1);
    for (order, end, words) in [
        (Order::Ordered, Some(ended(1, 500, [400..500])), Some("the last 20.0 % of the messages")),
        (SHUFFLED, Some(ended(1, 500, [400..500])), None),
        (Order::Ordered, Some(ended(1, 500, each_fifth(0..500))), Some("100 of 500 are missing")),
        (Order::Unknown, Some(ended(1, 500, [400..500])), Some("hasn't said whether")),
        // The sender fell silent.
        (Order::Ordered, None, Some("100 of 500 are missing")),
        (SHUFFLED, None, None),
    ] {
        let mut live = live("avg(value)", 1, None);
        let events = [header(1), started(1, order, 500)].into_iter();
        take(&mut live, events.chain(rows(1, 400)).chain(end));
        let (text, _) = finish(live, false);
        assert_eq!(text.contains(unfair), words.is_some(), "{order:?}: {text}");
        assert!(text.contains(words.unwrap_or_default()), "{order:?}: {text}");
    }
}

/// A narrow interval of ordered records isn't one that meets the error.
#[test]
fn finish__of_ordered_records_is_in_doubt() {
    for (order, ends_in_doubt, verdict, messages) in [
        (SHUFFLED, false, Verdict::Fine, 30),
        (Order::Ordered, true, Verdict::InDoubt, 30),
        (Order::Ordered, false, Verdict::InDoubt, 400),
    ] {
        let query = "avg(value)".parse().unwrap();
        let mut live = of_query(query, 1, accepted(0.05, ends_in_doubt));
        take(&mut live, [header(1), started(1, order, 500)].into_iter().chain(rows(1, 30)));
        let has_ended = live.planner.as_ref().and_then(Planner::report).is_some();
        assert_eq!(has_ended, messages == 30_u32, "{order:?}, {ends_in_doubt}");
        if !has_ended {
            take(&mut live, rows(1, 370));
        }
        take(&mut live, [ended(1, 500, [messages..500])]);
        let (text, found) = finish(live, false);
        assert_eq!(found, verdict, "{text}");
        assert!(text.contains(&format!("from {messages} of 500 messages")), "{text}");
        assert_eq!(text.contains("but that is in doubt"), verdict == Verdict::InDoubt, "{text}");
    }
}

/// A window that ends is not the end of a job, but a query has the first one only.
#[test]
fn on_event__a_stream_ends_with_its_first_window() {
    let mut live = live("avg(value)", 1, Some(1e-6));
    let Event::Finished { source, job, run, summary } = ended(1, 40, []) else { unreachable!() };
    let first = Event::WindowEnded { source, job, run, summary: summary.clone() };
    take(&mut live, [header(1)].into_iter().chain(rows(1, 40)).chain([first]));
    let last = Summary { window: 1, messages: 7, ..summary };
    take(&mut live, [Event::Finished { source, job, run, summary: last }]);
    assert_eq!(live.strata.sent(), Some(40));
    let (text, _) = finish(live, false);
    assert!(text.contains("from 40 of 40 messages"), "{text}");
}

/// A stranger may begin one job after the other.
#[test]
fn on_event__remembers_a_bounded_number_of_jobs() {
    let mut live = live("avg(value)", 1, None);
    let start = |run| of_run(run, started(1, SHUFFLED, 1));
    take(&mut live, (0..STRATA_MAX as u64 + 9).map(start));
    assert_eq!(live.strata.running().count(), STRATA_MAX);
    let late = [header(1), message(1, ROWS_GROUP, b"k,1\n")];
    take(&mut live, late.map(|event| of_run(u64::MAX, event)));
    assert_eq!(live.left_out.messages, 2);
    let error = live.finish().unwrap_err().to_string();
    assert!(error.contains("too many jobs have begun"), "{error}");
}
