//! Runs many commands of `ip` or `tc` in one process.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::namespace::Namespace;
use crate::wait::wait_for;

/// Runs `lines` through `PROGRAM -batch -` inside the namespace.
///
/// # Errors
/// The program is missing, or it rejected a line; the error holds both message and line.
pub fn batch(program: &str, namespace: &Namespace, lines: &[String]) -> Result<()> {
    let mut command = command(program, namespace);
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        format!("`{program}` can't be started: it comes with the package iproute2")
    })?;
    let script = lines.join("\n") + "\n";
    // A program that ended early explains itself on its error stream.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program}` refused{}: {}", blamed(&said, lines), one_line(&said));
    }
    written.transpose().with_context(|| format!("talking to `{program}`"))?;
    Ok(())
}

/// Runs one command inside the namespace and returns its output.
pub fn output(program: &str, namespace: &Namespace, arguments: &[&str]) -> Result<String> {
    let mut command = command(program, namespace);
    command.args(arguments).stdin(Stdio::null());
    let output = command.output().with_context(|| {
        format!("`{program}` can't be started: it comes with the package iproute2")
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed: {}", arguments.join(" "), one_line(&said));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until every link of the namespace is up. The kernel activates a link's queues some time
/// after `ip link set ... up` returns, and drops packets until then.
pub fn wait_until_links_are_up(namespace: &Namespace) -> Result<()> {
    wait_for("all links to be up", || {
        let links = output("ip", namespace, &["-o", "link", "show"])?;
        Ok(all_are_up(&links).then_some(()))
    })
}

/// Reads `ip -o link show`, one link per line. A loopback link has no state.
fn all_are_up(links: &str) -> bool {
    links.lines().all(|link| link.contains(" state UP ") || link.contains("LOOPBACK"))
}

fn command(program: &str, namespace: &Namespace) -> Command {
    let mut command = namespace.command(program);
    command.env("LC_ALL", "C");
    command
}

/// The rejected line: iproute2 ends its output with `Command failed -:N`, counted from 1.
fn blamed(said: &str, lines: &[String]) -> String {
    let number = said.lines().rev().find_map(|line| line.rsplit("-:").next()?.trim().parse().ok());
    match number.and_then(|number: usize| lines.get(number.checked_sub(1)?)) {
        Some(line) => format!(" `{line}`"),
        None => String::new(),
    }
}

fn one_line(said: &str) -> String {
    let kept = said.lines().map(str::trim).filter(|line| !line.is_empty());
    kept.filter(|line| !line.starts_with("Command failed")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_up__but_for_the_loopback() {
        let lo = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT";
        let link = |state| format!("{lo}\n2: port1@if2: <UP> mtu 1500 state {state} mode DEFAULT");
        assert!(all_are_up(&link("UP")));
        assert!(!all_are_up(&link("DOWN")) && !all_are_up(&link("LOWERLAYERDOWN")));
    }

    #[test]
    fn blamed__finds_the_line() {
        let lines = ["link set lo up".to_owned(), "link set nix up".to_owned()];
        let said = "Cannot find device \"nix\"\nCommand failed -:2\n";
        assert_eq!(blamed(said, &lines), " `link set nix up`");
        assert_eq!(one_line(said), "Cannot find device \"nix\"");
        assert_eq!(blamed("Command failed -:9", &lines), "");
        assert_eq!(blamed("", &lines), "");
    }
}
