//! Keys that may be in missing messages: of a sender without them, and of all.

use approx_answers::{
    AcceptedError, Action, Answering, Answers, Confidence, Delivery, Estimate, Planner, Warning,
};
use rand::{RngExt, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const P95: Confidence = Confidence::P95;
const QUERIES: [&str; 5] =
    ["sum(v) by k", "count(*) by k", "avg(v) by k", "median(v) by k", "top(2, k)"];

/// An answering of senders with these numbers of messages.
fn of_senders(query: &str, sent: impl IntoIterator<Item = u64>) -> Answering {
    let mut answering = Answering::of_csv(query.parse().unwrap(), b"k,v\n").unwrap();
    for (stratum, sent) in (0..).zip(sent) {
        answering.set_messages_sent(stratum, sent).unwrap();
        answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
    }
    answering
}

fn row<'a>(answers: &'a Answers, key: &str) -> Option<&'a Estimate> {
    let row = answers.rows.iter().find(|row| row.key == [key]);
    row.map(|row| &row.estimate)
}

fn is_unseen_in(warning: &Warning) -> bool {
    matches!(warning, Warning::KeyUnseenIn { .. })
}

/// A complete sender has the key, and four of the thousand messages of another do. None of these
/// is among the 300 that arrive in a quarter of the jobs.
#[test]
fn answers__of_a_key_that_an_incomplete_sender_lacks_have_a_warning() {
    for query in QUERIES {
        let mut without_width = 0;
        for seed in 0..60 {
            let mut answering = of_senders(query, [50, 1_000]);
            for message in 0..50 {
                let text = format!("K,{}\nK,3\nA,1\n", message % 7);
                answering.push_csv(0, text.as_bytes()).unwrap();
            }
            let mut has_key: Vec<bool> = (0..1_000).map(|message| message < 4).collect();
            has_key.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
            for (message, has_key) in has_key[..300].iter().enumerate() {
                let own = if *has_key { "K,1000\n" } else { "" };
                let text = format!("A,{}\n{own}", message % 5);
                answering.push_csv(1, text.as_bytes()).unwrap();
            }
            let answers = answering.answers(P95).unwrap();
            let found = row(&answers, "K").unwrap();
            let is_absent = !has_key[..300].contains(&true);
            without_width += u32::from(is_absent);
            let expected = Warning::KeyUnseenIn { stratum: 1, messages: 300 };
            assert_eq!(found.warnings.contains(&expected), is_absent, "{query}, {seed}: {found:?}");
            // The rule of three bounds a count.
            let is_bound = is_absent && query.starts_with("count");
            assert!(!is_bound || found.contains(104.0), "{seed}: {found}");
            let others = row(&answers, "A").unwrap().warnings.iter();
            assert_eq!(others.filter(|warning| is_unseen_in(warning)).count(), 0, "{query}");
        }
        assert!((5..30).contains(&without_width), "{query}: {without_width}");
    }
}

/// Half of the messages of each sender arrive, and a key is in two of each. Some senders' messages
/// lack it by chance, which the others make up for.
#[test]
fn answers__of_a_common_key_of_many_senders_have_no_warning() {
    let (mut jobs, mut doubts, mut warned, mut misses) = (0, 0, 0, 0);
    for (senders, sent, arrived) in [(50, 40, 36), (20, 100, 90), (20, 100, 50)] {
        for seed in 0..40 {
            let draws = &mut ChaCha8Rng::seed_from_u64(seed);
            let mut answering = of_senders("sum(v) by k", (0..senders).map(|_| sent));
            let mut truths = [0; 2];
            for (stratum, message) in
                (0..senders).flat_map(|stratum| (0..sent).map(move |message| (stratum, message)))
            {
                let mut text = "Z,1\n".to_owned();
                for (key, truth) in (0..2).zip(&mut truths) {
                    if draws.random_bool(2.0 / sent as f64) {
                        let value = draws.random_range(50..70);
                        *truth += value;
                        text += &format!("k{key},{value}\n");
                    }
                }
                if message < arrived {
                    answering.push_csv(stratum, text.as_bytes()).unwrap();
                }
            }
            let answers = answering.answers(P95).unwrap();
            jobs += 1;
            doubts += u32::from(answers.warnings.iter().any(Warning::is_doubt));
            for (key, truth) in (0..2).zip(truths) {
                let found = row(&answers, &format!("k{key}")).unwrap();
                misses += u32::from(!found.contains(f64::from(truth)));
                warned += u32::from(found.warnings.iter().any(is_unseen_in));
            }
        }
    }
    // Binomial(120, 5 %) exceeds 20 with a probability of 5e-7, and Binomial(240, 5 %) exceeds 31
    // with one of 5e-7.
    assert!(jobs == 120 && doubts <= 20, "{doubts} of {jobs}");
    assert!(warned <= 31 && misses <= 31, "{warned} and {misses} of 240");
}

/// Each sender has keys of its own. Their rows have warnings that stop no plan.
#[test]
fn look_at__ends_for_keys_of_single_senders() {
    for query in ["avg(v) by k", "count(*) by k"] {
        let mut answering = of_senders(query, [4_000, 4_000]);
        let accepted = AcceptedError::relative(0.05).unwrap();
        let mut planner = Planner::new(accepted, P95).with_sources(2);
        (0..2).for_each(|stratum| _ = planner.source_started(stratum, 1.0));
        let ended = (0..4_000u32).find(|message| {
            for stratum in 0..2 {
                let value = 100 + (message.wrapping_mul(2_654_435_761) >> 27);
                let text = format!("k{stratum},{value}\n");
                answering.push_csv(stratum, text.as_bytes()).unwrap();
            }
            planner.look_at(&answering).unwrap().contains(&Action::End)
        });
        assert!(ended.is_some_and(|messages| messages < 1_000), "{query}: {ended:?}");
        let report = planner.report().unwrap();
        assert!(report.is_met() && report.warnings().into_iter().any(is_unseen_in), "{report:?}");
    }
}

/// Where a message of each 25 is missing, one with the key would have arrived.
#[test]
fn answers__of_a_key_that_would_have_arrived_have_no_warning() {
    for (arrived, is_warned) in [(96, false), (94, true)] {
        let mut answering = of_senders("sum(v) by k", [50, 100]);
        (0..50).for_each(|_| answering.push_csv(0, b"K,1\nA,2\n").unwrap());
        (0..arrived).for_each(|row| {
            answering.push_csv(1, format!("A,{}\n", row % 7).as_bytes()).unwrap();
        });
        let answers = answering.answers(P95).unwrap();
        assert_eq!(!row(&answers, "K").unwrap().warnings.is_empty(), is_warned, "{arrived}");
        assert_eq!(answers.keys_seen_from, Some(if is_warned { 2 } else { 1 }));
    }
}

/// A key in as many messages as stated, one of each of several senders, has a row.
#[test]
fn keys_seen_from__is_over_all_senders() {
    for (senders, sent, arrived, expected) in [(60, 20, 2, 29), (100, 10, 1, 29), (3, 10, 9, 2)] {
        let mut unseen = 0;
        for seed in 0..200 {
            let draws = &mut ChaCha8Rng::seed_from_u64(seed);
            let mut answering = of_senders("count(*) by k", (0..senders).map(|_| sent));
            for stratum in 0..senders {
                let at = draws.random_range(0..sent);
                for message in 0..arrived {
                    let has_key = stratum < expected as u32 && message == at;
                    let text: &[u8] = if has_key { b"Z,1\nK,1\n" } else { b"Z,1\n" };
                    answering.push_csv(stratum, text).unwrap();
                }
            }
            let answers = answering.answers(P95).unwrap();
            assert_eq!(answers.keys_seen_from, Some(expected), "{senders}");
            unseen += u32::from(row(&answers, "K").is_none());
        }
        // Binomial(200, 5 %) exceeds 27 with a probability of 9.6e-7.
        assert!(unseen <= 27, "{unseen} of 200: {senders} senders");
    }
    // No more than all of the missing ones.
    let mut answering = of_senders("count(*) by k", [10, 10]);
    (0..18).for_each(|message| answering.push_csv(message % 2, b"Z,1\n").unwrap());
    assert_eq!(answering.answers(P95).unwrap().keys_seen_from, Some(2));
}

/// N rounds to the number of missing messages.
#[test]
fn keys_seen_from__of_a_huge_number_of_messages() {
    let mut answering = of_senders("count(*) by k", [1 << 60]);
    (0..300).for_each(|_| answering.push_csv(0, b"Z,1\n").unwrap());
    let from = answering.answers(P95).unwrap().keys_seen_from.unwrap();
    // k of N messages are missing with a probability of exp(-300 k / N).
    let expected = 20f64.ln() / 300.0 * 2f64.powi(60);
    assert!((from as f64 / expected - 1.0).abs() < 1e-9, "{from}");
}

/// All messages arrived, and some of their keys aren't counted.
#[test]
fn keys_seen_from__is_unknown_with_keys_beyond_the_limit() {
    let queries = [("count(*) by k", 10_000), ("median(v) by k", 250), ("top(2, k)", 10_000)];
    for (query, limit) in queries {
        for (keys, expected) in [(limit, Some(0)), (2 * limit, None)] {
            let mut answering = of_senders(query, [10]);
            for message in 0..10 {
                let rows: String =
                    (message..keys).step_by(10).map(|k| format!("k{k},1\n")).collect();
                answering.push_csv(0, rows.as_bytes()).unwrap();
            }
            let answers = answering.answers(P95).unwrap();
            let is_uncounted =
                |warning: &Warning| matches!(warning, Warning::UncountedRecords { .. });
            assert_eq!(answers.warnings.iter().any(is_uncounted), expected.is_none(), "{query}");
            assert_eq!(answers.keys_seen_from, expected, "{query}, {keys}");
        }
    }
}

/// A sender's messages have no number. There is no key to speak of without `by`.
#[test]
fn answers__of_a_sender_without_numbers_speak_of_rows() {
    let mut answering = of_senders("median(v)", [300, 300]);
    for message in 0..60 {
        let text = format!("a,{}\n", message * 7 % 11);
        answering.push_csv(0, text.as_bytes()).unwrap();
        answering.push_csv(1, b"b,NA\n").unwrap();
    }
    let answers = answering.answers(P95).unwrap();
    let warnings = &answers.rows[0].estimate.warnings;
    assert_eq!(warnings, &[Warning::KeyUnseenIn { stratum: 1, messages: 60 }]);
    assert!(!warnings[0].to_string().contains("key"), "{}", warnings[0]);
}
