//! `cargo xtask deny`: checks the dependencies against `deny.toml`.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::setup::{self, CARGO_DENY};

/// The checks that need nothing from the network. Advisories need a database.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

pub fn main() -> Result<()> {
    setup::ensure(&[&CARGO_DENY])?;
    let mut deny = Command::new(CARGO_DENY.path());
    deny.current_dir(&setup::paths().workspace);
    deny.args(["--all-features", "check", "--hide-inclusion-graph"]).args(CHECKS);
    let status = deny.status().context("can't start cargo-deny")?;
    if !status.success() {
        bail!("dependencies break the rules of deny.toml; cargo-deny's output is above");
    }
    Ok(())
}
