//! The kernel tests of `tests/`: builds them, sets their environment and shows their failures.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::compile;
use crate::build;
use crate::setup::{self, Machine};
use test_report::{Skip, Tally, TestName};

/// The test binaries, and the programs that they test.
pub struct KernelTests {
    pub binaries: Vec<Binary>,
    /// The eBPF programs, or the reason why there are none.
    pub object: Result<PathBuf, String>,
    pub daemon: PathBuf,
}

pub struct Binary {
    pub name: String,
    pub path: PathBuf,
}

/// One start of a test binary.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    pub binary: &'a Binary,
    /// The tests to run: those whose names contain it.
    pub filter: Option<&'a str>,
    /// The filter is a test's complete name.
    pub exact: bool,
}

/// The environment variable that chooses the pacing backend.
pub const BACKEND_VARIABLE: &str = "ATP_BACKEND";
/// The file to which each fault test appends its row.
pub const FAULT_ROWS_VARIABLE: &str = "ATP_FAULTS_JSON";
/// The variable that, set to 1, leaves out the tests that don't depend on pacing. An earlier pass
/// ran them.
pub const PACING_ONLY_VARIABLE: &str = "ATP_PACING_ONLY";
/// The variable that, set to 1, says that the machine is emulated, and too slow for a lane's rate.
pub const EMULATED_VARIABLE: &str = "ATP_EMULATED";

impl Binary {
    /// Whether its tests pace packets, so that they run on each pacing backend.
    pub fn depends_on_backend(&self) -> bool {
        matches!(self.name.as_str(), "netns" | "faults")
    }

    /// The tests that the filter selects, in the order in which they run.
    pub fn tests(&self, filter: Option<&str>, pacing_only: bool) -> Result<Vec<TestName>> {
        let mut list = Command::new(&self.path);
        list.arg("--list").args(filter);
        if pacing_only {
            list.env(PACING_ONLY_VARIABLE, "1");
        }
        let list = setup::output(&mut list)?;
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(|name| TestName::new(&self.name, name.trim())).collect())
    }
}

/// Builds the programs, the daemon and the tests. If no toolchain for eBPF can be installed, the
/// tests that need programs are skipped. The daemon carries no programs: the tests name them.
pub fn build() -> Result<KernelTests> {
    atp_output::note!("building the programs, the daemon and the kernel tests");
    let mut object = setup::obtainable(setup::TEST_KERNEL).map(|()| PathBuf::new());
    if let Ok(path) = &mut object {
        setup::ensure(setup::TEST_KERNEL)?;
        build::faults_object()?;
        *path = build::ebpf_object()?;
    }
    compile::run("daemon", build::bench_command(), |_| {})?;
    let daemon = build::bench_path().with_file_name("atp-user");
    Ok(KernelTests { binaries: binaries()?, object, daemon })
}

impl KernelTests {
    /// The environment of the binaries.
    pub fn environment(&self) -> Vec<(&'static str, &Path)> {
        let mut variables = vec![("ATP_USER", self.daemon.as_path())];
        if let Ok(object) = &self.object {
            variables.push((build::OBJECT_VARIABLE, object));
        }
        variables
    }

    /// The files with eBPF programs: the datapath's, and those of the testbed's faults beside them.
    pub fn objects(&self) -> Vec<PathBuf> {
        let datapath = self.object.iter();
        datapath.flat_map(|path| [path.clone(), path.with_file_name("faults.o")]).collect()
    }

    /// A start of a binary for each test: a binary takes one name at a time.
    ///
    /// # Errors
    /// No binary has a test of that name.
    pub fn each_alone<'a>(&'a self, names: &'a [TestName]) -> Result<Vec<Start<'a>>> {
        let start = |test: &'a TestName| {
            let binary = self.binaries.iter().find(|binary| binary.name == test.binary);
            let binary = binary.with_context(|| format!("no test binary has {test}"))?;
            Ok(Start { binary, filter: Some(&test.name), exact: true })
        };
        names.iter().map(start).collect()
    }

    /// Whether the pass on this machine's own kernel runs them.
    pub fn can_run_here(&self) -> bool {
        self.object.is_ok() && Machine::this().is_root()
    }

    /// Every test as skipped, for a rung that can't run.
    pub fn all_skipped(&self, filter: Option<&str>, reason: &str) -> Result<Tally> {
        let mut tally = Tally::default();
        for binary in &self.binaries {
            for test in binary.tests(filter, false)? {
                let skip = Skip::new(&test.to_string(), reason);
                tally.skips.push(Skip { whole_rung: true, ..skip });
            }
        }
        Ok(tally)
    }
}

/// Compiles the crate's test binaries in release, as the testbed's programs are.
fn binaries() -> Result<Vec<Binary>> {
    let mut build = build::cargo_beside_bench("test --quiet --no-run");
    build.args(compile::tested_targets("atp-tests")?);
    build.arg("--message-format=json-render-diagnostics");
    let mut binaries = Vec::new();
    compile::run("kernel-tests", build, |line| binaries.extend(binary(line)))?;
    if binaries.is_empty() {
        bail!("the crate atp-tests has no test binary");
    }
    Ok(binaries)
}

/// The test binary that a line of cargo's JSON names.
fn binary(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let (executable, target) = (&message["executable"], &message["target"]);
    target["kind"].as_array()?.iter().find(|kind| *kind == "test")?;
    Some(Binary { name: target["name"].as_str()?.to_owned(), path: executable.as_str()?.into() })
}

impl Start<'_> {
    /// The binary's arguments. `threads`: how many tests run beside each other.
    pub fn arguments(&self, threads: usize) -> Vec<String> {
        let mut arguments = vec![format!("--test-threads={threads}"), "--color=never".to_owned()];
        arguments.extend(self.filter.map(str::to_owned));
        arguments.extend(self.exact.then(|| "--exact".to_owned()));
        arguments
    }
}

/// The host's kernel, as `uname -r` has it.
pub fn host_release() -> Result<String> {
    let uname = nix::sys::utsname::uname().context("uname failed")?;
    Ok(uname.release().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_takes_only_test_binaries() {
        let named = |name: &str, kind: &str, executable: &str| {
            let target = format!(r#"{{"name":"{name}","kind":["{kind}"]}}"#);
            binary(&format!(r#"{{"target":{target},"executable":{executable}}}"#))
        };
        assert_eq!(named("netns", "test", r#""/t/netns-1""#).unwrap().name, "netns");
        assert!(named("nix", "lib", "null").is_none());
        assert!(binary(r#"{"reason":"build-finished","success":true}"#).is_none());
    }
}
