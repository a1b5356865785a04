//! Long DCTCP flows through one port, timed: what `cargo xtask bench ns3` runs beside ns-3.
//!
//! usage: `long_flows SCENARIO...`, which are JSON (`LongFlows`), as is what it prints, a line for each.

use anyhow::Result;
use atp_sim::experiment::{LongFlows, LongFlowsOutcome};
use serde::Serialize;
use std::time::Instant;

#[derive(Serialize)]
struct Timed {
    #[serde(flatten)]
    outcome: LongFlowsOutcome,
    /// What it took, with building the network.
    wall_s: f64,
}

fn main() -> Result<()> {
    for scenario in std::env::args().skip(1) {
        let scenario: LongFlows = serde_json::from_str(&scenario)?;
        let started = Instant::now();
        let outcome = scenario.run();
        let timed = Timed { outcome, wall_s: started.elapsed().as_secs_f64() };
        println!("{}", serde_json::to_string(&timed)?);
    }
    Ok(())
}
