//! The formulas against brute force: every sample of a small population.

use approx_answers::{AnswerError, Confidence, Delivery, Estimate, Sample, Warning};

/// Records differ: those of messages that agree have a wider interval than the formula's.
const POPULATION: [(u64, f64); 8] =
    [(3, 4.0), (5, 9.0), (2, -1.0), (4, 4.5), (6, 30.0), (1, 2.0), (7, 8.0), (9, 0.0)];

/// Every choice of `size` of the population's messages.
fn samples(size: u32) -> impl Iterator<Item = Vec<(u64, f64)>> {
    (0u32..1 << POPULATION.len()).filter(move |set| set.count_ones() == size).map(|set| {
        let chosen = POPULATION.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
        chosen.map(|(_, &message)| message).collect()
    })
}

fn sample(messages: &[(u64, f64)], sent: Option<u64>) -> Sample {
    let mut sample = Sample::new();
    if let Some(sent) = sent {
        sample.set_messages_sent(0, sent).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    }
    messages.iter().for_each(|&(records, total)| sample.push(0, records, total).unwrap());
    sample
}

/// The variance that the interval stands for.
fn variance(estimate: &Estimate) -> f64 {
    estimate.standard_error().powi(2)
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn assert_near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9 * (1.0 + other.abs()), "{one} instead of {other}");
}

#[test]
fn sum_and_count__value_and_variance_are_unbiased() {
    let truths = [
        POPULATION.iter().map(|(_, total)| total).sum::<f64>(),
        POPULATION.iter().map(|&(records, _)| records as f64).sum(),
    ];
    let ask = [Sample::sum, Sample::count];
    for size in 2..8 {
        for (ask, truth) in ask.iter().zip(truths) {
            let estimates: Vec<Estimate> = samples(size)
                .map(|messages| ask(&sample(&messages, Some(8)), Confidence::P95).unwrap())
                .collect();
            let values: Vec<f64> = estimates.iter().map(|e| e.value).collect();
            assert_near(mean(&values), truth);
            let errors: Vec<f64> = values.iter().map(|value| (value - truth).powi(2)).collect();
            let variances: Vec<f64> = estimates.iter().map(variance).collect();
            assert_near(mean(&variances), mean(&errors));
        }
    }
}

#[test]
fn sum__strata_add() {
    let (left, right) = (&POPULATION[..3], &POPULATION[3..6]);
    let part = |stratum, messages: &[(u64, f64)], sent| {
        let mut sample = Sample::new();
        sample.set_messages_sent(stratum, sent).unwrap();
        sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        messages.iter().for_each(|&(records, y)| sample.push(stratum, records, y).unwrap());
        sample
    };
    let (left, right) = (part(1, left, 7), part(2, right, 30));
    let mut both = left.clone();
    both.merge(&right).unwrap();
    let [left, right, both] = [&left, &right, &both].map(|s| s.sum(Confidence::P95).unwrap());
    assert_near(both.value, left.value + right.value);
    let (v, w) = (variance(&left), variance(&right));
    assert_near(variance(&both), v + w);
    // Welch and Satterthwaite, with two degrees of freedom in each stratum.
    assert_near(both.degrees_of_freedom, (v + w).powi(2) / (v * v / 2.0 + w * w / 2.0));
}

#[test]
fn mean__variance_is_that_of_the_formula() {
    let messages = &POPULATION[..5];
    let estimate = sample(messages, Some(8)).mean(Confidence::P95).unwrap();
    let (x, y) = messages.iter().fold((0.0, 0.0), |(x, y), m| (x + m.0 as f64, y + m.1));
    let ratio = y / x;
    let squares: f64 = messages.iter().map(|m| (m.1 - ratio * m.0 as f64).powi(2)).sum();
    let expected = (1.0 - 5.0 / 8.0) * (squares / 4.0) / (5.0 * (x / 5.0).powi(2));
    assert_near(estimate.value, ratio);
    assert_near(variance(&estimate), expected);
    assert_near(estimate.degrees_of_freedom, 4.0);
    let unknown = sample(messages, None).mean(Confidence::P95).unwrap();
    assert_near(variance(&unknown), expected / (1.0 - 5.0 / 8.0));
}

#[test]
fn complete__intervals_have_no_width() {
    let whole = sample(&POPULATION, Some(8));
    for ask in [Sample::sum, Sample::count, Sample::mean] {
        let estimate = ask(&whole, Confidence::P99).unwrap();
        assert_eq!(estimate.half_width(), 0.0);
        assert!(estimate.warnings.is_empty());
    }
    assert_near(whole.sum(Confidence::P95).unwrap().value, 56.5);
}

#[test]
fn complete__strata_beside_incomplete_ones_add_no_width() {
    let mut both = sample(&POPULATION[..4], Some(8));
    let alone = both.sum(Confidence::P95).unwrap();
    both.set_messages_sent(9, 1).unwrap();
    both.set_delivery(9, &Delivery::shuffled()).unwrap();
    both.push(9, 4, 1000.0).unwrap();
    let estimate = both.sum(Confidence::P95).unwrap();
    assert_near(estimate.value, alone.value + 1000.0);
    assert_near(estimate.half_width(), alone.half_width());
}

#[test]
fn bad_input__is_an_error_not_a_panic() {
    let p95 = Confidence::P95;
    assert_eq!(Sample::new().sum(p95), Err(AnswerError::NoMessages));
    assert_eq!(Sample::new().mean(p95), Err(AnswerError::NoMessages));
    let mut few = sample(&POPULATION[..2], Some(2));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e200] {
        assert!(matches!(few.push(1, 1, bad), Err(AnswerError::Value { stratum: 1, .. })));
        assert!(matches!(few.push_pair(1, bad, 0.0), Err(AnswerError::Value { .. })));
    }
    let more = AnswerError::MoreThanSent { stratum: 0, arrived: 3, sent: 2 };
    assert_eq!(few.push(0, 1, 1.0), Err(more.clone()));
    assert!(more.to_string().contains("3 messages of 2"));
    let unknown = sample(&POPULATION[..4], None);
    assert_eq!(unknown.sum(p95), Err(AnswerError::SentUnknown { stratum: 0 }));
    let none = sample(&[], Some(5));
    assert_eq!(none.mean(p95), Err(AnswerError::EmptyStratum { stratum: 0, sent: 5 }));
    let no_records = sample(&[(0, 0.0), (0, 0.0)], Some(5));
    assert_eq!(no_records.mean(p95), Err(AnswerError::ZeroDenominator));
    assert!(matches!(
        unknown.clone().set_messages_sent(0, 3),
        Err(AnswerError::MoreThanSent { .. })
    ));
    let mut other = sample(&POPULATION[..1], Some(9));
    assert!(matches!(other.set_messages_sent(0, 10), Err(AnswerError::Conflict { .. })));
    assert!(matches!(few.merge(&other), Err(AnswerError::MoreThanSent { .. })));
    assert_eq!(few.messages(), 2);
}

/// A job that announced 8 messages, and ended after 6.
#[test]
fn set_messages_sent__a_smaller_number_replaces_the_announced_one() {
    let p95 = Confidence::P95;
    let mut ended = sample(&POPULATION[..5], Some(8));
    ended.set_messages_sent(0, 6).unwrap();
    let expected = sample(&POPULATION[..5], Some(6));
    for ask in [Sample::sum, Sample::count, Sample::mean] {
        assert_eq!(ask(&ended, p95), ask(&expected, p95));
    }
    assert_eq!(ended.messages_sent(), Some(6));
    // Of the six, all arrived.
    ended.push(0, POPULATION[5].0, POPULATION[5].1).unwrap();
    assert_eq!(ended.sum(p95).unwrap().half_width(), 0.0);
    let more = AnswerError::MoreThanSent { stratum: 0, arrived: 6, sent: 5 };
    assert_eq!(ended.set_messages_sent(0, 5), Err(more));
    // Its sender can't send more than it announced.
    assert!(matches!(ended.set_messages_sent(0, 7), Err(AnswerError::Conflict { .. })));
    assert_eq!(ended.messages_sent(), Some(6));
}

#[test]
fn set_messages_sent__is_no_less_than_an_id_says() {
    let mut few = sample(&POPULATION[..2], Some(8));
    let lost = Some(vec![2..3, 5..7]);
    few.set_delivery(0, &Delivery { lost, ..Delivery::shuffled() }).unwrap();
    let conflict = few.set_messages_sent(0, 6).unwrap_err();
    assert!(conflict.to_string().contains("7 messages sent in one place and 6"), "{conflict}");
    few.set_messages_sent(0, 7).unwrap();
}

#[test]
fn merge__refuses_parts_that_disagree_about_the_number_sent() {
    for (one, other) in [(8, 6), (6, 8)] {
        let mut whole = sample(&POPULATION[..2], Some(one));
        let merged = whole.merge(&sample(&POPULATION[2..4], Some(other)));
        assert!(matches!(merged, Err(AnswerError::Conflict { .. })), "{merged:?}");
        assert_eq!((whole.messages(), whole.messages_sent()), (2, Some(one)));
    }
    // One part may not know it.
    let mut whole = sample(&POPULATION[..2], None);
    whole.merge(&sample(&POPULATION[2..4], Some(8))).unwrap();
    assert_eq!(whole.messages_sent(), Some(8));
}

#[test]
fn one_message__has_an_infinite_interval() {
    let estimate = sample(&POPULATION[..1], Some(8)).sum(Confidence::P95).unwrap();
    assert_eq!((estimate.low, estimate.high), (f64::NEG_INFINITY, f64::INFINITY));
    assert_eq!(estimate.degrees_of_freedom, 0.0);
}

#[test]
fn no_messages_sent__is_a_sum_of_zero() {
    let estimate = sample(&[], Some(0)).sum(Confidence::P95).unwrap();
    assert_eq!((estimate.value, estimate.half_width()), (0.0, 0.0));
}

#[test]
fn bad_input__leaves_no_stratum_behind() {
    let mut whole = sample(&POPULATION, Some(8));
    assert!(whole.push(7, 1, f64::NAN).is_err());
    assert!(whole.set_exact_records(8, f64::INFINITY).is_err());
    assert_eq!(whole.mean(Confidence::P95).unwrap().half_width(), 0.0);
}

#[test]
fn equal_messages__have_no_width_and_a_warning() {
    let mut equal = Sample::new();
    equal.set_messages_sent(0, 100).unwrap();
    equal.set_delivery(0, &Delivery::shuffled()).unwrap();
    (0..40).for_each(|_| equal.push(0, 3, 6.0).unwrap());
    let estimate = equal.sum(Confidence::P95).unwrap();
    assert_eq!((estimate.value, estimate.half_width()), (600.0, 0.0));
    assert_eq!(estimate.warnings, [Warning::NoVariation { messages: 40 }]);
}

#[test]
fn huge_values__have_finite_intervals_or_an_error() {
    let mut huge = Sample::new();
    huge.set_messages_sent(0, u64::MAX).unwrap();
    huge.set_delivery(0, &Delivery::shuffled()).unwrap();
    for sign in [-1.0, 1.0, 1.0] {
        huge.push_pair(0, 1e60 * sign, 1e60).unwrap();
    }
    for ask in [Sample::sum, Sample::count, Sample::mean] {
        let estimate = ask(&huge, Confidence::P95).unwrap();
        assert!(estimate.half_width().is_finite() && estimate.degrees_of_freedom > 0.0);
    }
}

#[test]
fn mean__a_short_message_is_no_heavy_tail() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 100).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    for message in 0..59 {
        sample.push(0, 15, 1_500.0 + f64::from(message % 7)).unwrap();
    }
    // The last one of a job, with as much for each record.
    sample.push(0, 1, 100.2).unwrap();
    assert_eq!(sample.mean(Confidence::P95).unwrap().warnings, []);
    assert!(!sample.sum(Confidence::P95).unwrap().warnings.is_empty());
}
