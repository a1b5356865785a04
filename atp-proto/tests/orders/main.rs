//! The end of a job or window, in every order of events: two attempts at FIN and their answers are
//! delivered in any order, lost or duplicated, among a cancel, a deadline, a request, a change of
//! MSR, a restart of the receiver, and its tombstone. Larger jobs and streams follow seeds.
//!
//! After each step: a sender whose window has ended reports counts that one process of the receiver
//! stated when it ended that window, and no process got a message twice or in another window.

mod job;
mod search;
mod world;

use job::{Events, Job};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use search::{every_order, random_order, random_order_from};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// One group of `messages`, of which one is needed. The receiving library has read `arrived` of
/// them; the host has all.
fn smallest(messages: u32, arrived: usize) -> Job {
    Job { groups: vec![(messages, 1_000_000_000 / messages - 1)], arrived, ..Job::default() }
}

#[test]
fn end__of_the_smallest_jobs_in_every_order() {
    let mut orders = 0;
    // To a job without windows a deadline is a cancel.
    for events in Events::pairs().filter(|events| !events.deadline) {
        for arrived in 0..=1 {
            orders += every_order(&Job { events, ..smallest(1, arrived) });
        }
    }
    for events in Events::each() {
        orders += every_order(&Job { events, ..smallest(2, 1) });
    }
    eprintln!("{orders} orders");
    assert!(orders > 100_000, "only {orders} orders");
}

/// A job of two pages, each attempt two FINs: too many orders for all. One message is needed.
#[test]
fn end__of_a_job_of_two_pages_in_random_orders() {
    let events: Vec<_> = Events::pairs().collect();
    let ends = each_seed(60_000, |rng| {
        let groups = [vec![(0, 0); 28], vec![(1, 900_000_000)]].concat();
        let events = events[rng.random_range(0..events.len())];
        let job = Job { groups, arrived: rng.random_range(0..2), events, ..Job::default() };
        random_order(&job, rng, 60)
    });
    assert!(ends.is_none_or(|ends| ends > 1_000), "only {ends:?} windows ended");
}

/// Larger jobs and streams.
#[test]
fn end__of_jobs_and_streams_in_random_orders() {
    let ends = each_seed(20_000, |rng| {
        let job = Job::random(rng);
        let steps = rng.random_range(5..200);
        random_order(&job, rng, steps)
    });
    assert!(ends.is_none_or(|ends| ends > 1_000), "only {ends:?} windows ended");
}

/// A stream in the middle: where numbers of six bits repeat, and where they don't yet.
#[test]
fn end__of_a_stream_that_another_process_joins() {
    each_seed(4_000, |rng| {
        let mut job = Job::random(rng);
        job.groups.truncate(3);
        job.windows = 300;
        let from = [0, 5, 40, 62, 63, 64, 70, 100, 127, 130][rng.random_range(0..10)];
        let steps = rng.random_range(5..150);
        random_order_from(&job, rng, from, steps);
        0
    });
}

/// Runs `number` seeds and returns the sum of their results. With `ATP_SEED=n` it runs that seed,
/// and returns `None`.
fn each_seed(number: u64, mut test: impl FnMut(&mut ChaCha8Rng) -> u64) -> Option<u64> {
    let replayed = std::env::var("ATP_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = replayed.map_or(0..number, |seed| seed..seed + 1);
    let mut of_seed = |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        catch_unwind(AssertUnwindSafe(|| test(&mut rng))).unwrap_or_else(|panic| {
            eprintln!("replay with ATP_SEED={seed}");
            resume_unwind(panic)
        })
    };
    let sum = seeds.map(&mut of_seed).sum();
    replayed.is_none().then_some(sum)
}
