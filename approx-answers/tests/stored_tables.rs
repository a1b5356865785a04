//! Answers by key as bytes: a round trip changes nothing, and no bytes do harm.

use approx_answers::{AnswerError, Confidence, Delivery, GroupBy, Quantiles, Top};
use proptest::prelude::*;
use serde_json::{Value, json};

const P95: Confidence = Confidence::P95;
const KEYS_MAX: usize = 4;

type Message = (u32, Vec<(u8, Option<f64>)>);

/// What the tables have in common here.
trait Table: Clone {
    fn empty() -> Self;
    fn push(&mut self, message: &Message);
    fn set_sent(&mut self, stratum: u32, sent: u64);
    fn merge(&mut self, other: &Self) -> Result<(), AnswerError>;
    /// All answers, as text; each is within its interval.
    fn answers(&self) -> String;
    fn to_bytes(&self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError>;
}

fn key(number: u8) -> String {
    ["a", "b\"", "", "ü\n", "e", "f"][usize::from(number)].to_owned()
}

impl Table for GroupBy<String> {
    fn empty() -> Self {
        Self::new(KEYS_MAX)
    }
    fn push(&mut self, (stratum, records): &Message) {
        let pairs = records.iter().map(|&(at, y)| (key(at), y.map(|y| y.abs().sqrt()), y));
        self.push_pairs(*stratum, pairs).ok();
    }
    fn set_sent(&mut self, stratum: u32, sent: u64) {
        self.set_messages_sent(stratum, sent).ok();
        self.set_delivery(stratum, &Delivery::shuffled()).ok();
    }
    fn merge(&mut self, other: &Self) -> Result<(), AnswerError> {
        self.merge(other)
    }
    fn answers(&self) -> String {
        let mut text = format!("{:?} {}", self.warnings(), self.uncounted_records());
        for key in self.keys() {
            for answer in [self.sum(key, P95), self.count(key, P95), self.mean(key, P95)] {
                let is_within = |low, value, high| low <= value && value <= high;
                assert!(answer.as_ref().map_or(true, |a| is_within(a.low, a.value, a.high)));
                text += &format!("{key:?} {answer:?}");
            }
        }
        text + &format!("{:?}", self.all().mean(P95))
    }
    fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes()
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
        Self::from_bytes(bytes)
    }
}

/// `$answers` of a table and a key.
macro_rules! keyed {
    ($table:ty, |$self:ident| $answers:expr) => {
        impl Table for $table {
            fn empty() -> Self {
                Self::new(KEYS_MAX)
            }
            fn push(&mut self, (stratum, records): &Message) {
                self.push_message(*stratum, records.iter().map(|&(at, y)| (key(at), y))).ok();
            }
            fn set_sent(&mut self, stratum: u32, sent: u64) {
                self.set_messages_sent(stratum, sent).ok();
                self.set_delivery(stratum, &Delivery::shuffled()).ok();
            }
            fn merge(&mut self, other: &Self) -> Result<(), AnswerError> {
                self.merge(other)
            }
            fn answers(&$self) -> String {
                $answers
            }
            fn to_bytes(&self) -> Vec<u8> {
                self.to_bytes()
            }
            fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
                Self::from_bytes(bytes)
            }
        }
    };
}

keyed!(Quantiles<String>, |self| {
    let mut text = format!("{:?}", self.warnings());
    for (key, rank) in self.keys().into_iter().flat_map(|key| [0.1, 0.5, 0.9].map(|r| (key, r))) {
        let answer = self.quantile(key, rank, P95);
        assert!(answer.as_ref().map_or(true, |a| a.low <= a.value && a.value <= a.high));
        text += &format!("{key:?} {answer:?}");
    }
    text
});

keyed!(Top<String>, |self| format!("{:?}", self.largest(2, P95)));

fn total() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => prop::sample::select(vec![0.0, 1.0, -2.5, 0.1, 7.0, 1e15 + 0.1, -1e60, 1e60]),
        4 => -1e6..1e6,
    ]
}

fn tables<T: Table + std::fmt::Debug>() -> impl Strategy<Value = T> {
    let record = (0u8..6, prop::option::weighted(0.9, total()));
    let message = (0u32..3, prop::collection::vec(record, 0..6));
    let sent = prop::collection::vec(prop::option::weighted(0.8, 0u64..90), 3);
    (prop::collection::vec(message, 0..60), sent).prop_map(|(messages, sent)| {
        let mut table = T::empty();
        messages.iter().for_each(|message| table.push(message));
        for (stratum, sent) in (0u32..).zip(sent) {
            sent.into_iter().for_each(|sent| table.set_sent(stratum, sent));
        }
        table
    })
}

/// The ends of a tree, by their paths.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| leaves(value, &format!("{path}/{}", escaped(name)), found)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, value)| leaves(value, &format!("{path}/{at}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

fn same_after_a_round_trip<T: Table>(mut table: T, mut other: T) {
    let read = |table: &T| T::from_bytes(&table.to_bytes()).expect("the bytes of a table");
    let (mut again, other_again) = (read(&table), read(&other));
    assert_eq!(again.to_bytes(), table.to_bytes());
    assert_eq!(again.answers(), table.answers());
    assert_eq!(again.merge(&other_again), table.merge(&other));
    assert_eq!(again.answers(), table.answers());
    assert_eq!(again.to_bytes(), table.to_bytes());
    for both in [&mut again, &mut table, &mut other] {
        both.push(&(1, vec![(0, Some(3.0)), (5, None)]));
    }
    assert_eq!(again.answers(), table.answers());
    assert_eq!(again.to_bytes(), table.to_bytes());
}

fn refused_or_consistent<T: Table>(table: &T, leaf: &prop::sample::Index, to: Value) {
    let mut tree: Value = serde_json::from_slice(&table.to_bytes()).unwrap();
    let mut paths = Vec::new();
    leaves(&tree, "", &mut paths);
    let path: &String = leaf.get(&paths);
    *tree.pointer_mut(path).unwrap() = to;
    let Ok(mut changed) = T::from_bytes(tree.to_string().as_bytes()) else { return };
    changed.answers();
    let again = T::from_bytes(&changed.to_bytes()).expect("the bytes of a table");
    assert_eq!(again.to_bytes(), changed.to_bytes());
    for _ in 0..3 {
        changed.merge(&again).ok();
        changed.merge(table).ok();
    }
    changed.push(&(0, vec![(0, Some(1.0)), (3, Some(2.0))]));
    changed.answers();
}

fn values() -> impl Strategy<Value = Value> {
    let fixed = [
        json!(u64::MAX),
        json!(1u64 << 40),
        json!(-1),
        json!(0),
        json!(1),
        json!(2),
        json!(null),
        json!(true),
        json!("x"),
        json!({}),
        json!([]),
    ];
    prop_oneof![
        2 => prop::sample::select(fixed.to_vec()),
        1 => total().prop_map(|number| json!(number)),
        1 => (0u64..100).prop_map(|number| json!(number)),
    ]
}

proptest! {
    // Each case has thousands of fields.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stored__group_bys_give_the_same_answers(table in tables::<GroupBy<String>>(), other in tables()) {
        same_after_a_round_trip(table, other);
    }

    #[test]
    fn stored__changed_group_bys_are_refused_or_consistent(
        table in tables::<GroupBy<String>>(),
        leaf: prop::sample::Index,
        to in values(),
    ) {
        refused_or_consistent(&table, &leaf, to);
    }

    #[test]
    fn stored__quantiles_give_the_same_answers(table in tables::<Quantiles<String>>(), other in tables()) {
        same_after_a_round_trip(table, other);
    }

    #[test]
    fn stored__changed_quantiles_are_refused_or_consistent(
        table in tables::<Quantiles<String>>(),
        leaf: prop::sample::Index,
        to in values(),
    ) {
        refused_or_consistent(&table, &leaf, to);
    }

    #[test]
    fn stored__rankings_give_the_same_answers(table in tables::<Top<String>>(), other in tables()) {
        same_after_a_round_trip(table, other);
    }

    #[test]
    fn stored__changed_rankings_are_refused_or_consistent(
        table in tables::<Top<String>>(),
        leaf: prop::sample::Index,
        to in values(),
    ) {
        refused_or_consistent(&table, &leaf, to);
    }
}
