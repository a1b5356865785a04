//! Samples as bytes: a round trip changes nothing, and no bytes do harm.

use approx_answers::{
    AcceptedError, AnswerError, Confidence, Delivery, Estimate, Order, Planner, Sample,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const P95: Confidence = Confidence::P95;

/// A sample of version 1, as it was written once.
const STORED: &str = include_str!("data/sample-1.json");

/// Every answer of a sample.
fn answers(sample: &Sample) -> [Result<Estimate, AnswerError>; 4] {
    [sample.sum(P95), sample.count(P95), sample.mean(P95), sample.ratio(P95)]
}

/// All fields as text: NaN is the same there.
fn in_words(answers: impl std::fmt::Debug) -> String {
    format!("{answers:?}")
}

fn read(sample: &Sample) -> Sample {
    Sample::from_bytes(&sample.to_bytes()).expect("the bytes of a sample")
}

/// Adds what a stratum may have. Calls that contradict earlier ones change nothing.
fn fill(sample: &mut Sample, stratum: u32, messages: &[(u16, f64)], facts: u8) {
    if facts & 1 > 0 {
        sample.set_messages_sent(stratum, messages.len() as u64 + u64::from(facts)).ok();
    }
    for &(records, total) in messages {
        match records {
            0..3 => sample.push_missing(stratum, records.into()).ok(),
            3..9 => sample.push_pair(stratum, -total, total).ok(),
            _ => sample.push(stratum, records.into(), total).ok(),
        };
    }
    if facts & 2 > 0 {
        sample.set_exact_records(stratum, f64::from(facts) * 1.5).ok();
    }
    if facts & 4 > 0 {
        let order = match facts >> 4 {
            0 => Order::Unknown,
            1 => Order::Ordered,
            2 => Order::Shuffled { buffer: None },
            buffer => Order::Shuffled { buffer: Some(buffer.into()) },
        };
        let first = u64::from(facts >> 3);
        let lost = (facts & 8 > 0).then(|| vec![0..first, first + 1..2 * first + 40]);
        let delivery = Delivery { order, shortest_first: facts & 16 > 0, lost };
        sample.set_delivery(stratum, &delivery).ok();
    }
}

fn total() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => prop::sample::select(vec![0.0, 1.0, -2.5, 0.1, 1e15 + 0.1, 9e15, -1e60, 1e60, 1e-300]),
        4 => -1e6..1e6,
        1 => any::<f64>(),
    ]
}

fn samples() -> impl Strategy<Value = Sample> {
    let messages = prop::collection::vec((0u16..40, total()), 0..60);
    prop::collection::vec((0u32..5, messages, any::<u8>()), 0..4).prop_map(|strata| {
        let mut sample = Sample::new();
        for (stratum, messages, facts) in strata {
            fill(&mut sample, stratum, &messages, facts);
        }
        sample
    })
}

fn characters() -> impl Strategy<Value = u8> {
    prop::sample::select(b"0123456789.eE-{}[]:,\"n".to_vec())
}

/// The numbers and other ends of a tree, by their paths.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{path}/{name}"), found));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, value)| leaves(value, &format!("{path}/{at}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Gives one field another value.
fn change(tree: &mut Value, leaf: &prop::sample::Index, number: f64, which: usize) {
    let mut paths = Vec::new();
    leaves(tree, "", &mut paths);
    let path: &String = leaf.get(&paths);
    let others = [
        json!(number),
        json!(number.abs() as u64),
        json!(u64::MAX),
        json!(1u64 << 40),
        json!(-1),
        json!(0),
        json!(null),
        json!("inf"),
        json!(1e300),
    ];
    *tree.pointer_mut(path).unwrap() = others[which].clone();
}

/// Uses a sample in every way. Answers are within their intervals.
fn assert_is_consistent(mut sample: Sample, other: &Sample) {
    for answer in answers(&sample).into_iter().flatten() {
        assert!(answer.low <= answer.value && answer.value <= answer.high, "{answer:?}");
        assert!(!answer.standard_error().is_nan() && !answer.to_string().is_empty());
        for warning in &answer.warnings {
            assert!(!warning.to_string().contains('\n'));
        }
        let again = Estimate::from_bytes(&answer.to_bytes()).expect("the bytes of an answer");
        assert_eq!(in_words(&again), in_words(&answer));
    }
    assert_eq!(read(&sample).to_bytes(), sample.to_bytes());
    let copy = sample.clone();
    for _ in 0..3 {
        sample.merge(&copy).ok();
        sample.merge(other).ok();
    }
    sample.push(1, 1, 1.0).ok();
    sample.set_delivery(1, &Delivery::shuffled()).ok();
    let (_, _) = (answers(&sample), sample.messages_sent());
}

proptest! {
    #[test]
    fn stored__samples_give_the_same_answers(sample in samples(), other in samples()) {
        let (again, other_again) = (read(&sample), read(&other));
        prop_assert_eq!(again.to_bytes(), sample.to_bytes());
        prop_assert_eq!(in_words(answers(&again)), in_words(answers(&sample)));
        let (mut merged, mut merged_again) = (sample, again);
        prop_assert_eq!(merged_again.merge(&other_again), merged.merge(&other));
        prop_assert_eq!(merged_again.to_bytes(), merged.to_bytes());
        prop_assert_eq!(in_words(answers(&merged_again)), in_words(answers(&merged)));
        assert_is_consistent(merged, &other);
    }

    #[test]
    fn stored__bytes_of_any_kind_are_refused(bytes: Vec<u8>) {
        let is_refused = matches!(Sample::from_bytes(&bytes), Err(AnswerError::Decode { .. }));
        prop_assert!(is_refused && Estimate::from_bytes(&bytes).is_err());
    }

    /// One field has another value: that of a hostile peer, or of a damaged disk.
    #[test]
    fn stored__a_changed_sample_is_refused_or_consistent(
        (sample, other) in (samples(), samples()),
        (leaf, number) in (any::<prop::sample::Index>(), total()),
        which in 0usize..9,
    ) {
        let mut tree: Value = serde_json::from_slice(&sample.to_bytes()).unwrap();
        change(&mut tree, &leaf, number, which);
        if let Ok(changed) = Sample::from_bytes(tree.to_string().as_bytes()) {
            assert_is_consistent(changed, &other);
        }
    }

    #[test]
    fn stored__a_changed_estimate_is_refused_or_planned_with(
        sample in samples(),
        (leaf, number) in (any::<prop::sample::Index>(), total()),
        which in 0usize..9,
    ) {
        for answer in answers(&sample).into_iter().flatten() {
            let mut tree: Value = serde_json::from_slice(&answer.to_bytes()).unwrap();
            change(&mut tree, &leaf, number, which);
            let Ok(changed) = Estimate::from_bytes(tree.to_string().as_bytes()) else { continue };
            prop_assert!(changed.low <= changed.value && changed.value <= changed.high);
            let accepted = AcceptedError::relative(0.1).unwrap();
            let mut planner = Planner::new(accepted, P95);
            planner.source_started(0, 0.5);
            planner.look(|_| Ok(vec![changed.clone(), answer.clone()])).ok();
            planner.source_ended(0);
            planner.look(|_| Ok(vec![changed.clone()])).ok();
            prop_assert!(!changed.to_string().is_empty());
        }
    }

    #[test]
    fn stored__changed_bytes_are_refused_or_consistent(
        sample in samples(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), characters()), 1..3),
    ) {
        let mut bytes = sample.to_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(changed) = Sample::from_bytes(&bytes) {
            assert_is_consistent(changed, &sample);
        }
    }
}

/// Numbers of messages don't overflow, however often hostile parts merge.
#[test]
fn stored__parts_have_a_limit_together() {
    let mut sample = Sample::new();
    sample.push_missing(0, 1).unwrap();
    let text = String::from_utf8(sample.to_bytes()).unwrap();
    let of = |messages: u64| {
        let messages = format!("\"messages\":{messages},\"nonzero\"");
        let text = text.replace("\"messages\":1,\"nonzero\"", &messages);
        Sample::from_bytes(text.as_bytes())
    };
    let mut many = of(1 << 40).unwrap();
    let error = many.merge(&sample).unwrap_err();
    assert!(matches!(error, AnswerError::MoreThanSent { stratum: 0, .. }), "{error}");
    assert_eq!((many.messages(), of((1 << 40) + 1).is_err()), (1 << 40, true));
}

/// The bytes of a version never change: other programs keep them.
#[test]
fn stored__version_1_is_read_and_written_as_ever() {
    let mut sample = Sample::new();
    sample.set_messages_sent(3, 100).unwrap();
    let lost = Some(vec![7..8, 41..100]);
    let order = Order::Shuffled { buffer: Some(200) };
    sample.set_delivery(3, &Delivery { order, shortest_first: false, lost }).unwrap();
    (1..=40).for_each(|n| sample.push(3, n, f64::from(n as u32 * n as u32 % 7) / 8.0).unwrap());
    sample.set_exact_records(3, 2_050.0).unwrap();
    sample.push_missing(9, 2).unwrap();
    let written = String::from_utf8(sample.to_bytes()).unwrap();
    assert_eq!(written, STORED.trim_end());
    let read = Sample::from_bytes(STORED.as_bytes()).unwrap();
    assert_eq!(answers(&read), answers(&sample));
    assert_eq!((read.messages(), read.missing()), (41, 2));
}

#[test]
fn stored__another_format_says_so() {
    let says = |text: &str, words: &str| {
        let error = Sample::from_bytes(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    };
    says("", "can't be read as \"approx-answers sample\": EOF");
    says(&STORED.replace("\"version\":1", "\"version\":2"), "their version is 2, and this program");
    says(
        &STORED.replace("answers sample", "answers top"),
        "their format is \"approx-answers top\"",
    );
    says(
        &STORED.replace("\"sent\":100", "\"sent\":39"),
        "stratum 3: more messages arrived than sent",
    );
    says(&STORED.replace("\"missing\":2", "\"missing\":2,\"more\":1"), "unknown field `more`");
    says(&STORED.replace("\"9\":", "\"2\":"), "stratum 2 isn't in order");
}
