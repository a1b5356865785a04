//! Strata whose messages all agree, beside others that vary: their rare values may be missing, and
//! no width shows it.

use approx_answers::{
    AcceptedError, Action, Answering, Confidence, Delivery, Estimate, Planner, Sample, Warning,
};
use rand::{RngExt, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const P95: Confidence = Confidence::P95;

/// A sender's messages in the order of arrival, and how many arrive. A number is the total of ten
/// records, and a text has their lines.
type Sender<T = f64> = (Vec<T>, usize);

fn sample(senders: &[Sender]) -> Sample {
    let mut sample = Sample::new();
    for (stratum, (totals, arrived)) in (0..).zip(senders) {
        sample.set_messages_sent(stratum, totals.len() as u64).unwrap();
        sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        totals[..*arrived].iter().for_each(|total| sample.push(stratum, 10, *total).unwrap());
    }
    sample
}

fn answering(query: &str, senders: &[Sender<String>], has_totals: bool) -> Answering {
    let mut answering = Answering::of_csv(query.parse().unwrap(), b"k,v\n").unwrap();
    for (stratum, (messages, arrived)) in (0..).zip(senders) {
        answering.set_messages_sent(stratum, messages.len() as u64).unwrap();
        answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        for message in &messages[..*arrived] {
            answering.push_csv(stratum, message.as_bytes()).unwrap();
        }
        if has_totals {
            let records: usize = messages.iter().map(|text| text.lines().count()).sum();
            let text = format!("records {records}\nmessages {}\n", messages.len());
            answering.push_totals(stratum, text.as_bytes()).unwrap();
        }
    }
    answering
}

/// Jobs that miss without a warning, of 200. `truth` takes the keys and values of all rows.
fn silent(
    query: &str,
    has_totals: bool,
    job: impl Fn(&mut ChaCha8Rng) -> Vec<Sender<String>>,
    truth: impl Fn(&[(&str, f64)]) -> f64,
) -> u32 {
    let is_silent = |seed: &u64| {
        let senders = job(&mut ChaCha8Rng::seed_from_u64(*seed));
        let rows = senders.iter().flat_map(|(messages, _)| messages).flat_map(|m| m.lines());
        let rows: Vec<(&str, f64)> = rows
            .map(|row| row.split_once(',').unwrap())
            .map(|(key, value)| (key, value.parse().unwrap_or(f64::NAN)))
            .collect();
        let answers = answering(query, &senders, has_totals).answers(P95).unwrap();
        let found = &answers.rows[0].estimate;
        !found.contains(truth(&rows)) && found.warnings.is_empty()
    };
    (0..200).filter(is_silent).count() as u32
}

/// Binomial(200, 5 %) exceeds 27 with a probability of 9.6e-7.
const SILENT_MAX: u32 = 27;

fn shuffled<T>(mut messages: Vec<T>, draws: &mut ChaCha8Rng) -> Vec<T> {
    messages.shuffle(draws);
    messages
}

fn values(rows: &[(&str, f64)]) -> impl Iterator<Item = f64> {
    rows.iter().map(|(_, value)| *value).filter(|value| !value.is_nan())
}

fn total(rows: &[(&str, f64)]) -> f64 {
    values(rows).sum()
}

fn count(rows: &[(&str, f64)]) -> f64 {
    rows.len() as f64
}

/// 300 messages, of which 15 have a total.
fn with_rare(total: f64, draws: &mut ChaCha8Rng) -> Vec<f64> {
    shuffled((0..300).map(|i| if i < 15 { total } else { 0.0 }).collect(), draws)
}

/// 300 messages with totals around a level.
fn varying(level: f64, draws: &mut ChaCha8Rng) -> Vec<f64> {
    (0..300).map(|_| level + f64::from(draws.random_range(0..10))).collect()
}

fn agreeing(estimate: &Estimate) -> Option<u64> {
    estimate.warnings.iter().find_map(|warning| match warning {
        Warning::NoVariation { messages } => Some(*messages),
        _ => None,
    })
}

#[test]
fn sum__of_a_quiet_and_a_varying_sender_is_in_doubt() {
    let draws = &mut ChaCha8Rng::seed_from_u64(1);
    let quiet = (vec![0.0; 300], 30);
    for ask in [Sample::sum, Sample::mean] {
        let of = |senders: &[Sender]| ask(&sample(senders), P95).unwrap();
        let found = of(&[quiet.clone(), (varying(0.0, draws), 30)]);
        assert_eq!(found.warnings, [Warning::NoVariation { messages: 30 }]);
        // A few messages of three senders together say as little.
        let few = [12, 10, 8].map(|arrived| (vec![0.0; 300], arrived));
        let found = of(&[few.to_vec(), vec![(varying(0.0, draws), 30)]].concat());
        assert_eq!(agreeing(&found), Some(30), "{found:?}");
        // Values that differ from sender to sender only.
        let fixed = [0.0, 7.0].map(|total| (vec![total; 300], 20));
        let found = of(&fixed);
        assert_eq!(agreeing(&found), Some(40), "{found:?}");
        // All messages of the quiet sender arrived.
        let whole = (vec![0.0; 30], 30);
        assert_eq!(agreeing(&of(&[whole, (varying(0.0, draws), 30)])), None);
    }
}

/// None of the 15 arrives in 20 % of the jobs, and the interval has the width of the other sender.
#[test]
fn sum__of_a_quiet_and_a_varying_sender_seldom_misses_silently() {
    let ask = [Sample::sum, Sample::mean];
    let mut silent = [0; 2];
    for seed in 0..1_000 {
        let draws = &mut ChaCha8Rng::seed_from_u64(seed);
        let senders = [(with_rare(100.0, draws), 30), (varying(0.0, draws), 30)];
        let sum: f64 = senders.iter().flat_map(|sender| &sender.0).sum();
        for ((ask, truth), silent) in ask.iter().zip([sum, sum / 6_000.0]).zip(&mut silent) {
            let found = ask(&sample(&senders), P95).unwrap();
            *silent += u32::from(!found.contains(truth) && found.warnings.is_empty());
        }
    }
    // Binomial(1,000, 5 %) exceeds 86 with a probability of 6.5e-7.
    assert!(silent.iter().all(|silent| *silent <= 86), "{silent:?} of seeds 0 to 999");
}

#[test]
fn look_at__does_not_end_on_the_width_of_other_senders() {
    let (mut met, mut wrong) = (0, 0);
    for seed in 0..300 {
        let draws = &mut ChaCha8Rng::seed_from_u64(seed);
        let senders = [with_rare(400.0, draws), varying(100.0, draws)];
        let truth: f64 = senders.iter().flatten().sum();
        let mut answering = Answering::of_csv("sum(v)".parse().unwrap(), b"v\n").unwrap();
        let accepted = AcceptedError::relative(0.05).unwrap();
        let mut planner = Planner::new(accepted, P95).with_sources(2);
        for stratum in 0..2 {
            answering.set_messages_sent(stratum, 300).unwrap();
            answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            planner.source_started(stratum, 1.0);
        }
        for message in 0..300 {
            for (stratum, totals) in (0..).zip(&senders) {
                answering.push_csv(stratum, format!("{}\n", totals[message]).as_bytes()).unwrap();
            }
            if planner.look_at(&answering).unwrap().contains(&Action::End) {
                break;
            }
        }
        if planner.report().is_some_and(|report| report.is_met()) {
            met += 1;
            wrong +=
                u32::from(!planner.answers(&answering).unwrap().rows[0].estimate.contains(truth));
        }
    }
    // Binomial(300, 5 %) exceeds 36 with a probability of 5e-7.
    assert!(wrong <= 36, "{wrong} of {met} that met the error");
}

/// Strata that are alike, and of which some agree by chance.
#[test]
fn sum__of_equal_senders_is_in_no_doubt() {
    let many = [(20, 0.1, 30, 100), (50, 0.2, 10, 30), (4, 0.15, 30, 60), (100, 0.5, 3, 9)];
    let rates = many.into_iter().chain([(2, 0.1, 30, 100), (3, 0.15, 30, 100)]);
    for (senders, rare, arrived, sent) in rates {
        let (mut doubts, mut any_agrees) = (0, 0);
        for seed in 0..400 {
            let draws = &mut ChaCha8Rng::seed_from_u64(seed);
            let totals =
                |_| (0..sent).map(|_| f64::from(u8::from(draws.random_bool(rare)))).collect();
            let senders: Vec<Sender> = (0..senders).map(totals).map(|all| (all, arrived)).collect();
            let agrees = |(all, _): &Sender| all[..arrived].iter().all(|total| *total == all[0]);
            any_agrees += u32::from(senders.iter().any(agrees));
            let found = sample(&senders).sum(P95).unwrap();
            doubts += u32::from(agreeing(&found).is_some());
        }
        // Binomial(400, 5 %) exceeds 44 with a probability of 4.6e-7.
        assert!(doubts <= 44, "{doubts} of {any_agrees}: {senders}, {rare}");
    }
}

/// Two or three messages of each sender hold a key, with one rating each. Those of some agree.
#[test]
fn answers__of_ratings_of_many_senders_are_in_no_doubt() {
    for query in ["avg(v) by k", "sum(v) by k", "median(v) by k", "top(1, k)"] {
        let mut doubts = 0;
        for seed in 0..60 {
            let draws = &mut ChaCha8Rng::seed_from_u64(seed);
            let mut message = || {
                let rating = [5, 5, 5, 5, 5, 5, 5, 4, 4, 1][draws.random_range(0..10)];
                let key = if draws.random_bool(0.2) { "K" } else { "Z" };
                format!("{key},{rating}\n")
            };
            let senders: Vec<Sender<String>> =
                (0..40).map(|_| ((0..30).map(|_| message()).collect(), 12)).collect();
            let answers = answering(query, &senders, false).answers(P95).unwrap();
            let rows = answers.rows.iter().flat_map(|row| &row.estimate.warnings);
            // A few low ratings are a tail.
            let is_tail = |warning: &&Warning| matches!(warning, Warning::HeavyTail { .. });
            let mut others = rows.chain(&answers.warnings).filter(|warning| !is_tail(warning));
            doubts += u32::from(others.any(Warning::is_doubt));
        }
        // Binomial(60, 5 %) exceeds 14 with a probability of 2e-7.
        assert!(doubts <= 14, "{query}: {doubts} of 60");
    }
}

#[test]
fn sum__of_senders_with_two_messages_has_a_warning() {
    let draws = &mut ChaCha8Rng::seed_from_u64(2);
    let mut of = |senders: &[(usize, usize, usize)]| {
        let senders = senders.iter().flat_map(|&(senders, arrived, sent)| {
            (0..senders).map(move |_| (arrived, sent)).collect::<Vec<_>>()
        });
        let all = |sent| (0..sent).map(|_| draws.random()).collect::<Vec<f64>>();
        let mut all = all;
        let senders: Vec<Sender> = senders.map(|(arrived, sent)| (all(sent), arrived)).collect();
        sample(&senders).sum(P95).unwrap().warnings
    };
    let thin = |stratum| vec![Warning::ThinStratum { stratum, messages: 2 }];
    assert_eq!(of(&[(20, 2, 1_000)]), thin(0));
    assert_eq!(of(&[(2, 30, 100), (18, 2, 1_000)]), thin(2));
    assert!(!thin(0)[0].is_doubt());
    // Few of the missing messages are those of thin strata.
    assert_eq!(of(&[(4, 30, 100), (2, 2, 12)]), []);
    assert_eq!(of(&[(20, 10, 1_000)]), []);
    // One warning is enough.
    assert_eq!(of(&[(10, 2, 1_000)]), [Warning::FewMessages { messages: 20 }]);
}

/// Ten of a sender's 300 messages have values, and none of them arrives in a third of the jobs.
#[test]
fn answers__of_a_sender_without_values_are_in_doubt() {
    let job = |sent: usize| {
        move |draws: &mut ChaCha8Rng| {
            let varying = (0..sent).map(|_| format!("a,{}\n", draws.random_range(0..10)).repeat(2));
            let varying: Vec<String> = varying.collect();
            let rare = (0..300).map(|i| if i < 10 { "b,1000\n" } else { "b,NA\n" }.repeat(2));
            vec![(varying, 60), (shuffled(rare.collect(), draws), 30)]
        }
    };
    let mean = |rows: &[(&str, f64)]| total(rows) / values(rows).count() as f64;
    // All messages of the other sender arrived, or half of them.
    for (sent, has_totals) in [(60, false), (120, true)] {
        let found = silent("sum(v)", has_totals, job(sent), total);
        assert!(found <= SILENT_MAX, "sum, {sent}: {found}");
        let found = silent("avg(v)", has_totals, job(sent), mean);
        assert!(found <= SILENT_MAX, "avg, {sent}: {found}");
    }
}

/// The ratios of the others agree, and their sums don't.
#[test]
fn sum__of_a_quiet_sender_beside_one_price_is_in_doubt() {
    let job = |draws: &mut ChaCha8Rng| {
        let price = (0..300).map(|_| "a,5\n".repeat(draws.random_range(8..13))).collect();
        let rare = (0..300).map(|i| if i < 15 { "a,1000\n" } else { "a,0\n" }.repeat(10));
        vec![(price, 60), (shuffled(rare.collect(), draws), 30)]
    };
    for query in ["sum(v)", "sum(v) by k"] {
        let found = silent(query, false, job, total);
        assert!(found <= SILENT_MAX, "{query}: {found}");
    }
}

/// A few messages have more records than those that arrived, which all have equally many.
#[test]
fn count__of_equal_messages_beside_others_has_a_warning() {
    let job = |draws: &mut ChaCha8Rng| {
        let varying = (0..300).map(|_| "K,1\n".repeat(draws.random_range(5..15))).collect();
        let rare = (0..300).map(|i| "K,1\n".repeat(if i < 15 { 100 } else { 10 })).collect();
        vec![(varying, 30), (shuffled(rare, draws), 30)]
    };
    for query in ["count(*)", "count(v)", "count(*) by k", "top(1, k)"] {
        let found = silent(query, false, job, count);
        assert!(found <= SILENT_MAX, "{query}: {found}");
    }
}

/// Totals bound all records, and not those of a key.
#[test]
fn count__of_a_key_with_an_equal_share_has_a_warning_with_totals() {
    let job = |draws: &mut ChaCha8Rng| {
        let text =
            |i| if i < 10 { "K,1\n".repeat(10) } else { "K,1\n".to_owned() + &"Z,1\n".repeat(9) };
        vec![(shuffled((0..1_000).map(text).collect(), draws), 100)]
    };
    let of_key = |rows: &[(&str, f64)]| rows.iter().filter(|(key, _)| *key == "K").count() as f64;
    let found = silent("count(*) by k", true, job, of_key);
    assert!(found <= SILENT_MAX, "{found}");
}

/// All rows of a sender lie below the quantile, in messages of different numbers of rows.
#[test]
fn quantile__of_a_quiet_sender_allows_for_its_rare_values() {
    let job = |draws: &mut ChaCha8Rng| {
        let varying = |draws: &mut ChaCha8Rng| {
            (0..10).map(|_| format!("a,{}\n", draws.random::<f64>())).collect()
        };
        let varying: Vec<String> = (0..300).map(|_| varying(draws)).collect();
        let rare = (0..300)
            .map(|i| if i < 15 { "b,100\n" } else { "b,0\n" }.repeat(draws.random_range(7..14)));
        let rare: Vec<String> = rare.collect();
        vec![(varying, 150), (shuffled(rare, draws), 30)]
    };
    let truth = |rows: &[(&str, f64)]| {
        let mut values: Vec<f64> = values(rows).collect();
        values.sort_by(f64::total_cmp);
        values[(0.95 * values.len() as f64).ceil() as usize - 1]
    };
    let found = silent("quantile(v, 0.95)", false, job, truth);
    assert!(found <= SILENT_MAX, "{found}");
}
