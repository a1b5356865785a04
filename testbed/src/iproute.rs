//! `ip` and `tc`, many commands in one process.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::namespace::Namespace;

/// Runs `lines` through `PROGRAM -batch -` inside the namespace.
///
/// # Errors
/// The program is missing, or its first complaint with the line that it is about.
pub fn batch(program: &str, namespace: &Namespace, lines: &[String]) -> Result<()> {
    let mut command = command(program, namespace);
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        format!("`{program}` can't be started: it comes with the package iproute2")
    })?;
    let script = lines.join("\n") + "\n";
    // A program that ended early says why on its error stream.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program}` refused{}: {}", blamed(&said, lines), one_line(&said));
    }
    written.transpose().with_context(|| format!("talking to `{program}`"))?;
    Ok(())
}

/// Runs one command inside the namespace and returns what it printed.
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

fn command(program: &str, namespace: &Namespace) -> Command {
    let mut command = namespace.command(program);
    command.env("LC_ALL", "C");
    command
}

/// iproute2 ends with `Command failed -:N`, counted from 1.
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
    fn blamed__finds_the_line() {
        let lines = ["link set lo up".to_owned(), "link set nix up".to_owned()];
        let said = "Cannot find device \"nix\"\nCommand failed -:2\n";
        assert_eq!(blamed(said, &lines), " `link set nix up`");
        assert_eq!(one_line(said), "Cannot find device \"nix\"");
        assert_eq!(blamed("Command failed -:9", &lines), "");
        assert_eq!(blamed("", &lines), "");
    }
}
