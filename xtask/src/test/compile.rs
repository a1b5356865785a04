//! Builds what the tests need, with a limit and a log.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::logs;
use crate::setup;
use test_report::watch;

/// A compilation from nothing takes six minutes on two idle cores, and others may use them.
const LIMIT: Duration = Duration::from_secs(45 * 60);
/// A program that prints much without a result shows one of its lines this often.
const SHOW_INTERVAL: Duration = Duration::from_secs(20);

/// Runs `build`. Its lines go to the log of that name and to `each`.
///
/// # Errors
/// It failed: the end of its log is printed.
pub fn run(name: &str, build: Command, mut each: impl FnMut(&str)) -> Result<()> {
    let log = logs::path(&format!("{name}-build"))?;
    let mut progress = Progress::default();
    let end = watch::build(build, &log, LIMIT, |line| {
        each(line);
        progress.line(line);
    })?;
    if let Some(how) = end.trouble {
        logs::show(&log);
        bail!("{name}: {how}");
    }
    Ok(())
}

/// Cargo's arguments for a package of this workspace and each of its targets that has tests. A
/// target is tested unless its manifest has `test = false`.
///
/// # Errors
/// Cargo failed.
pub fn tested_targets(package: &str) -> Result<Vec<String>> {
    Ok(tested(&setup::metadata(&setup::paths().workspace.join("Cargo.toml"))?, package))
}

fn tested(workspace: &Value, package: &str) -> Vec<String> {
    let packages = workspace["packages"].as_array().into_iter().flatten();
    let targets = packages
        .filter(|found| found["name"] == package)
        .filter_map(|found| found["targets"].as_array());
    let tested = targets.flatten().filter(|target| target["test"] == true);
    let named = tested.filter_map(|target| match target["kind"][0].as_str()? {
        "lib" => Some(vec!["--lib".to_owned()]),
        kind => Some(vec![format!("--{kind}"), target["name"].as_str()?.to_owned()]),
    });
    let package = vec!["--package".to_owned(), package.to_owned()];
    [package].into_iter().chain(named).flatten().collect()
}

/// Shows a line now and then, so that people see what runs.
pub struct Progress {
    last_shown: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { last_shown: Instant::now() }
    }
}

impl Progress {
    /// A line of JSON is for programs.
    pub fn line(&mut self, line: &str) {
        let is_for_people = !line.is_empty() && !line.starts_with('{');
        if is_for_people && self.last_shown.elapsed() > SHOW_INTERVAL {
            self.show(&format!("... {}", line.trim()));
        }
    }

    pub fn show(&mut self, words: &str) {
        atp_output::note!("  {words}");
        self.last_shown = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tested__targets_of_the_package() {
        let target = |kind: &str, name: &str, is_tested: bool| json!({"kind": [kind], "name": name, "test": is_tested});
        let own = [
            target("lib", "own", true),
            target("bin", "program", true),
            target("test", "mock", true),
            target("test", "broker", false),
        ];
        let packages = json!([
            {"name": "other", "targets": [target("test", "output", true)]},
            {"name": "own", "targets": own},
        ]);
        let found = tested(&json!({"packages": packages}), "own").join(" ");
        assert_eq!(found, "--package own --lib --bin program --test mock");
    }
}
