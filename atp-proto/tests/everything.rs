//! Complete jobs between two hosts, with everything that can go wrong.
//!
//! Every failure names its seed. `ATP_SEED=n cargo test -p atp-proto --test everything` replays it.

use atp_proto::pair::{Scenario, each_seed, run};

/// The guarantee, whatever happens at once. `run` checks that a job that is complete has enough
/// messages, each once, unaltered and in its window; that exact groups are in order; that memory
/// keeps to its budget; and that both hosts come to an end.
#[test]
fn job__ends_truly_whatever_happens() {
    let (mut done, mut failed) = (0, 0);
    each_seed(10_000, &[], |seed| {
        let scenario = Scenario::everything(seed);
        match run(&scenario).result {
            Ok(()) => done += 1,
            Err(error) => {
                assert!(scenario.may_fail(), "{error}");
                failed += 1;
            }
        }
    });
    eprintln!("{done} jobs done, {failed} failed");
    assert!(std::env::var("ATP_SEED").is_ok() || (done > 8_000 && failed > 200));
}
