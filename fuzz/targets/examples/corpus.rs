//! Packs and unpacks the corpora of the fuzzers. See `fuzz/README.md`.

use anyhow::{Result, bail};
use fuzz_targets::{TARGETS, corpus};

const USAGE: &str = "usage: corpus pack|unpack [TARGET...]; without a target, all of them";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let command: fn(&str) -> Result<usize> = match arguments.next().as_deref() {
        Some("pack") => corpus::pack,
        Some("unpack") => corpus::unpack,
        _ => bail!(USAGE),
    };
    let known = TARGETS.map(|(name, _)| name);
    let mut targets: Vec<String> = arguments.collect();
    if targets.is_empty() {
        targets = known.map(str::to_owned).to_vec();
    }
    for target in targets {
        if !known.contains(&target.as_str()) {
            bail!("unknown target {target}: choose one of {}", known.join(", "));
        }
        println!("{target}: {} inputs", command(&target)?);
    }
    Ok(())
}
