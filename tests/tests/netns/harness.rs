//! What the other tests stand on.

use anyhow::{Context, Result, ensure};
use std::fs;
use testbed::Namespace;

crate::trials! {
    harness__a_namespace_is_another_one,
    harness__a_command_says_what_failed,
}

fn harness__a_namespace_is_another_one() -> Result<()> {
    let namespace = Namespace::new()?;
    let own = fs::read_link("/proc/self/ns/net")?;
    let theirs = namespace.run("readlink /proc/self/ns/net")?;
    ensure!(theirs.trim() != own.to_string_lossy(), "commands run outside");
    let entered = namespace.enter(|| Ok(fs::read_link("/proc/thread-self/ns/net")?))?;
    ensure!(theirs.trim() == entered.to_string_lossy(), "threads go elsewhere");
    ensure!(fs::read_link("/proc/self/ns/net")? == own, "this process moved");
    Ok(())
}

fn harness__a_command_says_what_failed() -> Result<()> {
    let outcome = Namespace::new()?.run("ip link show dev nowhere");
    let error = outcome.err().context("it did not fail")?.to_string();
    ensure!(error.contains("ip link show dev nowhere"), "{error}");
    Ok(())
}
