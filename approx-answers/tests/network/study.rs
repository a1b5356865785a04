//! Measurements behind the choice of a default: ways to send messages of several lengths, what each
//! costs, and where the lost messages of a job are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::thread;

use approx_answers::{Confidence, Sample};
use atp_common::wire;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use crate::data::{Message, Order, PACKET_BYTES, Table};
use crate::simulated::{self, Delivered, Flow, Network};

const NETWORKS: [(&str, Network); 2] =
    [("short queues", Network::SHORT_QUEUES), ("5 % drops", Network::RANDOM_DROPS)];

/// A way of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Mrdf,
    InOrder,
    /// All messages have the length of the longest.
    Padded,
    /// The messages of each packet count are a group of their own, with a lane of its own.
    GroupPerCount,
}

const WAYS: [(&str, Way); 4] = [
    ("MRDF", Way::Mrdf),
    ("in order", Way::InOrder),
    ("padded, MRDF", Way::Padded),
    ("a group per packet count, MRDF", Way::GroupPerCount),
];

/// The sums over the jobs of one way.
#[derive(Debug, Default)]
struct Sums {
    mean_covered: u64,
    sum_covered: u64,
    /// Relative errors of the mean.
    bias: f64,
    /// Relative half-widths of the mean.
    half_width: f64,
    took_ns: u64,
    sent_bytes: u64,
}

/// Prints coverage and cost of each way.
pub fn print_ways(jobs: u64) {
    println!(
        "\n| messages | network | MSR | way | coverage of the mean | of the sum | bias | half-width | \
         time | bytes |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let tables = [("two sizes", Table::TwoSizes, 1_000), ("1 to 30 packets", Table::Lengths, 400)];
    let mut parts = Vec::new();
    for (title, table, messages) in tables {
        for (place, network) in NETWORKS {
            for msr in [0.75, 0.95] {
                let head = format!("| {title} | {place} | {msr}");
                let lines = move || lines(&head, (table, messages), network, msr, jobs);
                parts.push(thread::spawn(lines));
            }
        }
    }
    parts.into_iter().for_each(|part| println!("{}", part.join().expect("a measurement")));
}

fn lines(head: &str, of: (Table, usize), network: Network, msr: f64, jobs: u64) -> String {
    let ways = WAYS.map(|(name, way)| (name, measure(of, network, msr, way, jobs)));
    let first = &ways[0].1;
    let share = |sum: f64| 100.0 * sum / jobs as f64;
    let line = |(name, sums): &(&str, Sums)| {
        format!(
            "{head} | {name} | {:.1} % | {:.1} % | {:+.2} % | {:.2} % | {:.2} | {:.2} |",
            share(sums.mean_covered as f64),
            share(sums.sum_covered as f64),
            share(sums.bias),
            share(sums.half_width),
            sums.took_ns as f64 / first.took_ns as f64,
            sums.sent_bytes as f64 / first.sent_bytes as f64,
        )
    };
    ways.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn measure(
    (table, count): (Table, usize),
    network: Network,
    msr: f64,
    way: Way,
    jobs: u64,
) -> Sums {
    let mut sums = Sums::default();
    for job in 0..jobs {
        let mut draws = ChaCha8Rng::seed_from_u64(job);
        let messages = table.draw(count, Order::Shuffled, &mut draws);
        let strata = strata(&messages, way);
        let flows = flows(&messages, &strata, way, msr);
        let delivered = simulated::run(network, &flows, Rc::new(RefCell::new(())), job);
        sums.took_ns += delivered.took_ns;
        sums.sent_bytes += delivered.sent_bytes;
        let sample = sample(&messages, &strata, &delivered);
        let truth: f64 = messages.iter().map(|message| message.records[0].y).sum();
        let mean_truth = truth / count as f64;
        let mean = sample.mean(Confidence::P95).expect("each stratum has messages");
        let sum = sample.sum(Confidence::P95).expect("each stratum has messages");
        sums.mean_covered += u64::from(mean.contains(mean_truth));
        sums.sum_covered += u64::from(sum.contains(truth));
        sums.bias += mean.value / mean_truth - 1.0;
        sums.half_width += mean.half_width() / mean.value;
    }
    sums
}

/// The numbers of the messages of each flow.
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

/// Groups have lanes of their own, so each is a flow of the same host here.
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
        order: wire::Order::Shuffled,
    };
    strata.iter().map(flow).collect()
}

fn sample(messages: &[Message], strata: &[Vec<usize>], delivered: &Delivered) -> Sample {
    let mut sample = Sample::new();
    for (stratum, (part, (_, group))) in (0..).zip(strata.iter().zip(&delivered.groups)) {
        sample.set_messages_sent(stratum, part.len() as u64).expect("a new stratum");
        for (id, number) in (0..).zip(part) {
            if !simulated::is_lost(group, id) {
                sample.push(stratum, 1, messages[*number].records[0].y).expect("a message");
            }
        }
    }
    sample
}

/// Prints in which quarters of the ids the lost messages of a job are. Messages are equal and have
/// one packet. The last ones in a row were never tried.
pub fn print_quarters(jobs: u64) {
    println!(
        "\n| network | MSR | order | lost | in the quarters of the ids | in a row at the end |\n\
         |---|---|---|---|---|---|"
    );
    for (place, network) in NETWORKS {
        for msr in [0.8, 0.95] {
            for (order, mrdf) in [("MRDF", true), ("in order", false)] {
                println!("| {place} | {msr} | {order} | {}", quarters(network, msr, mrdf, jobs));
            }
        }
    }
}

fn quarters(network: Network, msr: f64, mrdf: bool, jobs: u64) -> String {
    const MESSAGES: u32 = 1_000;
    let (mut quarters, mut last) = ([0u64; 4], 0);
    for job in 0..jobs {
        let lengths = vec![PACKET_BYTES; MESSAGES as usize];
        let flow = Flow { host: 0, lengths, msr, mrdf, order: wire::Order::Shuffled };
        let delivered = simulated::run(network, &[flow], Rc::new(RefCell::new(())), job);
        let lost = &delivered.groups[0].1.lost;
        for id in lost.iter().cloned().flatten() {
            quarters[(4 * id / MESSAGES) as usize] += 1;
        }
        let tail = lost.last().filter(|tail| tail.end == MESSAGES);
        last += tail.map_or(0, ExactSizeIterator::len) as u64;
    }
    let all: u64 = quarters.iter().sum();
    let shares = quarters.map(|lost| format!("{:.1} %", 100.0 * lost as f64 / all as f64));
    let messages = (jobs * u64::from(MESSAGES)) as f64;
    format!(
        "{:.1} % | {} | {:.1} % |",
        100.0 * all as f64 / messages,
        shares.join(", "),
        100.0 * last as f64 / all as f64
    )
}
