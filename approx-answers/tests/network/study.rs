//! Measurements behind a choice: what a sender may do so that messages of several lengths are a
//! fair sample, and what each way costs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use approx_answers::{Confidence, Sample};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use crate::data::{Message, Order, PACKET_BYTES, Table};
use crate::simulated::{self, Delivered, Flow, Network};

/// A way of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Mrdf,
    InOrder,
    Padded,
    GroupPerCount,
}

const WAYS: [(&str, Way); 4] = [
    ("MRDF", Way::Mrdf),
    ("in order", Way::InOrder),
    ("padded, MRDF", Way::Padded),
    ("a group per packet count", Way::GroupPerCount),
];

/// The messages of each flow, by number.
fn strata(messages: &[Message], way: Way) -> Vec<Vec<usize>> {
    if way != Way::GroupPerCount {
        return vec![(0..messages.len()).collect()];
    }
    let mut by_count: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, message) in messages.iter().enumerate() {
        by_count.entry(message.bytes.div_ceil(PACKET_BYTES)).or_default().push(number);
    }
    by_count.into_values().collect()
}

fn flows(messages: &[Message], strata: &[Vec<usize>], way: Way, msr: f64) -> Vec<Flow> {
    let longest = messages.iter().map(|message| message.bytes).max().unwrap_or(0);
    let length = |number: &usize| match way {
        Way::Padded => longest,
        _ => messages[*number].bytes,
    };
    let flow = |part: &Vec<usize>| Flow {
        host: 0,
        lengths: part.iter().map(length).collect(),
        msr,
        mrdf: way != Way::InOrder,
    };
    strata.iter().map(flow).collect()
}

fn sample(messages: &[Message], strata: &[Vec<usize>], delivered: &Delivered) -> Sample {
    let mut sample = Sample::new();
    for (stratum, (part, group)) in (0..).zip(strata.iter().zip(&delivered.groups)) {
        sample.set_messages_sent(stratum, part.len() as u64).unwrap();
        for (id, number) in (0..).zip(part) {
            if !group.lost.iter().any(|lost| lost.contains(&id)) {
                let records = &messages[*number].records;
                let total = records.iter().map(|record| record.y).sum();
                sample.push(stratum, records.len() as u64, total).unwrap();
            }
        }
    }
    sample
}

#[derive(Default)]
struct Tally {
    jobs: u64,
    mean: u64,
    sum: u64,
    took_ns: u64,
    bytes: u64,
    arrived: u64,
    failed: u64,
    bias: f64,
    width: f64,
    open: u64,
}

pub fn ways(jobs: u64) {
    println!("| data | network | MSR | way | mean | sum | bias of the mean | half-width | time | bytes | arrived |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (data, table, count) in [("two sizes", Table::TwoSizes, 1_000), ("1 to 30 packets", Table::Lengths, 400)] {
        for (name, network) in [("short queues", Network::SHORT_QUEUES), ("5 % drops", Network::RANDOM_DROPS)] {
            for msr in [0.75, 0.95] {
                let mut first = None;
                for (way_name, way) in WAYS {
                    let tally = measure(table, count, network, msr, way, jobs);
                    let (time, bytes) = *first.get_or_insert((tally.took_ns as f64, tally.bytes as f64));
                    let share = |n: u64| 100.0 * n as f64 / tally.jobs as f64;
                    println!(
                        "| {data} | {name} | {msr} | {way_name} | {:.1} % | {:.1} % | {:+.2} % | {:.2} % ({} open) | {:.2} | {:.2} | {:.1} % | {}",
                        share(tally.mean), share(tally.sum),
                        100.0 * tally.bias / tally.jobs as f64,
                        100.0 * tally.width / (tally.jobs - tally.open).max(1) as f64,
                        tally.open,
                        tally.took_ns as f64 / time, tally.bytes as f64 / bytes,
                        share(tally.arrived) / count as f64, tally.failed,
                    );
                }
            }
        }
    }
}

fn measure(table: Table, count: usize, network: Network, msr: f64, way: Way, jobs: u64) -> Tally {
    let mut tally = Tally { jobs, ..Tally::default() };
    for job in 0..jobs {
        let mut draws = ChaCha8Rng::seed_from_u64(job);
        let messages = table.draw(count, Order::Shuffled, &mut draws);
        let strata = strata(&messages, way);
        let flows = flows(&messages, &strata, way, msr);
        let delivered = simulated::run(network, &flows, Rc::new(RefCell::new(())), job);
        tally.took_ns += delivered.took_ns;
        tally.bytes += delivered.sent_bytes;
        let sample = sample(&messages, &strata, &delivered);
        tally.arrived += sample.messages();
        let truth: f64 = messages.iter().flat_map(|m| &m.records).map(|r| r.y).sum();
        let records = messages.iter().map(|m| m.records.len()).sum::<usize>() as f64;
        let (Ok(mean), Ok(sum)) = (sample.mean(Confidence::P95), sample.sum(Confidence::P95)) else {
            tally.failed += 1;
            continue;
        };
        tally.mean += u64::from(mean.contains(truth / records));
        tally.sum += u64::from(sum.contains(truth));
        tally.bias += mean.value / (truth / records) - 1.0;
        match mean.half_width() / mean.value {
            width if width.is_finite() => tally.width += width,
            _ => tally.open += 1,
        }
    }
    tally
}

/// Where the lost messages of a job are, by quarters of the ids.
pub fn quarters(jobs: u64) {
    println!("| network | MSR | way | messages | lost | quarters of ids | last run of lost ids |");
    for (name, network) in [("short queues", Network::SHORT_QUEUES), ("5 % drops", Network::RANDOM_DROPS)] {
        for msr in [0.8, 0.95] {
            for mrdf in [true, false] {
                for count in [1_000u32, 4_000] {
                let (mut quarters, mut tail) = ([0u64; 4], 0u64);
                let mut time = 0;
                for job in 0..jobs {
                    let flow = Flow { host: 0, lengths: vec![1_400; count as usize], msr, mrdf };
                    let delivered = simulated::run(network, &[flow], Rc::new(RefCell::new(())), job);
                    time += delivered.took_ns;
                    let lost = &delivered.groups[0].lost;
                    for id in lost.iter().cloned().flatten() {
                        quarters[(4 * id / count) as usize] += 1;
                    }
                    tail += lost.last().filter(|last| last.end == count).map_or(0, |last| last.len() as u64);
                }
                let all: u64 = quarters.iter().sum();
                let shares = quarters.map(|q| format!("{:.1} %", 100.0 * q as f64 / all as f64));
                println!("| {name} | {msr} | {} | {count} | {:.1} % | {} | {:.1} | {:.2} ms",
                    if mrdf { "MRDF" } else { "in order" },
                    100.0 * all as f64 / jobs as f64 / f64::from(count), shares.join(", "), tail as f64 / jobs as f64,
                    time as f64 / jobs as f64 / 1e6);
                }
            }
        }
    }
}
