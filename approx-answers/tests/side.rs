//! Exact side information: a smaller variance, and a warning when the sample contradicts it.

#![expect(clippy::single_range_in_vec_init, reason = "lost messages are ranges")]

use approx_answers::{AnswerError, Answering, Confidence, Delivery, Gap, Order, Sample, Warning};
use rand::{
    RngExt,
    seq::{SliceRandom, index},
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// Messages of 1 to 30 records whose totals follow their records.
fn population(draws: &mut ChaCha8Rng) -> Vec<(u64, f64)> {
    let message = |draws: &mut ChaCha8Rng| {
        let records = draws.random_range(1..=30u64);
        (records, 10.0 * records as f64 + draws.random_range(-20.0..20.0))
    };
    (0..1_000).map(|_| message(draws)).collect()
}

fn sample(population: &[(u64, f64)], chosen: impl IntoIterator<Item = usize>) -> Sample {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, population.len() as u64).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    for i in chosen {
        sample.push(0, population[i].0, population[i].1).unwrap();
    }
    sample
}

fn is_contradicted(sample: &Sample) -> bool {
    let warnings = sample.sum(Confidence::P95).unwrap().warnings;
    warnings.iter().any(|warning| matches!(warning, Warning::ContradictsExact { .. }))
}

#[test]
fn exact_records__narrow_the_interval_and_keep_its_coverage() {
    let mut covered = 0;
    for seed in 0..1_000 {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        let population = population(&mut draws);
        let truth: f64 = population.iter().map(|message| message.1).sum();
        let records: u64 = population.iter().map(|message| message.0).sum();
        let mut sample = sample(&population, index::sample(&mut draws, 1_000, 300));
        let plain = sample.sum(Confidence::P95).unwrap();
        sample.set_exact_records(0, records as f64).unwrap();
        let exact = sample.sum(Confidence::P95).unwrap();
        assert!(exact.half_width() < plain.half_width() / 4.0, "seed {seed}");
        covered += u32::from(exact.contains(truth));
        let count = sample.count(Confidence::P95).unwrap();
        assert_eq!((count.value, count.half_width()), (records as f64, 0.0), "seed {seed}");
    }
    assert!((930..=970).contains(&covered), "{covered} of seeds 0 to 999");
}

/// Ratios of 30 messages have a bias that is small beside their own error. Those of 400 senders add
/// up, so that one of five intervals missed, and none with a warning.
#[test]
fn exact_records__of_many_senders_keep_the_coverage() {
    let (senders, jobs) = (400, 200);
    let mut misses = [0; 2];
    for seed in 0..jobs {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        let (mut sample, mut truth) = (Sample::new(), 0.0);
        for stratum in 0..senders {
            // Messages of many records have small totals.
            let mut messages: Vec<(u64, f64)> = (0..100)
                .map(|message| match message % 2 {
                    0 => (7, 40.0 + draws.random_range(-5.0..5.0)),
                    _ => (14, 20.0 + draws.random_range(-5.0..5.0)),
                })
                .collect();
            messages.shuffle(&mut draws);
            truth += messages.iter().map(|message| message.1).sum::<f64>();
            sample.set_messages_sent(stratum, 100).unwrap();
            sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            for (records, total) in &messages[..30] {
                sample.push(stratum, *records, *total).unwrap();
            }
        }
        misses[0] += u32::from(!sample.sum(Confidence::P95).unwrap().contains(truth));
        (0..senders).for_each(|stratum| sample.set_exact_records(stratum, 1_050.0).unwrap());
        misses[1] += u32::from(!sample.sum(Confidence::P95).unwrap().contains(truth));
    }
    // Binomial(200, 5 %) exceeds 27 with a probability of 9.6e-7.
    assert!(misses.iter().all(|misses| *misses <= 27), "{misses:?} of {jobs}");
}

#[test]
fn exact_records__narrow_the_interval_of_several_senders() {
    let mut draws = ChaCha8Rng::seed_from_u64(7);
    let mut both = Sample::new();
    for stratum in 0..20 {
        let population = population(&mut draws);
        both.set_messages_sent(stratum, 1_000).unwrap();
        both.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        for (records, total) in &population[..25] {
            both.push(stratum, *records, *total).unwrap();
        }
    }
    let plain = both.sum(Confidence::P95).unwrap();
    // Few messages of each sender are many together.
    (0..20).for_each(|stratum| both.set_exact_records(stratum, 15_500.0).unwrap());
    let exact = both.sum(Confidence::P95).unwrap();
    assert!(exact.half_width() < plain.half_width() / 4.0, "{exact} {plain}");
    assert!((exact.value / 3_100_000.0 - 1.0).abs() < 0.02, "{exact}");
}

#[test]
fn exact_records__ring_for_biased_samples_only() {
    let mut rings = 0;
    for seed in 0..1_000 {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        let population = population(&mut draws);
        let records: u64 = population.iter().map(|message| message.0).sum();
        let mut honest = sample(&population, index::sample(&mut draws, 1_000, 800));
        honest.set_exact_records(0, records as f64).unwrap();
        rings += u32::from(is_contradicted(&honest));

        let mut shortest: Vec<usize> = (0..1_000).collect();
        shortest.sort_by_key(|&i| population[i].0);
        let mut biased = sample(&population, shortest.into_iter().take(800));
        biased.set_exact_records(0, records as f64).unwrap();
        assert!(is_contradicted(&biased), "seed {seed}");
    }
    // The stated level is 1 in 100,000.
    assert!(rings <= 1, "{rings} of seeds 0 to 999");
}

#[test]
fn exact_records__a_short_last_message_is_no_contradiction() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 100).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    (0..80).for_each(|_| sample.push(0, 15, 1.0).unwrap());
    sample.set_exact_records(0, 99.0 * 15.0 + 4.0).unwrap();
    assert!(!is_contradicted(&sample));
}

#[test]
fn exact_records__a_wrong_total_of_a_complete_stratum_rings() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 3).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    (0..3).for_each(|_| sample.push(0, 15, 1.0).unwrap());
    sample.set_exact_records(0, 44.0).unwrap();
    assert!(is_contradicted(&sample));
}

#[test]
fn exact_records__below_the_records_that_arrived_ring() {
    // The 99 messages hold 1485.
    let mut sample = sample(&[(15, 1.0); 100], 0..99);
    sample.set_exact_records(0, 1_480.0).unwrap();
    assert!(is_contradicted(&sample));
    let is_one =
        |w: &Warning| matches!(w, Warning::ContradictsExact { statistic, .. } if *statistic < 0.0);
    assert!(sample.count(Confidence::P95).unwrap().warnings.iter().any(is_one));
}

/// A long row has a message of its own. If one of them arrives, its large value must show.
#[test]
fn exact_records__a_single_long_row_widens_the_interval() {
    let mut messages: Vec<(u64, f64)> =
        (0..29).map(|i| (10, 990.0 + f64::from(i * 20 % 29))).collect();
    messages.push((1, 9_000.0));
    messages.resize(300, (10, 1_000.0));
    let mut sample = sample(&messages, 0..30);
    let plain = sample.sum(Confidence::P95).unwrap();
    sample.set_exact_records(0, 2_910.0).unwrap();
    let sum = sample.sum(Confidence::P95).unwrap();
    assert!(sum.half_width() > plain.half_width(), "{sum} {plain}");
    assert!(sum.warnings.iter().any(|w| matches!(w, Warning::HeavyTail { .. })), "{sum:?}");
}

#[test]
fn exact_records__times_the_mean_are_the_sum() {
    let messages: Vec<(u64, f64)> =
        (0..100u32).map(|i| (u64::from(1 + i * 7 % 20), f64::from(i * i % 50))).collect();
    let mut sample = sample(&messages, 0..40);
    sample.set_exact_records(0, 1_050.0).unwrap();
    let [sum, mean] = [Sample::sum, Sample::mean].map(|ask| ask(&sample, Confidence::P95).unwrap());
    for (sum, mean) in [(sum.value, mean.value), (sum.low, mean.low), (sum.high, mean.high)] {
        assert!((sum - 1_050.0 * mean).abs() < 1e-9 * sum.abs(), "{sum} {mean}");
    }
}

#[test]
fn push_totals__of_a_stratum_without_messages_count_and_open_all_else() {
    let answer = |query: &str, totals: &[&str], messages: u32| {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
        for (stratum, totals) in (0..).zip(totals) {
            answering.push_totals(stratum, totals.as_bytes()).unwrap();
        }
        answering.set_messages_sent(0, 100).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        (0..messages).for_each(|_| answering.push_message(0, [["x", "1"]; 10]).unwrap());
        let answers = answering.answers(Confidence::P95)?;
        let row = &answers.rows[0].estimate;
        Ok((row.low, row.high, row.warnings.len() + answers.warnings.len()))
    };
    let totals = ["records 1000\nmessages 100\n", "records 500\nmessages 50\n"];
    for messages in [0, 1, 40] {
        assert_eq!(answer("count(*)", &totals, messages), Ok((1_500.0, 1_500.0, 0)), "{messages}");
    }
    let empty = Err(AnswerError::EmptyStratum { stratum: 1, sent: 50 });
    for query in
        ["sum(a)", "count(a)", "count(*) by k", "sum(a) by k", "avg(a)", "median(a)", "top(1, k)"]
    {
        assert_eq!(answer(query, &totals, 40), empty, "{query}");
    }
    assert_eq!(answer("sum(a)", &[totals[0], "records 500\n"], 40), Err(AnswerError::NoMessages));
    // A table without records.
    let nothing = answer("sum(a)", &[totals[0], "records 0\nmessages 0\n"], 40).unwrap();
    assert_eq!(nothing, answer("sum(a)", &totals[..1], 40).unwrap());
}

#[test]
fn delivery__warns_of_incomplete_strata_that_are_no_fair_sample() {
    let sample = |sent: u64, delivery: Option<&Delivery>| {
        let mut sample = Sample::new();
        sample.set_messages_sent(0, sent).unwrap();
        (0..40).for_each(|i| sample.push(0, 15, f64::from(i)).unwrap());
        delivery.into_iter().for_each(|delivery| sample.set_delivery(0, delivery).unwrap());
        sample.mean(Confidence::P95).unwrap().warnings
    };
    let unfair = |order, gap| Warning::NotShuffled {
        stratum: 0,
        order,
        missing: Some(10),
        sent: Some(50),
        gap,
    };
    // Nothing is known of a stratum whose delivery nobody told.
    assert_eq!(sample(50, None), [unfair(Order::Unknown, None)]);
    assert_eq!(sample(50, Some(&Delivery::default())), [unfair(Order::Unknown, None)]);
    assert_eq!(sample(50, Some(&Delivery::ordered())), [unfair(Order::Ordered, None)]);
    assert_eq!(sample(50, Some(&Delivery::shuffled())), []);
    let buffer = |buffer| Order::Shuffled { buffer: Some(buffer) };
    assert_eq!(sample(50, Some(&Delivery { order: buffer(49), ..Delivery::default() })).len(), 1);
    let end = |order| Delivery { order, lost: Some(vec![40..50]), shortest_first: false };
    let last = Some(Gap::End { share: 0.2 });
    assert_eq!(sample(50, Some(&end(Order::Ordered))), [unfair(Order::Ordered, last)]);
    assert_eq!(sample(50, Some(&end(buffer(5)))), [unfair(buffer(5), last)]);
    assert_eq!(sample(50, Some(&end(buffer(50)))), []);
    assert_eq!(sample(50, Some(&end(Order::Shuffled { buffer: None }))), []);
    let shortest = Delivery { shortest_first: true, ..Delivery::shuffled() };
    assert_eq!(sample(50, Some(&shortest)), [Warning::ShortestFirst { stratum: 0 }]);
    // Of a complete stratum all messages are there.
    assert_eq!(sample(40, None), []);
    assert_eq!(sample(40, Some(&Delivery { shortest_first: true, ..Delivery::ordered() })), []);
}

/// Parts of a stratum that threads summed up.
#[test]
fn delivery__of_merged_parts_is_the_worse_one() {
    let part = |delivery: Delivery| {
        let mut part = Sample::new();
        (0..40).for_each(|i| part.push(0, 15, f64::from(i)).unwrap());
        part.set_delivery(0, &delivery).unwrap();
        part
    };
    let mut all = part(Delivery::shuffled());
    all.set_messages_sent(0, 100).unwrap();
    assert_eq!(all.mean(Confidence::P95).unwrap().warnings, []);
    all.merge(&part(Delivery { shortest_first: true, ..Delivery::ordered() })).unwrap();
    let warnings = all.mean(Confidence::P95).unwrap().warnings;
    // A part whose delivery is unknown.
    let mut unknown = Sample::new();
    unknown.push(0, 15, 1.0).unwrap();
    let mut shuffled = part(Delivery::shuffled());
    shuffled.set_messages_sent(0, 100).unwrap();
    shuffled.merge(&unknown).unwrap();
    let found = &shuffled.mean(Confidence::P95).unwrap().warnings[..];
    assert!(matches!(found, [Warning::NotShuffled { order: Order::Unknown, .. }]), "{found:?}");
    let [Warning::NotShuffled { order: Order::Ordered, missing: Some(20), .. }, shortest] =
        &warnings[..]
    else {
        panic!("{warnings:?}")
    };
    assert_eq!(*shortest, Warning::ShortestFirst { stratum: 0 });
}

#[test]
fn messages__fewer_than_30_warn() {
    let mut sample = Sample::new();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    (0..29).for_each(|i| sample.push(0, 15, f64::from(i)).unwrap());
    let warnings = |sample: &Sample| sample.mean(Confidence::P95).unwrap().warnings;
    assert_eq!(warnings(&sample), [Warning::FewMessages { messages: 29 }]);
    sample.push(0, 15, 3.0).unwrap();
    assert_eq!(warnings(&sample), []);
}
