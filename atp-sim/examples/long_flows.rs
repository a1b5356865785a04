//! Long DCTCP flows through one port, timed: what `cargo xtask bench ns3` runs beside ns-3.
//!
//! usage: `long_flows SCENARIO...`, which are JSON (`LongFlows`), as is what it prints, a line for each.

use anyhow::Result;
use atp_sim::experiment::{LongFlows, LongFlowsOutcome};
use nix::time::ClockId;
use serde::Serialize;
use std::time::{Duration, Instant};

#[derive(Serialize)]
struct Timed {
    #[serde(flatten)]
    outcome: LongFlowsOutcome,
    /// What it took, with building the network.
    wall_s: f64,
    /// Of the processor: what other programs of the machine do isn't in it.
    cpu_s: f64,
}

fn main() -> Result<()> {
    for scenario in std::env::args().skip(1) {
        let scenario: LongFlows = serde_json::from_str(&scenario)?;
        let (started, cpu_before) = (Instant::now(), cpu()?);
        let outcome = scenario.run();
        let cpu_s = (cpu()? - cpu_before).as_secs_f64();
        let timed = Timed { outcome, wall_s: started.elapsed().as_secs_f64(), cpu_s };
        println!("{}", serde_json::to_string(&timed)?);
    }
    Ok(())
}

fn cpu() -> Result<Duration> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?.into())
}
