//! Runs a test for many seeds.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// Runs a test for `seeds` and those that failed once, or only for the seed in `ATP_SEED`. Prints
/// the seed of a failure.
///
/// # Panics
/// As `test` does, and if `ATP_SEED` isn't a number.
pub fn each_seed(seeds: Range<u64>, failed_once: &[u64], mut test: impl FnMut(u64)) {
    let replayed = std::env::var("ATP_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = match replayed {
        Some(seed) => vec![seed],
        None => seeds.chain(failed_once.iter().copied()).collect(),
    };
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            eprintln!("replay with ATP_SEED={seed}");
            resume_unwind(panic);
        }
    }
}
