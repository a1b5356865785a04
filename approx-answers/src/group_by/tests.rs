//! Tests of answers by key.

use super::*;
use proptest::prelude::*;

const P95: Confidence = Confidence::P95;

fn group_by(keys_max: usize, messages: &[&[(&'static str, f64)]]) -> GroupBy<&'static str> {
    let mut group_by = GroupBy::new(keys_max);
    for message in messages {
        group_by.push_message(0, message.iter().copied()).unwrap();
    }
    group_by
}

const MESSAGES: [&[(&str, f64)]; 4] =
    [&[("a", 1.0), ("b", 2.0), ("a", 3.0)], &[("b", 5.0)], &[], &[("c", 7.0), ("a", 9.0)]];

#[test]
fn answers__are_those_of_messages_with_zeros() {
    let mut by = group_by(10, &MESSAGES);
    by.set_messages_sent(0, 8).unwrap();
    by.set_delivery(0, &Delivery::shuffled()).unwrap();
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 8).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    for (records, total) in [(2, 4.0), (0, 0.0), (0, 0.0), (1, 9.0)] {
        sample.push(0, records, total).unwrap();
    }
    let expected = [sample.sum(P95), sample.count(P95), sample.mean(P95)];
    let found = [by.sum(&"a", P95), by.count(&"a", P95), by.mean(&"a", P95)];
    for (found, expected) in found.into_iter().zip(expected) {
        let (found, expected) = (found.unwrap(), expected.unwrap());
        assert!((found.value - expected.value).abs() < 1e-12);
        assert!((found.half_width() - expected.half_width()).abs() < 1e-9);
    }
    assert_eq!(by.warnings(), [Warning::UnseenKeys { keys: Some(1.0) }]);
    assert_eq!(by.sum(&"z", P95), Err(AnswerError::UnknownKey));
}

#[test]
fn push_message__keys_beyond_the_limit_are_named() {
    let by = group_by(2, &MESSAGES);
    assert_eq!((by.keys(), by.uncounted_records()), (vec![&"a", &"b"], 1));
    let warning = Warning::UncountedRecords { records: 1, limit: 2 };
    assert!(by.mean(&"a", P95).unwrap().warnings.contains(&warning));
    assert!(by.warnings().contains(&warning));
    assert_eq!(group_by(0, &MESSAGES).uncounted_records(), 6);
}

#[test]
fn set_exact_records__is_of_all_keys() {
    let by = |exact: Option<f64>| {
        let mut by = group_by(10, &MESSAGES.repeat(20));
        by.set_messages_sent(0, 100).unwrap();
        by.set_delivery(0, &Delivery::shuffled()).unwrap();
        exact.into_iter().for_each(|exact| by.set_exact_records(0, exact).unwrap());
        by
    };
    // 1.5 records in a message.
    let (plain, right, wrong) = (by(None), by(Some(151.0)), by(Some(300.0)));
    for ask in [GroupBy::sum, GroupBy::count, GroupBy::mean] {
        assert_eq!(ask(&right, &"a", P95), ask(&plain, &"a", P95));
        let contradicts = |by| {
            let warnings = ask(by, &"a", P95).unwrap().warnings;
            let is_one = |w: &Warning| matches!(w, Warning::ContradictsExact { stratum: 0, .. });
            warnings.iter().any(is_one)
        };
        assert!(contradicts(&wrong) && !contradicts(&right));
    }
    let count = right.all().count(P95).unwrap();
    assert_eq!((count.value, count.half_width()), (151.0, 0.0));
}

#[test]
fn push_message__drops_the_rarest_keys_beyond_the_memory() {
    let mut by = GroupBy::new(1_000);
    by.room.bytes_max = 1 << 16;
    for stratum in 0..1_000u32 {
        let rare = (0..10).filter(|key| stratum % (key + 2) == 0);
        by.push_message(stratum, rare.chain([99]).map(|key| (key, 1.0))).unwrap();
        let bytes: usize = by.entries.iter().map(Entry::bytes).sum();
        assert!(by.room.bytes == bytes && (by.room.fits(0) || by.entries.len() == 1));
    }
    // The commonest key stays, though its strata take more than the memory.
    assert_eq!(by.keys(), [&99]);
    let uncounted = (2..12).map(|each| 1_000u64.div_ceil(each)).sum();
    assert_eq!((by.uncounted_records(), by.entries[0].records()), (uncounted, 1_000));
    let sum = by.sum(&99, P95);
    assert_eq!(sum, Err(AnswerError::SentUnknown { stratum: 0 }));
}

#[test]
fn push_message__a_message_that_is_left_out_takes_no_memory() {
    let mut by = group_by(9, &MESSAGES[..1]);
    let bytes = by.room.bytes;
    assert!(bytes > 0);
    assert!(by.push_message(1, [("c", 1.0), ("a", 1.0), ("b", f64::NAN)]).is_err());
    assert_eq!(by.room.bytes, bytes);
}

#[test]
fn merge__keeps_within_the_memory() {
    let part = |strata: std::ops::Range<u32>| {
        let mut by = GroupBy::new(1_000);
        by.room.bytes_max = 1 << 17;
        for stratum in strata {
            by.push_message(stratum, (0..7).map(|key| (key, 1.0))).unwrap();
        }
        by
    };
    let mut by = part(0..40);
    assert_eq!(by.keys().len(), 7);
    by.merge(&part(40..80)).unwrap();
    assert!(by.room.fits(0) && (1..7).contains(&by.keys().len()), "{}", by.room.bytes);
    let bytes: usize = by.entries.iter().map(Entry::bytes).sum();
    assert_eq!(by.room.bytes, bytes);
}

#[test]
fn push_message__a_bad_value_leaves_the_message_out() {
    let mut by = group_by(3, &MESSAGES[..1]);
    assert!(by.push_message(0, [("a", 1.0), ("c", 1.0), ("b", f64::NAN)]).is_err());
    assert_eq!(by.all().messages(), 1);
    assert_eq!(by.keys(), [&"a", &"b"]);
    let a = &by.entries[by.positions["a"]];
    assert_eq!((a.records(), a.strata[0].moments.sum_y()), (2, 4.0));
    by.push_message(0, [("a", 1.0)]).unwrap();
    assert_eq!(by.entries[by.positions["a"]].strata[0].moments.sum_y(), 5.0);
}

#[test]
fn mean__of_a_key_in_one_message_has_no_bounds() {
    let mut by = group_by(10, &MESSAGES);
    by.set_messages_sent(0, 8).unwrap();
    by.set_delivery(0, &Delivery::shuffled()).unwrap();
    let mean = by.mean(&"c", P95).unwrap();
    assert_eq!((mean.value, mean.low, mean.high), (7.0, f64::NEG_INFINITY, f64::INFINITY));
    assert!(by.mean(&"a", P95).unwrap().half_width().is_finite());
}

#[test]
fn mean__of_pairs_is_their_ratio() {
    let mut by = GroupBy::new(2);
    by.push_pairs(0, [("a", 2.0, 6.0), ("a", 1.0, 3.0)]).unwrap();
    by.push_pairs(0, [("a", 3.0, 3.0)]).unwrap();
    assert_eq!(by.mean(&"a", P95).unwrap().value, 2.0);
}

#[test]
fn merge__equals_one_stream() {
    for cut in 0..=4 {
        let mut left = group_by(10, &MESSAGES[..cut]);
        left.merge(&group_by(10, &MESSAGES[cut..])).unwrap();
        let whole = group_by(10, &MESSAGES);
        assert_eq!(left.keys(), whole.keys());
        for key in ["a", "b", "c"] {
            let (one, other) = (left.mean(&key, P95).unwrap(), whole.mean(&key, P95).unwrap());
            assert!((one.value - other.value).abs() < 1e-12, "{key}");
        }
    }
}

#[test]
fn merge__drops_keys_that_a_full_part_may_have_left_out() {
    // The left part has no room for `c`, the right one has no room for `b`.
    let mut left = group_by(2, &[&[("a", 1.0), ("b", 1.0), ("c", 1.0)]]);
    let right = group_by(2, &[&[("a", 1.0), ("c", 1.0), ("b", 1.0)]]);
    left.merge(&right).unwrap();
    assert_eq!((left.keys(), left.uncounted_records()), (vec![&"a"], 4));
    assert!(left.merge(&group_by(3, &[])).is_err());
    // There is room for `b` again, but its first records were dropped.
    left.push_message(0, [("b", 1.0)]).unwrap();
    assert_eq!((left.keys(), left.uncounted_records()), (vec![&"a"], 5));
}

proptest! {
    /// Two codes may stand for one key, and codes may be larger than those that are kept.
    #[test]
    fn add__with_codes_is_as_without(
        messages in prop::collection::vec(
            prop::collection::vec((0usize..6, prop_oneof![Just(1.0), 0.0..9.0], -9i8..9), 0..20),
            0..6,
        ),
        keys_max in 1usize..5,
    ) {
        const KEYS: [&str; 6] = ["a", "b", "c", "a", "d", "e"];
        const CODES: [usize; 6] = [0, 3, 1, 7, CODES_MAX, usize::MAX];
        let [coded, plain] = [true, false].map(|has_codes| {
            let mut by = GroupBy::<String>::new(keys_max);
            for message in &messages {
                let mut adding = by.begin(0);
                for &(key, x, y) in message {
                    let code = has_codes.then_some(CODES[key]);
                    by.add(&mut adding, (KEYS[key], code), x, f64::from(y)).unwrap();
                }
                by.end(adding, Ok::<_, AnswerError>(())).unwrap();
            }
            by.to_bytes()
        });
        prop_assert_eq!(coded, plain);
    }
}
