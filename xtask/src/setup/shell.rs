//! Runs other programs. Their output is shown only if they fail.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The lines of a failed program's output that go into the error.
const ERROR_LINES_MAX: usize = 25;

/// The cargo that runs this program, for work with the same toolchain.
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    cargo_at(Path::new(&cargo))
}

/// The cargo at that path.
pub fn cargo_at(cargo: &Path) -> Command {
    let mut command = Command::new(cargo);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_this_crate) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether `cargo run` sets this variable to describe the program itself. The inner cargo's build
/// scripts would take themselves for xtask's, and rebuild.
fn describes_this_crate(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
    name == "CARGO_PRIMARY_PACKAGE" || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Runs `command` to its end and returns what it wrote to standard output, trimmed.
///
/// # Errors
/// The program can't be started, or ended with a failure: the error holds its last lines.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("can't start `{shown}`"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = said.into_owned() + &String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}):\n{}", output.status, last_lines(&said));
    }
    Ok(said.trim().to_owned())
}

/// Cargo's metadata of a manifest's workspace, without dependencies.
pub fn metadata(manifest: &Path) -> Result<Value> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let json = output(metadata.arg("--manifest-path").arg(manifest))?;
    serde_json::from_str(&json).context("odd `cargo metadata`")
}

/// The first two numbers in the version of a kernel or a compiler.
pub fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The command's line, for people.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy()));
    words.join(" ")
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(ERROR_LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_failure_carries_the_output_of_both_streams() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo to-out; echo to-err >&2; exit 3"]);
        let error = output(&mut command).unwrap_err().to_string();
        assert!(error.contains("to-out") && error.contains("to-err"), "{error}");
    }

    #[test]
    fn output_missing_program_is_named() {
        let error = output(&mut Command::new("no-such-program-here")).unwrap_err().to_string();
        assert!(error.contains("no-such-program-here"), "{error}");
    }

    #[test]
    fn version_reads_releases() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("six"), None);
    }

    #[test]
    fn last_lines_keeps_the_end() {
        let text: String = (0..100).map(|i| format!("{i}\n")).collect();
        let kept = last_lines(&text);
        assert!(kept.starts_with("75\n") && kept.ends_with("99"), "{kept}");
    }
}
