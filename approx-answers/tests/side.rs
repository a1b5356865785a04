//! Exact side information: a smaller variance, and a warning when the sample contradicts it.

use approx_answers::{Confidence, Delivery, Sample, Warning};
use rand::{RngExt, seq::index};
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
    // The stated level is 1 in 1,000.
    assert!(rings <= 5, "{rings} of seeds 0 to 999");
}

#[test]
fn exact_records__a_short_last_message_is_no_contradiction() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 100).unwrap();
    (0..80).for_each(|_| sample.push(0, 15, 1.0).unwrap());
    sample.set_exact_records(0, 99.0 * 15.0 + 4.0).unwrap();
    assert!(!is_contradicted(&sample));
}

#[test]
fn exact_records__a_wrong_total_of_a_complete_stratum_rings() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 3).unwrap();
    (0..3).for_each(|_| sample.push(0, 15, 1.0).unwrap());
    sample.set_exact_records(0, 44.0).unwrap();
    assert!(is_contradicted(&sample));
}

#[test]
fn delivery__warns_of_incomplete_jobs_only() {
    let mut delivery = Delivery { is_mrdf: true, is_ordered: true, ..Delivery::default() };
    delivery.note_message_bytes(1_400);
    let warnings = |delivery: Delivery, sent: u64| {
        let mut sample = Sample::new();
        (0..40).for_each(|i| sample.push(0, 15, f64::from(i)).unwrap());
        sample.set_messages_sent(0, sent).unwrap();
        sample.set_delivery(delivery);
        sample.mean(Confidence::P95).unwrap().warnings
    };
    assert_eq!(warnings(delivery, 50), []);
    delivery.note_message_bytes(200);
    let unequal = Warning::UnequalSizes { bytes_min: 200, bytes_max: 1_400 };
    assert_eq!(warnings(delivery, 50), std::slice::from_ref(&unequal));
    delivery.stopped_early = true;
    assert_eq!(warnings(delivery, 50), [unequal, Warning::StoppedEarly]);
    assert_eq!(warnings(delivery, 40), []);
}

#[test]
fn messages__fewer_than_30_warn() {
    let mut sample = Sample::new();
    (0..29).for_each(|i| sample.push(0, 15, f64::from(i)).unwrap());
    let warnings = |sample: &Sample| sample.mean(Confidence::P95).unwrap().warnings;
    assert_eq!(warnings(&sample), [Warning::FewMessages { messages: 29 }]);
    sample.push(0, 15, 3.0).unwrap();
    assert_eq!(warnings(&sample), []);
}
