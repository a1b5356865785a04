//! Runs and times long DCTCP flows through one port, for `cargo xtask bench ns3`, which compares
//! them with ns-3.
//!
//! Usage: `long_flows SCENARIO...`. Each scenario is a `LongFlows` in JSON. The program prints one
//! line of JSON per scenario.

use anyhow::Result;
use atp_sim::experiment::{LongFlows, LongFlowsOutcome};
use nix::time::ClockId;
use serde::Serialize;
use std::time::{Duration, Instant};

#[derive(Serialize)]
struct Timed {
    #[serde(flatten)]
    outcome: LongFlowsOutcome,
    /// Wall-clock time, with the setup of the network.
    wall_s: f64,
    /// Processor time, which excludes other programs.
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
