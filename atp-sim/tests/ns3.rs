//! DCTCP beside ns-3's, which `tests/ns3.json` holds the results of.
//!
//! ns-3 is deterministic, so they need not be found again with every test: `cargo xtask bench ns3` does,
//! says whether they are still the same, and compares; `--record` writes them down anew.

use atp_sim::experiment::{LongFlows, LongFlowsOutcome};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    scenario: LongFlows,
    ns3: LongFlowsOutcome,
}

/// How far the two may be apart, of what ns-3 found.
const APART_MAX: f64 = 0.1;

#[test]
fn dctcp__does_what_it_does_in_ns3() {
    let recorded: Vec<Recorded> = serde_json::from_str(include_str!("ns3.json")).unwrap();
    assert!(!recorded.is_empty());
    for Recorded { scenario, ns3 } in recorded {
        let ours = scenario.run();
        let total = |outcome: &LongFlowsOutcome| outcome.delivered_bytes.iter().sum::<u64>() as f64;
        let goodput = total(&ours) / total(&ns3);
        let queue = ours.queue_mean_packets / ns3.queue_mean_packets;
        for (what, ratio) in [("goodput", goodput), ("mean queue", queue)] {
            let apart = (ratio - 1.0).abs();
            assert!(apart <= APART_MAX, "{what}: {ratio} of ns-3's in {scenario:?}: {ours:?}");
        }
        // Each flow has its share, here and there.
        for outcome in [&ours, &ns3] {
            let share = total(outcome) / f64::from(scenario.senders);
            for bytes in &outcome.delivered_bytes {
                let ratio = *bytes as f64 / share;
                assert!((ratio - 1.0).abs() <= 0.15, "{ratio} of an equal share: {outcome:?}");
            }
        }
        assert_eq!((ours.dropped_packets, ns3.dropped_packets), (0, 0), "{scenario:?}");
    }
}
