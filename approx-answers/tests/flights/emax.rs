//! Coverage when a planner chooses the end.

use approx_answers::{AcceptedError, Action, Confidence, Delivery, Planner, Reason, Sample};
use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use crate::table::{Flight, RECORDS_PER_MESSAGE, SEEDS, assert_coverage, flights, orders};

/// Accepted relative half-widths. With the larger one, a few hundred messages are enough.
const ERRORS: [f64; 2] = [0.05, 0.4];

fn totals(flights: &[Flight]) -> Vec<(u64, f64)> {
    let total = |part: &[Flight]| part.iter().map(|flight| flight.delay_min).sum();
    let messages = flights.chunks(RECORDS_PER_MESSAGE);
    messages.map(|part| (part.len() as u64, total(part))).collect()
}

fn truth() -> f64 {
    flights().iter().map(|flight| flight.delay_min).sum::<f64>() / flights().len() as f64
}

/// The messages arrive in a random order, as after `send --csv`. The order of the table then
/// decides only which flights share a message.
fn shuffled(totals: &[(u64, f64)], seed: u64) -> Vec<(u64, f64)> {
    let mut shuffled = totals.to_vec();
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    shuffled
}

pub fn covers_at_the_stop() {
    ERRORS.into_iter().for_each(covers);
}

fn covers(error: f64) {
    let truth = truth();
    for (order, flights) in orders(flights()) {
        let totals = totals(&flights);
        let sent = totals.len() as u64;
        let (mut covered, mut arrived, mut looks) = (0, 0, 0);
        for seed in 0..SEEDS {
            let accepted = AcceptedError::relative(error).unwrap();
            let mut planner = Planner::new(accepted, Confidence::P95);
            planner.source_started(0, 1.0);
            let mut sample = Sample::new();
            sample.set_messages_sent(0, sent).unwrap();
            sample.set_delivery(0, &Delivery::shuffled()).unwrap();
            for (records, total) in shuffled(&totals, seed) {
                sample.push(0, records, total).unwrap();
                if planner.is_look_due(sample.messages()) {
                    let look = planner.look(|level| Ok(vec![sample.mean(level)?])).unwrap();
                    if look.contains(&Action::End) {
                        break;
                    }
                }
            }
            let report = planner.report().expect("all messages meet any error");
            assert!(report.is_met() && report.reached <= error);
            covered += u64::from(report.estimates[0].contains(truth));
            arrived += sample.messages();
            looks += report.looks;
        }
        let (arrived, looks) = (arrived / SEEDS, f64::from(looks) / SEEDS as f64);
        println!(
            "emax {error}, {order}: {arrived} of {sent} messages and {looks:.1} looks in the mean"
        );
        assert_coverage(&format!("emax {error}"), order, covered);
    }
}

/// Without shuffling, the first messages that are enough are no sample of the table: a job by time
/// would end in January, and one by carrier with the first of them. A plan that knows the order
/// goes on to the end of the job. If it may end in doubt, its report says so.
pub fn file_order() {
    let truth = truth();
    for (order, flights) in orders(flights()) {
        let totals = totals(&flights);
        let is_shuffled = order == "shuffled";
        for ends_in_doubt in [false, true] {
            let accepted = AcceptedError::relative(0.1).unwrap();
            let mut planner = Planner::new(accepted, Confidence::P95).end_in_doubt(ends_in_doubt);
            planner.source_started(0, 1.0);
            let mut sample = Sample::new();
            sample.set_messages_sent(0, totals.len() as u64).unwrap();
            let delivery = if is_shuffled { Delivery::shuffled() } else { Delivery::ordered() };
            sample.set_delivery(0, &delivery).unwrap();
            for &(records, total) in &totals {
                sample.push(0, records, total).unwrap();
                if planner.is_look_due(sample.messages()) {
                    planner.look(|level| Ok(vec![sample.mean(level)?])).unwrap();
                }
                if planner.report().is_some() {
                    break;
                }
            }
            if sample.messages() == totals.len() as u64 {
                planner.source_ended(0);
                planner.look(|level| Ok(vec![sample.mean(level)?])).unwrap();
            }
            let report = planner.report().expect("all messages meet any error");
            let (messages, mean) = (sample.messages(), &report.estimates[0]);
            println!("emax 0.1, {order}: {mean} after {messages}, truth {truth:.2}; {report}");
            let is_early = messages < totals.len() as u64 / 3;
            assert_eq!(is_early, is_shuffled || ends_in_doubt, "{order}: {messages}");
            // A whole job is right but for rounding.
            let is_right = (mean.value - truth).abs() <= mean.half_width() + 1e-9;
            assert_eq!(is_right, is_shuffled || !ends_in_doubt, "{order}");
            // Totals of a few hundred shuffled messages are skewed.
            let because = ends_in_doubt.then_some(Reason::InDoubt);
            assert_eq!(report.because, because, "{order}");
        }
    }
}

/// A receiver that looks after each message, and ends with the first interval that is narrow
/// enough. The same truth, order of arrival as above.
pub fn naive_stopping() {
    let truth = truth();
    let (_, flights) = orders(flights()).into_iter().next().unwrap();
    let totals = totals(&flights);
    let mut covered = 0;
    for seed in 0..SEEDS {
        let mut sample = Sample::new();
        sample.set_messages_sent(0, totals.len() as u64).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
        for (records, total) in shuffled(&totals, seed) {
            sample.push(0, records, total).unwrap();
            let Ok(mean) = sample.mean(Confidence::P95) else { continue };
            if mean.half_width() <= ERRORS[1] * mean.value.abs() {
                covered += u64::from(mean.contains(truth));
                break;
            }
        }
    }
    let share = covered as f64 / SEEDS as f64;
    println!("naive stopping, by time: {share:.3} of seeds 0 to {}", SEEDS - 1);
    assert!(share < 0.93, "{share}");
}
