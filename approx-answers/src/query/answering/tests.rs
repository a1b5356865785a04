//! Tests of answers to queries.

use super::*;
use crate::Row;
use crate::query::state::QUANTILE_KEYS_MAX;
use proptest::prelude::*;

const P95: Confidence = Confidence::P95;
const ROWS: [[&str; 3]; 4] = [["x", "1", "2"], ["y", "NA", "4"], ["x", "5", ""], ["y", "3", "6"]];

fn complete(query: &str) -> Answers {
    let mut answering = Answering::new(query.parse().unwrap(), &["k", "a", "b"]).unwrap();
    answering.set_messages_sent(0, 1).unwrap();
    answering.set_delivery(0, &Delivery::shuffled()).unwrap();
    answering.push_message(0, ROWS).unwrap();
    assert_eq!(answering.messages(), 1);
    answering.answers(P95).unwrap()
}

fn values(query: &str) -> Vec<(String, f64)> {
    let rows = complete(query).rows.into_iter();
    rows.map(|row| (row.key_text(), row.estimate.value)).collect()
}

#[test]
fn answers__of_a_complete_job_are_exact() {
    let one = |value| vec![(String::new(), value)];
    let two = |x, y| vec![("x".to_owned(), x), ("y".to_owned(), y)];
    for (query, expected) in [
        ("sum(a)", one(9.0)),
        ("avg(a)", one(3.0)),
        ("count(*)", one(4.0)),
        ("count(a)", one(3.0)),
        ("count(k)", one(4.0)),
        ("ratio(a, b)", one(0.5)),
        ("median(a)", one(3.0)),
        ("sum(a) by k", two(6.0, 3.0)),
        ("avg(a) by k", two(3.0, 3.0)),
        ("count(b) by k", two(1.0, 2.0)),
        ("ratio(b, a) by k", two(2.0, 2.0)),
        ("quantile(a, 0.9) by k", two(5.0, 3.0)),
        ("top(1, k)", vec![("x".to_owned(), 2.0)]),
    ] {
        assert_eq!(values(query), expected, "{query}");
    }
    assert_eq!(complete("top(1, k)").separates, Some(false));
    assert_eq!(complete("top(2, k)").separates, Some(true));
}

/// A count of no values is 0. Other answers of a key without values are none, and a warning
/// names the key.
#[test]
fn answers__of_keys_whose_values_are_all_missing() {
    let rows = [["a", ""], ["a", "NA"], ["b", ""], ["b", "2"], ["c", "NA"]];
    let answers = |query: &str| {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "v"]).unwrap();
        answering.set_messages_sent(0, 2).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        answering.push_message(0, &rows[..3]).unwrap();
        answering.push_message(0, &rows[3..]).unwrap();
        let Answers { rows, warnings, .. } = answering.answers(P95).unwrap();
        let rows = rows
            .into_iter()
            .map(|Row { key, estimate: e, .. }| (key.concat(), e.value, e.low, e.high));
        (rows.collect::<Vec<_>>(), warnings)
    };
    let exact = |key: &str, value: f64| (key.to_owned(), value, value, value);
    let counts = vec![exact("a", 0.0), exact("b", 1.0), exact("c", 0.0)];
    assert_eq!(answers("count(v) by k"), (counts, vec![]));
    let sums = vec![exact("a", 0.0), exact("b", 2.0), exact("c", 0.0)];
    assert_eq!(answers("sum(v) by k"), (sums, vec![]));
    let without = vec![Warning::KeysWithoutValue { keys: 2, first: "a".to_owned() }];
    for query in ["avg(v) by k", "median(v) by k"] {
        assert_eq!(answers(query), (vec![exact("b", 2.0)], without.clone()), "{query}");
    }
    assert_eq!(answers("ratio(v, v) by k"), (vec![exact("b", 1.0)], without));
}

/// Keys whose values are all missing take no place of others.
#[test]
fn answers__of_many_keys_without_values() {
    let mut answering = Answering::new("median(v) by k".parse().unwrap(), &["k", "v"]).unwrap();
    let name = |number: usize| format!("k{number:04}");
    answering.push_message(0, (0..3_000).map(|key| [name(key), "NA".into()])).unwrap();
    let with_value = 2_900..2_900 + QUANTILE_KEYS_MAX;
    answering.push_message(0, with_value.clone().map(|key| [name(key), "7".into()])).unwrap();
    let Answers { rows, warnings, .. } = answering.answers(P95).unwrap();
    assert!(rows.iter().map(Row::key_text).eq(with_value.map(name)));
    let first = Warning::KeysWithoutValue { keys: 1_000, first: name(0) };
    assert!(warnings.contains(&first), "{warnings:?}");
}

/// `NA` is a missing number, and Namibia.
#[test]
fn answers__of_na_in_a_column_of_text() {
    let rows = [["NA", "1"], ["DE", "NA"], ["NA", "3"], ["NA", ""], ["", "4"]];
    let answers = |query: &str| {
        let mut answering = Answering::new(query.parse().unwrap(), &["country", "v"]).unwrap();
        answering.set_messages_sent(0, 1).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        answering.push_message(0, rows).unwrap();
        let mut of_csv = Answering::of_csv(query.parse().unwrap(), b"country,v\n").unwrap();
        of_csv.set_messages_sent(0, 1).unwrap();
        of_csv.set_delivery(0, &Delivery::shuffled()).unwrap();
        of_csv.push_csv(0, b"NA,1\nDE,NA\nNA,3\nNA,\n,4\n").unwrap();
        let answers = answering.answers(P95).unwrap();
        assert_eq!(of_csv.answers(P95).unwrap(), answers, "{query}");
        let rows = answers.rows.into_iter().map(|row| (row.key_text(), row.estimate.value));
        (rows.collect::<Vec<_>>(), answers.warnings)
    };
    let of = |key: &str, value: f64| (key.to_owned(), value);
    let in_text = vec![Warning::NaInText { rows: 3 }];
    assert_eq!(answers("count(country)"), (vec![of("", 1.0)], in_text));
    assert_eq!(answers("count(v)"), (vec![of("", 3.0)], vec![]));
    let ranks = vec![of("NA", 3.0), of("DE", 1.0)];
    assert_eq!(answers("top(2, country)"), (ranks, vec![Warning::NaRanked]));
    assert_eq!(answers("top(4, v)").1, vec![Warning::NaRanked]);
    let counts = vec![of("", 1.0), of("DE", 1.0), of("NA", 3.0)];
    assert_eq!(answers("count(*) by country"), (counts, vec![]));
}

/// Words for a missing number leave out the number, and not the message.
#[test]
fn answers__of_words_for_missing_numbers() {
    for word in ["", " ", "NA", "na", "N/A", "null", " NULL ", "\\N"] {
        for (query, expected) in [("avg(v)", 3.0), ("count(v)", 2.0), ("median(v)", 2.0)] {
            let mut answering = Answering::new(query.parse().unwrap(), &["v"]).unwrap();
            answering.set_messages_sent(0, 1).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            answering.push_message(0, [["2"], [word], ["4"]]).unwrap();
            let answers = answering.answers(P95).unwrap();
            assert_eq!(
                (answers.rows[0].estimate.value, answers.warnings),
                (expected, vec![]),
                "{word}"
            );
        }
    }
}

/// A row that lacks several numbers is one row, and a row beyond the condition none.
#[test]
fn answers__tell_rows_without_numbers() {
    let columns = ["k", "a", "b"];
    let rows = [["x", "1", ""], ["x", "NA", ""], ["y", "", "3"], ["y", "2", "4"], ["", "5", "6"]];
    for (query, expected) in [
        ("count(*)", 0),
        ("top(1, k)", 0),
        ("avg(a)", 2),
        ("ratio(a, b) by k", 3),
        ("SELECT count(*), sum(a), median(b) GROUP BY k", 3),
        ("SELECT avg(a), sum(b) WHERE k = 'y'", 1),
        ("SELECT avg(b) WHERE a > 0", 1),
    ] {
        let mut answering = Answering::new(query.parse().unwrap(), &columns).unwrap();
        answering.push_message(0, rows).unwrap();
        answering.push_message(0, [["x", "soon", "now"]]).err();
        answering.set_messages_sent(0, answering.messages()).unwrap();
        let missing = answering.answers(P95).unwrap().missing;
        assert_eq!(missing, expected, "{query}");
    }
}

/// Each column of functions, keys and the condition, once and in order.
#[test]
fn positions__are_all_columns_of_the_query() {
    let columns = ["z", "a", "b", "k", "c", "l"];
    for (query, expected) in [
        ("count(*)", vec![]),
        ("avg(a) by k", vec![1, 3]),
        ("top(1, l)", vec![5]),
        ("SELECT avg(b), max(b) WHERE c > 1 AND a < 2 GROUP BY l, k", vec![1, 2, 3, 4, 5]),
    ] {
        let answering = Answering::new(query.parse().unwrap(), &columns).unwrap();
        assert_eq!(answering.positions().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn push_message__bad_rows_leave_the_message_out() {
    for query in ["avg(a)", "avg(a) by k", "median(a)", "ratio(a, b)"] {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "a", "b"]).unwrap();
        for bad in ["soon", "inf", "NaN", "1e99"] {
            let error = answering.push_message(0, [["x", "1", "1"], ["x", bad, "1"]]);
            let said = error.unwrap_err().to_string();
            assert!(!said.contains('\n') && answering.messages() == 0, "{query}: {said}");
        }
        let error = answering.push_message(0, [["x"]]).unwrap_err();
        assert!(error.to_string().contains("a row of 1 values lacks column"), "{error}");
        assert_eq!(answering.answers(P95).map(|answers| answers.rows.len()).unwrap_or(0), 0);
    }
    let error = Answering::new("avg(a) by k".parse().unwrap(), &["a", "k", "a"]).unwrap_err();
    assert!(error.to_string().starts_with("several columns"), "{error}");
    assert!(Answering::new("count(*) by k".parse().unwrap(), &["a", "k", "a"]).is_ok());
    let error = Answering::new("avg(c)".parse().unwrap(), &["k", "a"]).unwrap_err();
    assert_eq!(error.to_string(), "the table has no column \"c\": it has k, a");
}

#[test]
fn overall__is_over_all_keys() {
    let mut answering = Answering::new("avg(a) by k".parse().unwrap(), &["k", "a", "b"]).unwrap();
    answering.push_message(0, ROWS).unwrap();
    assert_eq!(answering.overall(P95).unwrap().unwrap().value, 3.0);
    let Answers { warnings, keys_seen_from, .. } = answering.answers(P95).unwrap();
    assert_eq!((warnings, keys_seen_from), (vec![Warning::UnseenKeys { keys: None }], None));
}

#[test]
fn set_exact_records__narrows_sums_and_checks_all_answers() {
    let answers = |query: &str, exact: Option<f64>| {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
        answering.set_messages_sent(0, 100).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..80 {
            // 1 to 20 rows, which add up to some ten times as much.
            let rows =
                (0..=message * 7 % 20).map(|_| ["x", if message % 3 == 0 { "9" } else { "10" }]);
            answering.push_message(0, rows).unwrap();
        }
        exact.into_iter().for_each(|exact| answering.set_exact_records(0, exact).unwrap());
        let row = answering.answers(P95).unwrap().rows.remove(0).estimate;
        let overall = answering.overall(P95).unwrap().unwrap_or(row.clone());
        let is_one = |w: &&Warning| matches!(w, Warning::ContradictsExact { .. });
        let warnings = answering.answers(P95).unwrap().warnings;
        let contradicts = row.warnings.iter().chain(&warnings).any(|w| is_one(&w));
        (row.half_width(), overall.half_width(), contradicts)
    };
    let exact = Some(1_060.0);
    for query in ["sum(a)", "count(*)", "sum(a) by k", "avg(a)", "median(a) by k", "top(1, k)"] {
        assert!(!answers(query, None).2 && !answers(query, exact).2, "{query}");
        assert!(answers(query, Some(4_000.0)).2, "{query}");
    }
    assert!(answers("sum(a)", exact).0 < answers("sum(a)", None).0 / 3.0);
    assert_eq!(answers("count(*)", exact).0, 0.0);
    assert_eq!(answers("count(*) by k", exact).1, 0.0);
    assert!(answers("count(*) by k", exact).0 > 0.0);
}

/// The total is of all rows, whatever a query counts of them.
#[test]
fn push_totals__is_compared_with_all_rows() {
    // Of 1 to 20 rows of a message, some lack the key, a value, or a denominator.
    let rows = |message: u32| {
        let row = move |row: u32| {
            let key = if (row + message).is_multiple_of(3) { "" } else { "x" };
            let a = if (row + message).is_multiple_of(2) { "NA" } else { "5" };
            let b = if row.is_multiple_of(4) { "" } else { "70" };
            [key, a, b]
        };
        (0..=message * 7 % 20).map(row)
    };
    let count: usize = (0..100).map(|message| rows(message).count()).sum();
    for query in [
        "count(*)",
        "sum(a)",
        "count(a)",
        "avg(a)",
        "ratio(a, b)",
        "median(a)",
        "top(1, k)",
        "top(1, a)",
        "count(*) by k",
        "sum(a) by k",
        "count(a) by k",
        "avg(a) by k",
        "ratio(a, b) by k",
        "quantile(a, 0.9) by k",
    ] {
        for (records, arrived, is_contradicted) in [
            (count, 80, false),
            (count, 100, false),
            (count * 4, 80, true),
            (count / 4, 80, true),
            (count + 1, 100, true),
        ] {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "a", "b"]).unwrap();
            answering.set_messages_sent(0, 100).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            let totals = format!("records {records}\nmessages 100\n");
            answering.push_totals(0, totals.as_bytes()).unwrap();
            for message in 0..arrived {
                answering.push_message(0, rows(message)).unwrap();
            }
            let Answers { rows, warnings, .. } = answering.answers(P95).unwrap();
            let own = rows.iter().flat_map(|row| &row.estimate.warnings);
            let number = own.chain(&warnings).filter(|warning| is_contradiction(warning)).count();
            let expected = if is_contradicted { rows.len() } else { 0 };
            assert_eq!(number, expected, "{query}, {records} records, {arrived} messages");
            let overall = answering.overall(P95).unwrap();
            let number = overall.iter().flat_map(|e| &e.warnings).filter(|w| is_contradiction(w));
            assert_eq!(number.count(), usize::from(is_contradicted && overall.is_some()));
        }
    }
}

fn is_contradiction(warning: &Warning) -> bool {
    matches!(warning, Warning::ContradictsExact { .. })
}

/// The sums and counts of a job with missing values, with and without totals.
#[test]
fn push_totals__narrows_sums_and_counts_of_columns_with_missing_values() {
    let row = |row: u32| {
        let v = if row.is_multiple_of(50) { "NA" } else { ["10", "11"][row as usize % 2] };
        [["x", "y", "z"][row as usize % 3], v]
    };
    let answer = |query: &str, with_totals: bool| {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "v"]).unwrap();
        answering.set_messages_sent(0, 200).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        let mut begin = 0;
        for message in 0..200 {
            let rows = begin..begin + 1 + message * 7 % 20;
            begin = rows.end;
            if message < 120 {
                answering.push_message(0, rows.map(row)).unwrap();
            }
        }
        let totals = format!("records {begin}\n");
        let totals = Some(totals).filter(|_| with_totals);
        totals.iter().for_each(|text| answering.push_totals(0, text.as_bytes()).unwrap());
        let estimate = answering.answers(P95).unwrap().rows.remove(0).estimate;
        let of = |is_asked: fn(&[&str; 2]) -> bool| (0..begin).map(row).filter(is_asked);
        let truth = match query {
            "sum(v)" => of(|row| row[1] != "NA").map(|row| row[1].parse::<f64>().unwrap()).sum(),
            "count(v)" => of(|row| row[1] != "NA").count() as f64,
            "count(*) by k" => of(|row| row[0] == "x").count() as f64,
            _ => of(|row| row[0] == "x" && row[1] != "NA").count() as f64,
        };
        assert!(estimate.contains(truth), "{query}, {with_totals}: {estimate} of {truth}");
        estimate
    };
    for (query, factor) in
        [("sum(v)", 5.0), ("count(v)", 5.0), ("count(*) by k", 3.0), ("count(v) by k", 3.0)]
    {
        let (plain, exact) = (answer(query, false), answer(query, true));
        let times = plain.half_width() / exact.half_width();
        assert!(times > factor, "{query}: {plain} is {times} times as wide as {exact}");
        assert_eq!(exact.warnings, [], "{query}");
    }
}

/// A count of all rows is known before the sample says anything.
#[test]
fn push_totals__makes_a_count_exact_whatever_is_missing() {
    let mut answering = Answering::new("count(*)".parse().unwrap(), &["k"]).unwrap();
    answering.push_totals(0, b"records 1000\nmessages 50\n").unwrap();
    let exact = |answering: &Answering| {
        let count = answering.answers(P95).unwrap().rows.remove(0).estimate;
        (count.value, count.low, count.high, count.warnings)
    };
    assert_eq!(exact(&answering), (1_000.0, 1_000.0, 1_000.0, vec![]));
    answering.push_message(0, [["x"]; 20]).unwrap();
    // Nothing is known of N and of the order, and few messages arrived.
    assert_eq!(exact(&answering), (1_000.0, 1_000.0, 1_000.0, vec![]));
    answering.set_messages_sent(0, 50).unwrap();
    assert_eq!(exact(&answering), (1_000.0, 1_000.0, 1_000.0, vec![]));
    // Another sender states no totals.
    answering.set_messages_sent(1, 100).unwrap();
    answering.set_delivery(1, &Delivery::shuffled()).unwrap();
    (0..60).for_each(|rows| answering.push_message(1, vec![["y"]; 1 + rows % 7]).unwrap());
    let (value, low, high, warnings) = exact(&answering);
    assert!((1_350.0..1_450.0).contains(&value) && low > 1_300.0 && high < 1_500.0, "{value}");
    assert_eq!(warnings, []);
}

/// The sender ended before the end of its table: the totals are of more messages than it sent.
#[test]
fn push_totals__of_a_table_that_was_cut_off_has_no_effect() {
    for query in ["count(*)", "sum(v)", "count(*) by k", "avg(v)", "top(1, k)"] {
        let answers = |totals: Option<&[u8]>, sent: &[u64]| {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "v"]).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            totals.iter().for_each(|text| answering.push_totals(0, text).unwrap());
            for message in 0..50 {
                answering.push_message(0, vec![["x", "3"]; 1 + message % 9]).unwrap();
            }
            sent.iter().for_each(|sent| answering.set_messages_sent(0, *sent).unwrap());
            answering.answers(P95).unwrap()
        };
        let totals = Some(&b"records 4000\nmessages 1000\n"[..]);
        for sent in [&[60][..], &[1_000, 60]] {
            assert_eq!(answers(totals, sent), answers(None, sent), "{query}, {sent:?}");
        }
        let whole = answers(totals, &[1_000]);
        assert!(query == "avg(v)" || query.starts_with("top") || whole != answers(None, &[1_000]));
    }
}

#[test]
fn push_totals__refuses_bad_messages_and_others() {
    for query in ["count(*)", "sum(v) by k", "avg(v)", "median(v)", "top(1, k)"] {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "v"]).unwrap();
        let error = answering.push_totals(0, b"k,v\n").unwrap_err();
        assert!(error.to_string().contains("line 1 is no fact"), "{error}");
        answering.push_totals(0, b"columns 2\n").unwrap();
        answering.push_totals(0, b"records 7\nmessages 3\n").unwrap();
        answering.push_totals(0, b"records 7\n").unwrap();
        for other in [&b"records 8\n"[..], b"records 7\nmessages 4\n"] {
            let error = answering.push_totals(0, other).unwrap_err();
            let is_conflict =
                matches!(error, QueryError::Answer(AnswerError::Conflict { stratum: 0, .. }));
            assert!(is_conflict, "{error}");
        }
    }
}

/// Found by fuzzing the C interface.
#[test]
fn set_messages_sent__takes_any_numbers() {
    for query in ["sum(a)", "avg(a) by k", "median(a)", "top(1, k)"] {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
        for stratum in 0..2 {
            answering.set_messages_sent(stratum, u64::MAX).unwrap();
            answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            answering.push_message(stratum, [["x", "1"]]).unwrap();
        }
        let answers = answering.answers(P95).unwrap();
        assert_eq!(answers.rows[0].estimate.messages_sent, Some(u64::MAX), "{query}");
    }
}

/// An error leaves the answers as they were.
#[test]
fn set_messages_sent__of_too_many_strata_changes_nothing() {
    let mut answering = Answering::new("avg(a)".parse().unwrap(), &["a"]).unwrap();
    (0..40).for_each(|row| answering.push_message(0, [[(row % 7).to_string()]]).unwrap());
    answering.set_messages_sent(0, 50).unwrap();
    let totals = 1..crate::stratum::STRATA_MAX as u32;
    totals.for_each(|stratum| answering.set_exact_records(stratum, 7.0).unwrap());
    let before = answering.overall(P95);
    let stratum = crate::stratum::STRATA_MAX as u32;
    let refused = answering.set_messages_sent(stratum, 9);
    assert!(matches!(refused, Err(AnswerError::TooManyStrata { .. })), "{refused:?}");
    assert_eq!(answering.overall(P95), before);
}

/// Keys that a removed sender's records had no room for are no doubt about the others'.
#[test]
fn remove_stratum__takes_its_uncounted_records_along() {
    for query in ["sum(a) by k", "avg(a) by k", "median(a) by k", "top(3, k)"] {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
        answering.push_message(0, [["x", "1"], ["y", "2"]]).unwrap();
        answering.set_messages_sent(0, 1).unwrap();
        let key = |key: u32| [format!("k{key}"), "7".to_owned()];
        (0..200).for_each(|message| {
            answering.push_message(1, (0..60).map(|row| key(60 * message + row))).unwrap();
        });
        let is_uncounted = |answering: &Answering| {
            let answers = answering.answers(P95);
            let is_one = |warning: &Warning| matches!(warning, Warning::UncountedRecords { .. });
            let rows = |answers: Answers| {
                let rows = answers.rows.into_iter().flat_map(|row| row.estimate.warnings);
                rows.chain(answers.warnings).any(|warning| is_one(&warning))
            };
            answers.map(rows)
        };
        answering.set_messages_sent(1, 200).unwrap();
        assert_eq!(is_uncounted(&answering), Ok(true), "{query}");
        answering.remove_stratum(1);
        assert_eq!(is_uncounted(&answering), Ok(false), "{query}");
        answering.push_message(0, [["z", "1"]]).expect_err("all messages of the sender arrived");
    }
}

/// The messages of the other stratum have the same answers as alone.
#[test]
fn remove_stratum__leaves_the_answers_of_the_others() {
    for query in ["sum(a)", "avg(a) by k", "median(a)", "median(a) by k", "top(3, k)"] {
        let with = |strata: &[u32]| {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
            for stratum in strata {
                let key = ["x", "y"][*stratum as usize];
                for _ in 0..40 {
                    answering.push_message(*stratum, [[key, "7"], ["both", "5"]]).unwrap();
                }
            }
            if strata.contains(&1) {
                answering.remove_stratum(1);
            }
            (0..5).for_each(|_| answering.push_message(0, [["x", "9"]]).unwrap());
            answering.set_messages_sent(0, 45).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            let Answers { rows, .. } = answering.answers(P95).unwrap();
            let values =
                rows.into_iter().map(|row| (row.key, row.estimate.value, row.estimate.messages));
            (answering.messages(), values.collect::<Vec<_>>())
        };
        assert_eq!(with(&[1, 0]), with(&[0]), "{query}");
    }
}

proptest! {
    #[test]
    fn push_message__never_panics(
        query in prop_oneof![
            Just("sum(a)"), Just("avg(a) by k"), Just("median(a) by k"), Just("top(2, k)"),
            Just("ratio(a, k)"), Just("count(a) by k"),
        ],
        rows in prop::collection::vec(prop::collection::vec("[-0-9.eNA ]{0,5}", 0..4), 0..9),
    ) {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
        let _ = answering.push_message(0, &rows);
        let _ = answering.set_messages_sent(0, 3);
        if let Ok(answers) = answering.answers(P95) {
            for Row { estimate, .. } in answers.rows {
                prop_assert!(estimate.low <= estimate.high);
            }
        }
    }
}
