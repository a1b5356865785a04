//! ATP jobs through one port: what `cargo xtask bench reality` runs beside the kernel's testbed.
//!
//! usage: `bottleneck JOB...`, which are JSON (`Bottleneck`), as is what it prints, a line for each.

use anyhow::Result;
use atp_sim::experiment::Bottleneck;

fn main() -> Result<()> {
    for job in std::env::args().skip(1) {
        let job: Bottleneck = serde_json::from_str(&job)?;
        println!("{}", serde_json::to_string(&job.run())?);
    }
    Ok(())
}
