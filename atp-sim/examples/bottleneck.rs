//! Runs ATP jobs through one port, for `cargo xtask bench reality`, which compares them with the
//! kernel testbed.
//!
//! Usage: `bottleneck JOB...`. Each job is a `Bottleneck` in JSON. The program prints one line of
//! JSON per job.

use anyhow::Result;
use atp_sim::experiment::Bottleneck;

fn main() -> Result<()> {
    for job in std::env::args().skip(1) {
        let job: Bottleneck = serde_json::from_str(&job)?;
        println!("{}", serde_json::to_string(&job.run())?);
    }
    Ok(())
}
