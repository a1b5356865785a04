//! Compares DCTCP with ns-3's DCTCP. `tests/ns3.json` has the results of ns-3.
//!
//! ns-3 is deterministic, so the results are recorded. `cargo xtask bench ns3` runs ns-3 again and
//! compares; with `--record`, it writes the file.

use atp_sim::experiment::{LongFlows, LongFlowsOutcome};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    scenario: LongFlows,
    ns3: LongFlowsOutcome,
}

/// The allowed difference, relative to ns-3.
const DIFFERENCE_MAX: f64 = 0.1;

#[test]
fn dctcp__agrees_with_ns3() {
    let recorded: Vec<Recorded> = serde_json::from_str(include_str!("ns3.json")).unwrap();
    assert!(!recorded.is_empty());
    for Recorded { scenario, ns3 } in recorded {
        let ours = scenario.run();
        let total = |outcome: &LongFlowsOutcome| outcome.delivered_bytes.iter().sum::<u64>() as f64;
        let goodput = total(&ours) / total(&ns3);
        let queue = ours.queue_mean_packets / ns3.queue_mean_packets;
        for (what, ratio) in [("goodput", goodput), ("mean queue", queue)] {
            let difference = (ratio - 1.0).abs();
            assert!(
                difference <= DIFFERENCE_MAX,
                "{what}: {ratio} of ns-3's in {scenario:?}: {ours:?}"
            );
        }
        // The flows share equally in both simulators.
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
