//! Coverage of complete jobs of MSR 0.8.

use approx_answers::{Confidence, Delivery, GroupBy, Quantiles, Sample, Top};

use crate::table::{
    Flight, RECORDS_PER_MESSAGE, SEEDS, arrived, assert_coverage, assert_coverage_or_warnings,
    flights, orders,
};

const P95: Confidence = Confidence::P95;

/// Answers that look at each record take each tenth flight.
fn tenth() -> Vec<Flight> {
    flights().iter().step_by(10).cloned().collect()
}

pub fn sum_and_mean() {
    let truth_sum: f64 = flights().iter().map(|flight| flight.delay_min).sum();
    let truth_mean = truth_sum / flights().len() as f64;
    for (order, flights) in orders(flights()) {
        let totals: Vec<(u64, f64)> = flights
            .chunks(RECORDS_PER_MESSAGE)
            .map(|part| (part.len() as u64, part.iter().map(|flight| flight.delay_min).sum()))
            .collect();
        let (mut sums, mut means) = (0, 0);
        for seed in 0..SEEDS {
            let mut sample = Sample::new();
            sample.set_messages_sent(0, totals.len() as u64).unwrap();
            sample.set_delivery(0, &Delivery::shuffled()).unwrap();
            for i in arrived(totals.len(), seed) {
                sample.push(0, totals[i].0, totals[i].1).unwrap();
            }
            let (sum, mean) = (sample.sum(P95).unwrap(), sample.mean(P95).unwrap());
            assert!(mean.warnings.is_empty(), "{order}, seed {seed}: {:?}", mean.warnings);
            sums += u64::from(sum.contains(truth_sum));
            means += u64::from(mean.contains(truth_mean));
        }
        assert_coverage("sum", order, sums);
        assert_coverage("mean", order, means);
    }
}

pub fn mean_by_carrier() {
    let flights = tenth();
    // The number of flights grows from left to right.
    let carriers = [
        "OO", "HA", "YV", "F9", "AS", "FL", "VX", "WN", "9E", "US", "MQ", "AA", "DL", "EV", "B6",
        "UA",
    ];
    let truth = |carrier: &str| {
        let delays = flights.iter().filter(|f| f.carrier == carrier).map(|f| f.delay_min);
        delays.clone().sum::<f64>() / delays.count() as f64
    };
    let truths = carriers.map(truth);
    for (order, flights) in orders(&flights) {
        let messages: Vec<&[Flight]> = flights.chunks(RECORDS_PER_MESSAGE).collect();
        let (mut covered, mut unwarned) = ([0; 16], [0; 16]);
        for seed in 0..SEEDS {
            let mut by = GroupBy::new(20);
            by.set_messages_sent(0, messages.len() as u64).unwrap();
            by.set_delivery(0, &Delivery::shuffled()).unwrap();
            for i in arrived(messages.len(), seed) {
                let records = messages[i].iter().map(|f| (f.carrier.as_str(), f.delay_min));
                by.push_message(0, records).unwrap();
            }
            for (i, carrier) in carriers.iter().enumerate() {
                // No message with the carrier arrived.
                let Ok(mean) = by.mean(carrier, P95) else { continue };
                covered[i] += u64::from(mean.contains(truths[i]));
                unwarned[i] += u64::from(!mean.contains(truths[i]) && mean.warnings.is_empty());
            }
        }
        for (i, carrier) in carriers.iter().enumerate() {
            assert_coverage_or_warnings(
                &format!("mean of {carrier}"),
                order,
                covered[i],
                unwarned[i],
            );
        }
    }
}

/// Delays are whole minutes, and an interval of a column with ties covers more than it states, as
/// the test `ranks_and_ties` shows. So each delay gets a fraction of its own.
pub fn quantile() {
    let mut flights = tenth();
    let count = flights.len();
    for (i, flight) in flights.iter_mut().enumerate() {
        flight.delay_min += (i * 7_919 % count) as f64 / count as f64;
    }
    let mut delays: Vec<f64> = flights.iter().map(|flight| flight.delay_min).collect();
    delays.sort_unstable_by(f64::total_cmp);
    for (order, flights) in orders(&flights) {
        let messages: Vec<&[Flight]> = flights.chunks(RECORDS_PER_MESSAGE).collect();
        let ranks = [0.5, 0.9];
        let mut covered = [0; 2];
        for seed in 0..SEEDS {
            let mut quantiles = Quantiles::new(1);
            quantiles.set_messages_sent(0, messages.len() as u64).unwrap();
            quantiles.set_delivery(0, &Delivery::shuffled()).unwrap();
            for i in arrived(messages.len(), seed) {
                let records = messages[i].iter().map(|flight| ((), flight.delay_min));
                quantiles.push_message(0, records).unwrap();
            }
            for (covered, rank) in covered.iter_mut().zip(ranks) {
                let truth = delays[(rank * count as f64).ceil() as usize - 1];
                let found = quantiles.quantile(&(), rank, P95).unwrap();
                *covered += u64::from(found.contains(truth));
            }
        }
        for (covered, rank) in covered.into_iter().zip(ranks) {
            assert_coverage(&format!("quantile {rank}"), order, covered);
        }
    }
}

pub fn top() {
    const RANKS: usize = 5;
    let flights = tenth();
    let mut truths = std::collections::BTreeMap::<&str, f64>::new();
    flights.iter().for_each(|flight| *truths.entry(&flight.dest).or_default() += 1.0);
    let mut sorted: Vec<(&str, f64)> = truths.iter().map(|(dest, n)| (*dest, *n)).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let largest: Vec<&str> = sorted[..RANKS].iter().map(|(dest, _)| *dest).collect();
    for (order, flights) in orders(&flights) {
        let messages: Vec<&[Flight]> = flights.chunks(RECORDS_PER_MESSAGE).collect();
        let (mut covered, mut separated, mut wrong) = (0, 0, 0);
        for seed in 0..SEEDS {
            let mut top = Top::new(200);
            top.set_messages_sent(0, messages.len() as u64).unwrap();
            top.set_delivery(0, &Delivery::shuffled()).unwrap();
            for i in arrived(messages.len(), seed) {
                top.push_message(0, messages[i].iter().map(|f| (f.dest.as_str(), 1.0))).unwrap();
            }
            let ranking = top.largest(RANKS, P95).unwrap();
            let is_held = ranking.ranks.iter().all(|(dest, rows)| rows.contains(truths[dest]));
            covered += u64::from(is_held);
            let mut found: Vec<&str> = ranking.ranks.iter().map(|(dest, _)| *dest).collect();
            found.sort_unstable();
            let mut expected = largest.clone();
            expected.sort_unstable();
            separated += u64::from(ranking.separates);
            wrong += u64::from(ranking.separates && found != expected);
        }
        println!("{RANKS} destinations, {order}: {covered} seeds cover all of them");
        println!("{order}: {separated} seeds separate, {wrong} of them wrongly");
        // Bonferroni's intervals may cover more than they state.
        assert!(covered as f64 >= 0.93 * SEEDS as f64, "{order}: {covered} of {SEEDS}");
        assert!(20 * wrong <= separated, "{order}: {wrong} of {separated}");
    }
}
