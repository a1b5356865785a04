//! `cargo xtask run --iface DEV`: the daemon on a real interface, in the foreground.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use approxlib::Interface;
use testbed::privilege;

use crate::installed;

const INTERFACES: &str = "/sys/class/net";

/// Replaces this process with the daemon; returns only if that fails.
pub fn main(interface: &str, options: &[OsString]) -> Result<()> {
    let found = Interface::named(interface);
    ensure!(
        found.with_context(|| format!("can't look up the interface `{interface}`"))?.is_some(),
        "there is no interface `{interface}` here; there are {}",
        interfaces()?.join(", ")
    );
    ensure!(
        privilege::is_root(),
        "loading eBPF programs on `{interface}` needs root: run this command as root"
    );
    let (daemon, object) = (installed::daemon()?, installed::object()?);
    let mut command = Command::new(&daemon);
    command.args(["run", "--iface", interface, "--object"]).arg(object).args(options);
    let error = command.exec();
    Err(error).with_context(|| format!("can't start {}", daemon.display()))
}

/// Their own names.
fn interfaces() -> Result<Vec<String>> {
    let entries = fs::read_dir(INTERFACES).with_context(|| format!("can't read {INTERFACES}"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main__names_the_interfaces_there_are() {
        let refusal = main("no-such-dev", &[]).unwrap_err().to_string();
        assert!(refusal.starts_with("there is no interface `no-such-dev` here"), "{refusal}");
        assert!(interfaces().unwrap().contains(&"lo".to_owned()));
    }
}
