//! Tests of verdicts: what text and JSON say of them.

#![expect(clippy::single_range_in_vec_init, reason = "lost messages are ranges")]

use super::{
    SHUFFLED, accepted, ended, finish, header, live, message, of_query, of_run, rows, started,
    take, totals,
};
use crate::{
    Verdict,
    session::{HEADER_GROUP, ROWS_GROUP},
};
use approx_answers::Warning;
use approxlib::{Event, Order, Summary};
use serde_json::Value;

/// The text, JSON and verdict of a query after these events.
fn answer(
    query: &str,
    senders: u32,
    emax: Option<f64>,
    events: &[Event],
) -> (String, Value, Verdict) {
    let end = |json| {
        let mut live = live(query, senders, emax);
        take(&mut live, events.iter().cloned());
        finish(live, json)
    };
    let ((text, verdict), (json, _)) = (end(false), end(true));
    (text, serde_json::from_str(&json).unwrap(), verdict)
}

/// The events of a run of which this number of 100 messages arrived.
fn run_of(job: u32, arrived: u32) -> Vec<Event> {
    [header(job), started(job, SHUFFLED, 100)].into_iter().chain(rows(job, arrived)).collect()
}

/// A sender that died and was started again counts twice. It can't be told from another sender.
#[test]
fn finish__doubts_senders_that_have_not_ended() {
    let end = |job, arrived: u32| ended(job, 100, [arrived..100]);
    let again = [run_of(2, 100), vec![end(2, 100)]].concat();
    for (emax, arrived, senders, verdict) in [
        (None, 40, 1, Verdict::InDoubt),
        (None, 40, 2, Verdict::InDoubt),
        (Some(0.05), 40, 1, Verdict::InDoubt),
        (Some(1e-6), 40, 1, Verdict::NotMet),
        // Nothing but the end is missing: the plan doesn't wait for it.
        (Some(1e-6), 100, 1, Verdict::InDoubt),
    ] {
        let events = [run_of(1, arrived), again.clone()].concat();
        let (text, json, found) = answer("sum(value)", senders, emax, &events);
        assert_eq!(found, verdict, "{text}");
        let words = format!(
            "the sender 127.0.0.1:1 (job 1) has not ended, and the answer has {arrived} of 100 \
             messages of it; if it died and was started again, its records count twice"
        );
        assert!(text.contains(&words) && json["warnings"].to_string().contains(&words), "{text}");
        let too_many = "records of 2 senders, more than the 1 expected";
        assert_eq!(text.contains(too_many), senders == 1, "{text}");
        assert_eq!(json["accepted_error"].is_null(), emax.is_none(), "{json}");
    }
    // The same of a sender that is alone in the answer.
    let (text, json, verdict) = answer("sum(value)", 1, None, &again);
    assert_eq!((verdict, &json["verdict"]), (Verdict::Fine, &"fine".into()), "{text}");
    assert!(!text.contains("warning"), "{text}");
}

/// No interval has room for rows that nobody read, or for keys without an answer.
#[test]
fn finish__doubts_answers_without_a_message_or_key_that_arrived() {
    let table = |rows: &str| {
        let of = [message(1, HEADER_GROUP, b"k,v\n"), message(1, ROWS_GROUP, rows.as_bytes())];
        [of.to_vec(), vec![started(1, SHUFFLED, 1), ended(1, 1, [])]].concat()
    };
    let keys = |number: u32| (0..number).map(|key| format!("k{key},1\n")).collect::<String>();
    for (query, rows, verdict, words) in [
        ("median(v) by k", keys(250), Verdict::Fine, ""),
        ("median(v) by k", keys(251), Verdict::InDoubt, "beyond the limit of 250 keys"),
        ("sum(v)", "a,1\n".into(), Verdict::Fine, ""),
    ] {
        let (text, json, found) = answer(query, 1, None, &table(&rows));
        assert_eq!((found, json["verdict"].as_str()), (verdict, Some(verdict.name())), "{text}");
        assert!(text.contains(words), "{text}");
    }
    let mut events = [run_of(1, 99), vec![message(1, ROWS_GROUP, b"k,soon\n")]].concat();
    events.push(ended(1, 100, []));
    let (text, _, verdict) = answer("sum(value)", 1, None, &events);
    assert!(verdict == Verdict::InDoubt && text.contains("1 messages are left out"), "{text}");
}

/// The next run of a sender may have the same port and job.
#[test]
fn on_event__tells_runs_at_the_same_address_apart() {
    for (dead, doubts, verdict) in [
        (run_of(1, 40), "(job 1) has not ended", Verdict::InDoubt),
        ([run_of(1, 40), vec![ended(1, 100, [40..100])]].concat(), "", Verdict::Fine),
    ] {
        let next = run_of(1, 100).into_iter().chain([ended(1, 100, [])]);
        let events = [dead, next.map(|event| of_run(9, event)).collect()].concat();
        let (text, _, found) = answer("avg(value)", 2, None, &events);
        assert_eq!(found, verdict, "{text}");
        assert!(text.contains("from 140 of 200 messages") && text.contains(doubts), "{text}");
        assert!(!text.contains("left out"), "{text}");
    }
}

/// A host that forges the address and the job of a sender ends a run of its own.
#[test]
fn on_event__a_forged_run_ends_no_other_one() {
    let forged = [header(1), started(1, SHUFFLED, 1)].into_iter().chain(rows(1, 1));
    let forged = forged.chain([ended(1, 1, [])]).map(|event| of_run(9, event)).collect();
    let rest = rows(1, 60).chain([ended(1, 100, [])]).collect();
    let (text, ..) = answer("avg(value)", 2, None, &[run_of(1, 40), forged, rest].concat());
    assert!(text.contains("from 101 of 101 messages") && !text.contains("left out"), "{text}");
}

/// The terms of the second run may come before its first message, and those of the first run
/// never.
#[test]
fn on_event__takes_no_terms_of_one_run_for_those_of_another() {
    let before_messages = |arrived| {
        let start = started(1, SHUFFLED, 200);
        [start, header(1)].into_iter().chain(rows(1, arrived)).collect::<Vec<_>>()
    };
    for (dead, verdict) in [
        ([run_of(1, 40), vec![ended(1, 100, [40..100])]].concat(), Verdict::Fine),
        (run_of(1, 40), Verdict::InDoubt),
    ] {
        let next = before_messages(160).into_iter().chain([ended(1, 200, [160..200])]);
        let events = [dead, next.map(|event| of_run(9, event)).collect()].concat();
        let (text, _, found) = answer("avg(value)", 2, None, &events);
        assert_eq!(found, verdict, "{text}");
        assert!(text.contains("from 200 of 300 messages"), "{text}");
        assert!(!text.contains("left out"), "{text}");
    }
    // Terms change before the end of their run, and its summary has the last word.
    let Event::Started { source, job, run, terms } = started(1, SHUFFLED, 300) else {
        unreachable!()
    };
    let late = Event::TermsChanged { source, job, run, terms };
    let events = [run_of(1, 40), vec![ended(1, 100, [40..100]), late]].concat();
    let (text, ..) = answer("avg(value)", 1, None, &events);
    assert!(text.contains("from 40 of 100 messages"), "{text}");
}

/// A sender may die before its terms arrive.
#[test]
fn finish__leaves_out_senders_without_a_number_of_messages() {
    let dead: Vec<Event> = [header(1)].into_iter().chain(rows(1, 40)).collect();
    let whole = [run_of(2, 100), vec![ended(2, 100, [])]].concat();
    let events = [dead.clone(), whole].concat();
    let words = "left out of the answer: 40 messages of the sender 127.0.0.1:1 (job 1)";
    for query in ["sum(value)", "count(*) by key", "top(1, key)"] {
        for emax in [None, Some(0.05)] {
            let (text, json, verdict) = answer(query, 1, emax, &events);
            assert_eq!(verdict, Verdict::InDoubt, "{text}");
            assert!(text.contains("from 100 of 100 messages"), "{text}");
            assert!(text.contains(words), "{text}");
            assert!(json["warnings"].to_string().contains(words), "{json}");
            assert_eq!(json["messages_left_out"], 40, "{json}");
            assert_eq!(json["accepted_error"].is_null(), emax.is_none(), "{json}");
        }
    }
    // More have arrived than the dead sender announced.
    let few: Vec<Event> =
        [header(1)].into_iter().chain(rows(1, 40)).chain([started(1, SHUFFLED, 3)]).collect();
    let whole = [run_of(2, 100), vec![ended(2, 100, [])]].concat();
    let (text, json, verdict) = answer("sum(value)", 2, None, &[few, whole].concat());
    assert_eq!(verdict, Verdict::InDoubt, "{json}");
    assert!(text.contains("from 100 of 100 messages"), "{text}");
    assert!(text.contains(words), "{text}");
    // The number of all rows is known from totals.
    let of_rows = totals(1, "records 100\nmessages 100\n");
    let (text, _, verdict) = answer("count(*)", 1, None, &[vec![of_rows], events.clone()].concat());
    assert_eq!(verdict, Verdict::InDoubt, "{text}");
    assert!(text.contains("200") && !text.contains("left out"), "{text}");
    // A mean needs no number of messages.
    let (text, json, verdict) = answer("avg(value)", 1, None, &events);
    assert_eq!((verdict, &json["messages_left_out"]), (Verdict::InDoubt, &0.into()), "{text}");
    assert!(text.contains("from 140 messages") && text.contains("announce"), "{text}");
    let mut live = live("sum(value)", 1, None);
    take(&mut live, dead);
    let error = live.finish().unwrap_err().to_string();
    assert!(error.contains("no sender has said how many messages it sends"), "{error}");
}

#[test]
fn finish__doubts_a_sender_that_was_canceled() {
    let Event::Finished { source, job, run, summary } = ended(1, 100, [40..100]) else {
        unreachable!()
    };
    let summary = Summary { complete: false, ..summary };
    let canceled = Event::Finished { source, job, run, summary };
    let events = [run_of(1, 40), vec![canceled]].concat();
    for (emax, words) in [(None, "was canceled, and the answer has 40 of 100"), (Some(0.05), "")] {
        let (text, json, verdict) = answer("sum(value)", 1, emax, &events);
        // The plan has met its error before: the end was its own.
        let expected = if emax.is_none() { Verdict::InDoubt } else { Verdict::Fine };
        assert_eq!((verdict, json["verdict"] == expected.name()), (expected, true), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

/// A sender that doesn't know its N says it at its own end. If the plan or the sender cuts it off,
/// nobody knows what it still had.
#[test]
fn finish__knows_no_number_of_messages_of_a_stream_that_was_cut_off() {
    let start = || {
        let mut start = started(1, Order::Ordered, 0);
        if let Event::Started { terms, .. } = &mut start {
            terms.groups[0].messages = None;
        }
        [vec![start, header(1)], rows(1, 40).collect()].concat()
    };
    for (has_plan, complete, sent) in
        [(false, true, Some(40)), (false, false, None), (true, true, None)]
    {
        let accepted = accepted(0.5, true).filter(|_| has_plan);
        let mut live = of_query("avg(value)".parse().unwrap(), 1, accepted);
        let mut end = ended(1, 40, []);
        if let Event::Finished { summary, .. } = &mut end {
            summary.complete = complete;
        }
        take(&mut live, start());
        assert_eq!(live.has_asked_for_the_end(), has_plan);
        take(&mut live, [end]);
        let answered = live.finish().unwrap();
        let mean = &answered.answers.rows[0].estimate;
        assert_eq!((mean.messages, mean.messages_sent), (40, sent));
        assert_eq!(mean.half_width() > 0.0, sent.is_none(), "{mean}");
        assert_eq!(
            answered.verdict_with_warnings() == Verdict::Fine,
            sent.is_some(),
            "{answered:?}"
        );
        assert_eq!(mean.warnings.iter().any(Warning::is_doubt), sent.is_none(), "{mean:?}");
    }
}

#[test]
fn has_refused_all__awaits_senders_that_are_under_way() {
    let other = |job| message(job, HEADER_GROUP, b"a,b\n");
    let mut live = live("avg(value)", 2, None);
    take(&mut live, [other(1)]);
    assert!(!live.has_refused_all());
    // Its header may have been lost, and come again.
    take(&mut live, rows(3, 1).chain([other(2)]));
    assert!(!live.has_refused_all());
    take(&mut live, [other(3)]);
    assert!(live.has_refused_all());
    let said = live.finish().unwrap_err().to_string();
    assert!(said.contains("no column"), "{said}");
}

/// Two messages with a key were in flight when the plan met its error.
#[test]
fn finish__a_key_in_few_messages_after_the_plan_meets_no_error() {
    let row = |value| message(1, ROWS_GROUP, format!("late,{value}\n").as_bytes());
    let late = |count| [100, 150].into_iter().take(count).map(row).collect::<Vec<_>>();
    for (late, verdict) in [(late(0), Verdict::Fine), (late(2), Verdict::NotMet)] {
        let end = ended(1, 100, [78 + late.len() as u32..100]);
        let events = [run_of(1, 78), late, vec![end]].concat();
        let (text, json, found) = answer("avg(value) by key", 1, Some(0.05), &events);
        assert_eq!((found, &json["verdict"]), (verdict, &verdict.name().into()), "{text}");
        assert_eq!(json["accepted_error"]["met"], verdict == Verdict::Fine, "{json}");
        let words = "accepted, but too few messages carry an answer";
        assert_eq!(text.contains(words), verdict == Verdict::NotMet, "{text}");
    }
}

/// Messages that wait for a header have no part in the answer.
#[test]
fn finish__counts_messages_without_a_header() {
    let stranger = message(2, ROWS_GROUP, b"k,1\n");
    let events = [run_of(1, 100), vec![stranger, ended(1, 100, [])]].concat();
    let (text, json, _) = answer("sum(value)", 1, None, &events);
    assert_eq!(json["messages_left_out"], 1, "{text}");
    assert!(text.contains("no header arrived before the end of the query"), "{text}");
}

/// A doubt may arise after the plan has met its error.
#[test]
fn finish__says_the_same_in_text_json_and_exit_code() {
    let bad = message(1, ROWS_GROUP, b"k,nan\n");
    for (bad, verdict) in [(None, Verdict::Fine), (Some(bad), Verdict::InDoubt)] {
        let end = ended(1, 100, [50..100]);
        let events = [run_of(1, 49), bad.into_iter().collect(), vec![end]].concat();
        let (text, json, found) = answer("avg(value)", 1, Some(0.05), &events);
        let is_in_doubt = verdict == Verdict::InDoubt;
        assert_eq!(found, verdict, "{text}");
        assert_eq!(json["messages_left_out"] == 1, is_in_doubt, "{json}");
        assert_eq!(json["verdict"], verdict.name());
        assert_eq!(json["accepted_error"]["met"], !is_in_doubt, "{json}");
        assert_eq!(json["accepted_error"]["in_doubt"], is_in_doubt, "{json}");
        let words = "accepted, but that is in doubt: see the warnings";
        assert_eq!(text.contains(words), is_in_doubt, "{text}");
        assert_eq!(json["accepted_error"]["text"].to_string().contains(words), is_in_doubt);
    }
}
