//! Tests the testbed's namespaces.

use anyhow::{Context, Result, ensure};
use std::fs;
use testbed::Namespace;

crate::trials! {
    harness__a_namespace_is_separate,
    harness__an_error_names_the_command,
}

fn harness__a_namespace_is_separate() -> Result<()> {
    let namespace = Namespace::new()?;
    let own = fs::read_link("/proc/self/ns/net")?;
    let theirs = namespace.run("readlink /proc/self/ns/net")?;
    ensure!(theirs.trim() != own.to_string_lossy(), "commands run outside the namespace");
    let entered = namespace.enter(|| Ok(fs::read_link("/proc/thread-self/ns/net")?))?;
    ensure!(theirs.trim() == entered.to_string_lossy(), "threads enter another namespace");
    ensure!(fs::read_link("/proc/self/ns/net")? == own, "this process changed its namespace");
    Ok(())
}

fn harness__an_error_names_the_command() -> Result<()> {
    let outcome = Namespace::new()?.run("ip link show dev nowhere");
    let error = outcome.err().context("it did not fail")?.to_string();
    ensure!(error.contains("ip link show dev nowhere"), "{error}");
    Ok(())
}
