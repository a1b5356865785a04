//! The end of a job or window, in every order of events: two attempts at FIN and their answers are
//! delivered in any order, lost or duplicated, among a cancel, a deadline, a request, a change of
//! MSR, a restart of the receiver, and its tombstone.
//!
//! After each step: a sender whose window has ended reports counts that one process of the receiver
//! stated when it ended that window, and no process got a message twice or in another window.

mod search;
mod world;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use search::{every_order, random_order};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use world::{Events, Job};

/// One group of `messages`, of which one is needed. The receiving library has read `arrived` of
/// them; the host has all.
fn smallest(messages: u32, arrived: usize) -> Job {
    Job { groups: vec![(messages, 1_000_000_000 / messages - 1)], arrived, ..Job::default() }
}

#[test]
fn end__of_the_smallest_jobs_in_every_order() {
    let mut orders = 0;
    for arrived in 0..=1 {
        for events in Events::pairs() {
            orders += every_order(&Job { events, ..smallest(1, arrived) });
        }
        for events in Events::each() {
            orders += every_order(&Job { events, ..smallest(2, arrived) });
        }
    }
    eprintln!("{orders} orders");
    assert!(orders > 100_000, "only {orders} orders");
}

/// A job of two pages: each attempt is two FINs. No packet is duplicated.
#[test]
fn end__of_a_job_of_two_pages_in_every_order() {
    let mut orders = 0;
    for arrived in 0..=1 {
        let groups = [vec![(0, 0); 28], vec![(1, 900_000_000)]].concat();
        for events in Events::each() {
            let job =
                Job { groups: groups.clone(), arrived, duplicates: 0, events, ..Job::default() };
            let n = every_order(&job);
            eprintln!("{n} {arrived} {events:?}");
            orders += n;
        }
    }
    eprintln!("{orders} orders");
    assert!(orders > 10_000, "only {orders} orders");
}

/// Larger jobs and streams, by seeds. `ATP_SEED=n` replays one.
#[test]
fn end__of_jobs_and_streams_in_random_orders() {
    let replayed = std::env::var("ATP_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = replayed.map_or(0..20_000_u64, |seed| seed..seed + 1);
    let mut ends = 0;
    for seed in seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let job = Job::random(&mut rng);
        let steps = rng.random_range(5..200);
        let run = || random_order(&job, &mut rng, steps);
        ends += catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            eprintln!("replay with ATP_SEED={seed}");
            resume_unwind(panic)
        });
    }
    assert!(replayed.is_some() || ends > 1_000, "only {ends} windows ended");
}
