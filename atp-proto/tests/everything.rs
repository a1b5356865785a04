//! Complete jobs between two hosts, with everything that can go wrong.
//!
//! Every failure names its seed. `ATP_SEED=n cargo test -p atp-proto --test everything` replays it.

use atp_proto::pair::{Scenario, each_seed, run};
use std::ops::Range;

/// The guarantee, whatever happens at once. `run` checks that a job that is complete has enough
/// messages, each once, unaltered and in its window; that exact groups are in order; that memory
/// keeps to its budget; and that both hosts come to an end.
fn ends_truly(seeds: Range<u64>) {
    let jobs = seeds.end - seeds.start;
    let (mut done, mut failed) = (0, [0; 4]);
    each_seed(seeds, &[], |seed| {
        let scenario = Scenario::everything(seed);
        match run(&scenario).result {
            Ok(()) => done += 1,
            Err(error) => {
                assert!(scenario.explains(&error), "{error}");
                let faults = [
                    scenario.restart_ns.is_some(),
                    scenario.leave_ns.is_some(),
                    scenario.vanish_ns.is_some(),
                    scenario.silence_ns.is_some(),
                ];
                for (failed, fault) in failed.iter_mut().zip(faults) {
                    *failed += u32::from(fault);
                }
            }
        }
    });
    eprintln!("{done} done; failed by a restart, leaving, vanishing, silence: {failed:?}");
    let each_fault_counts = failed.iter().all(|failed| *failed > 5);
    assert!(std::env::var("ATP_SEED").is_ok() || (5 * done > 4 * jobs && each_fault_counts));
}

// Two tests, for two cores.
#[test]
fn job__ends_truly_whatever_happens_0_to_2999() {
    ends_truly(0..3_000);
}

#[test]
fn job__ends_truly_whatever_happens_3000_to_5999() {
    ends_truly(3_000..6_000);
}

/// A sender learns of a window's end only once the receiving application has confirmed it.
#[test]
fn stream__of_windows_that_the_application_confirms() {
    let mut done = 0;
    each_seed(0..300, &[], |seed| {
        let mut scenario = Scenario::random(seed).in_windows().with_confirmations();
        scenario.sender.overlap = seed.is_multiple_of(2);
        let end = run(&scenario);
        assert_eq!(end.result, Ok(()));
        done += end.windows_done;
    });
    assert!(std::env::var("ATP_SEED").is_ok() || done > 300, "only {done}");
}
