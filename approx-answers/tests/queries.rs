//! Queries of several functions, keys and conditions: against single ones, and against the truth.

use approx_answers::{Answering, Answers, Bound, Confidence, Delivery, Estimate, Row};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

const P95: Confidence = Confidence::P95;
const COLUMNS: [&str; 4] = ["k", "l", "v", "w"];

type Message = Vec<[String; 4]>;

/// The answers of a query from the first `arrived` messages.
fn answering(query: &str, messages: &[Message], arrived: usize) -> Answering {
    let mut answering = Answering::new(query.parse().unwrap(), &COLUMNS).unwrap();
    answering.set_messages_sent(0, messages.len() as u64).unwrap();
    answering.set_delivery(0, &Delivery::shuffled()).unwrap();
    messages[..arrived].iter().for_each(|rows| answering.push_message(0, rows).unwrap());
    answering
}

/// A table of this many messages in random order: keys, and numbers of which some are missing.
fn table(messages: usize, seed: u64) -> Vec<Message> {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let mut row = || {
        let l = draws.random_range(0..3u8);
        let v = match draws.random_range(0..10u8) {
            0 => "NA".to_owned(),
            _ => (f64::from(l) + 10.0 * draws.random::<f64>().ln().abs()).to_string(),
        };
        [["a", "b"][draws.random_range(0..2)].into(), l.to_string(), v, "2".into()]
    };
    let mut rows: Vec<[String; 4]> = (0..messages * 8).map(|_| row()).collect();
    rows.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut rest = &rows[..];
    let mut lengths = (0..messages).map(|message| 5 + message % 7);
    std::iter::from_fn(|| {
        let (head, tail) = rest.split_at_checked(lengths.next()?)?;
        rest = tail;
        Some(head.to_vec())
    })
    .collect()
}

fn of<'a>(answers: &'a Answers, key: &[&str], function: usize) -> Option<&'a Estimate> {
    let row = answers.rows.iter().find(|row| row.key == key && row.function == function);
    row.map(|row| &row.estimate)
}

const FUNCTIONS: [&str; 8] = [
    "avg(v)",
    "sum(v)",
    "count(*)",
    "count(v)",
    "median(v)",
    "stddev(v)",
    "max(v)",
    "count(distinct v)",
];

/// Each function of several has the answer that it has alone.
#[test]
fn answers__of_several_functions_are_those_of_each() {
    let messages = table(80, 1);
    for rest in ["", " WHERE v > 5 AND k = 'a'", " GROUP BY l", " WHERE w = 2 GROUP BY k, l"] {
        let all = answering(&format!("SELECT {}{rest}", FUNCTIONS.join(", ")), &messages, 60);
        let all = all.answers(P95).unwrap();
        assert_eq!(all.functions, FUNCTIONS);
        let mut rows = 0;
        for (at, function) in FUNCTIONS.iter().enumerate() {
            let alone = answering(&format!("SELECT {function}{rest}"), &messages, 60);
            for Row { key, estimate, .. } in alone.answers(P95).unwrap().rows {
                let found = all.rows.iter().find(|row| row.key == key && row.function == at);
                assert_eq!(found.map(|row| &row.estimate), Some(&estimate), "{function}{rest}");
                rows += 1;
            }
        }
        assert_eq!(all.rows.len(), rows);
        assert!(all.by_key().all(|rows| rows.len() == FUNCTIONS.len()), "{rest}");
        assert!(all.rows.is_sorted_by_key(|row| (&row.key, row.function)));
    }
}

/// The exact answers of a whole job, from the definitions.
#[test]
fn answers__of_a_complete_job_are_exact() {
    let rows = [
        ["a", "x", "1", "10"],
        ["a", "y", "2", "NA"],
        ["a", "x", "4", "30"],
        ["b", "x", "NA", "40"],
        ["b", "", "8", "50"],
    ];
    let messages = vec![rows.map(|row| row.map(str::to_owned)).to_vec()];
    let values = |query: &str| -> Vec<(String, f64)> {
        let answers = answering(query, &messages, 1).answers(P95).unwrap();
        let rows = answers.rows.into_iter();
        rows.map(|row| {
            let exact = row.estimate.low == row.estimate.value;
            assert!(exact && row.estimate.high == row.estimate.value, "{query}");
            (row.key_text(), row.estimate.value)
        })
        .collect()
    };
    let all = |value: f64| vec![(String::new(), value)];
    for (query, expected) in [
        ("count(*)", 5.0),
        ("SELECT count(*) WHERE v > 1", 3.0),
        ("SELECT count(*) WHERE v <> 1", 3.0),
        ("SELECT count(*) WHERE NOT (v = 1)", 3.0),
        ("SELECT count(*) WHERE v = 1 OR w = 40", 2.0),
        ("SELECT count(*) WHERE v IS NULL", 1.0),
        ("SELECT count(*) WHERE v IS NOT NULL AND w IS NOT NULL", 3.0),
        ("SELECT count(*) WHERE v NOT IN (1, 2)", 2.0),
        ("SELECT count(*) WHERE v NOT BETWEEN 1 AND 2", 2.0),
        ("SELECT count(*) WHERE l = 'x'", 3.0),
        ("SELECT count(*) WHERE l <> 'x'", 1.0),
        ("SELECT count(*) WHERE l IS NULL", 1.0),
        ("SELECT count(*) WHERE k LIKE '%a%' AND l < 'y'", 2.0),
        // A text is compared as it stands: NA may be Namibia.
        ("SELECT count(*) WHERE v = 'NA'", 1.0),
        ("SELECT sum(v) WHERE w > 1e1", 12.0),
        ("SELECT avg(v) WHERE k = 'a'", 7.0 / 3.0),
        ("SELECT ratio(w, v) WHERE k = 'a'", 8.0),
        ("SELECT median(w) WHERE w < 50", 30.0),
        ("variance(w)", 875.0 / 3.0),
        ("stddev(w)", (875.0f64 / 3.0).sqrt()),
        ("min(v)", 1.0),
        ("SELECT max(w) WHERE l = 'x'", 40.0),
        ("count(distinct l)", 2.0),
        ("SELECT count(distinct v) WHERE v < 8", 3.0),
    ] {
        let found = values(query);
        assert_eq!(found[0].0, "");
        assert!((found[0].1 - expected).abs() < 1e-12, "{query}: {found:?}");
    }
    assert_eq!(values("SELECT count(*) WHERE v > 100"), all(0.0));
    let named = |rows: &[(&str, f64)]| -> Vec<_> {
        rows.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
    };
    assert_eq!(
        values("count(*) by k, l"),
        named(&[("a, x", 2.0), ("a, y", 1.0), ("b, ", 1.0), ("b, x", 1.0)])
    );
    assert_eq!(values("SELECT top(1, k) WHERE v > 2"), named(&[("a", 1.0)]));
    assert_eq!(values("max(v) by k"), named(&[("a", 4.0), ("b", 8.0)]));
    assert_eq!(values("count(distinct l) by k"), named(&[("a", 2.0), ("b", 1.0)]));
    assert_eq!(values("variance(v) by k"), named(&[("a", 7.0 / 3.0)]));
}

/// What arrived bounds what is there.
#[test]
fn answers__of_extremes_are_bounds_until_all_arrived() {
    let messages = table(40, 2);
    for (function, bound, words) in [
        ("min(v)", Bound::AtMost, "at most "),
        ("max(v)", Bound::AtLeast, "at least "),
        ("count(distinct v)", Bound::AtLeast, "at least "),
    ] {
        let truth =
            answering(function, &messages, 40).answers(P95).unwrap().rows.remove(0).estimate;
        assert_eq!((truth.bound(), truth.half_width()), (None, 0.0), "{function}");
        for arrived in [1, 10, 39] {
            let found = answering(function, &messages, arrived).answers(P95).unwrap();
            let found = &found.rows[0].estimate;
            assert_eq!(found.bound(), Some(bound), "{function}");
            assert!(found.contains(truth.value) && found.half_width() == f64::INFINITY);
            assert!(found.to_string().starts_with(words), "{found}");
        }
    }
    // An interval isn't a bound, however few messages there are.
    for query in ["sum(v)", "count(*)", "avg(v)", "median(v)", "stddev(v)", "count(v)"] {
        let found = answering(query, &messages, 1).answers(P95).unwrap();
        assert_eq!(found.rows[0].estimate.bound(), None, "{query}");
    }
}

/// A message that one function refuses is in no function's answer.
#[test]
fn push_message__is_left_out_by_all_functions() {
    let query = "SELECT count(*), median(w), avg(w), stddev(w), max(w), sum(v) GROUP BY k, l";
    let messages = table(40, 3);
    let mut refused = answering(query, &messages, 30);
    let before = refused.answers(P95).unwrap();
    for bad in ["1e61", "x", "inf"] {
        let row = |v: &str| ["new", "7", v, "1000"].map(str::to_owned);
        refused.push_message(0, [row("1"), row(bad)]).unwrap_err();
        assert_eq!(refused.answers(P95).unwrap(), before, "{bad}");
    }
    // The messages after it are counted as if it had never come.
    messages[30..].iter().for_each(|rows| refused.push_message(0, rows).unwrap());
    let whole = answering(query, &messages, 40).answers(P95).unwrap();
    assert_eq!(refused.answers(P95).unwrap(), whole);
    refused.push_message(0, &messages[0]).unwrap_err();
    assert_eq!(refused.answers(P95).unwrap(), whole);
}

/// The totals of a table count all rows, whatever the condition: the count of those that match is
/// an estimate, and a narrower one.
#[test]
fn push_totals__narrows_a_count_with_a_condition() {
    let messages = table(200, 4);
    let rows: usize = messages.iter().map(Vec::len).sum();
    let truth = messages.iter().flatten().filter(|row| row[0] == "a").count() as f64;
    let count = |query: &str, has_totals: bool| {
        let mut answering = answering(query, &messages, 150);
        let totals = format!("records {rows}\nmessages 200\n");
        has_totals.then(|| answering.push_totals(0, totals.as_bytes()).unwrap());
        answering.answers(P95).unwrap().rows.remove(0).estimate
    };
    let exact = count("count(*)", true);
    assert_eq!((exact.value, exact.half_width()), (rows as f64, 0.0));
    let query = "SELECT count(*) WHERE k = 'a'";
    let (plain, narrow) = (count(query, false), count(query, true));
    assert!(plain.contains(truth) && narrow.contains(truth), "{truth}: {plain}, {narrow}");
    assert!(0.0 < narrow.half_width() && narrow.half_width() < plain.half_width());
    assert_eq!(narrow.warnings, []);
}

/// Rows that match in a few messages carry no answer, as those of a rare key don't.
#[test]
fn answers__of_conditions_that_few_messages_meet_warn() {
    let mut messages = table(200, 5);
    (0..200).step_by(20).for_each(|message| messages[message][0][0] = "rare".into());
    for query in ["SELECT avg(v) WHERE k = 'rare'", "SELECT sum(v), count(*) WHERE k = 'rare'"] {
        for row in answering(query, &messages, 150).answers(P95).unwrap().rows {
            let text = format!("{:?}", row.estimate.warnings);
            assert!(text.contains("FewMessages { messages: 8 }"), "{query}: {text}");
        }
    }
    for query in ["SELECT count(*) WHERE k = 'none'", "SELECT sum(v) WHERE k = 'none'"] {
        let answers = answering(query, &messages, 150).answers(P95).unwrap();
        let estimate = &answers.rows[0].estimate;
        assert!(estimate.value == 0.0 && !estimate.warnings.is_empty(), "{query}");
    }
    answering("SELECT avg(v) WHERE k = 'none'", &messages, 150).answers(P95).unwrap_err();
}

/// The share of intervals with the truth. Of 300 jobs with a coverage of 95 %, 93 % is missed by
/// chance with a probability of 6 %, and 90 % with one below 1 in 1,000; the seeds are fixed.
#[test]
fn answers__of_conditions_keys_and_deviations_cover() {
    let query =
        "SELECT count(*), sum(v), avg(v), stddev(v), variance(v) WHERE l <> '1' GROUP BY k, l";
    let messages = table(250, 6);
    let truths = answering(query, &messages, messages.len()).answers(P95).unwrap();
    let mut draws = ChaCha8Rng::seed_from_u64(7);
    let mut covered = vec![0; truths.rows.len()];
    const JOBS: u32 = 300;
    for _ in 0..JOBS {
        let mut messages = messages.clone();
        messages.shuffle(&mut draws);
        let found = answering(query, &messages, 120).answers(P95).unwrap();
        for (covered, truth) in covered.iter_mut().zip(&truths.rows) {
            let key: Vec<&str> = truth.key.iter().map(String::as_str).collect();
            let estimate = of(&found, &key, truth.function).unwrap();
            *covered += u32::from(estimate.contains(truth.estimate.value));
        }
    }
    let shares: Vec<f64> = covered.iter().map(|n| f64::from(*n) / f64::from(JOBS)).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(shares.iter().all(|share| *share > 0.9), "{shares:?}");
    assert!((0.935..0.975).contains(&mean), "{mean}");
}

proptest! {
    /// Values far from 0 that vary little lose no digits.
    #[test]
    fn deviations__of_values_far_from_zero(
        values in prop::collection::vec(-1000i32..1000, 4..60),
        far in prop::sample::select(vec![0.0, 1e6, -1e12]),
        unit in prop::sample::select(vec![1.0, 1e-3, 1e3]),
    ) {
        let values: Vec<f64> = values.into_iter().map(|v| far + unit * f64::from(v)).collect();
        let mut answering = Answering::new("variance(v)".parse().unwrap(), &["v"]).unwrap();
        answering.set_messages_sent(0, values.len().div_ceil(3) as u64).unwrap();
        for rows in values.chunks(3) {
            answering.push_message(0, rows.iter().map(|v| [v.to_string()])).unwrap();
        }
        let found = answering.answers(P95).unwrap().rows.remove(0).estimate.value;
        let n = values.len() as f64;
        let shifted: Vec<f64> = values.iter().map(|v| v - far).collect();
        let mean = shifted.iter().sum::<f64>() / n;
        let truth = shifted.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
        prop_assert!((found - truth).abs() <= 1e-9 * truth, "{} {}", found, truth);
    }
}
