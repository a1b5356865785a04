//! The second rung: the kernel tests on this machine's own kernel, with each of its pacing
//! backends.

use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::statvfs::statvfs;

use super::capability::{self, Place};
use super::kernel::{self, KernelTests, Start};
use super::{Choice, Run, Rung, logs, repeat};
use crate::setup::{self, Machine};
use test_report::{Reader, Tally, watch};

/// The limit of each binary: three times what an idle machine of two cores needs. `hung` ends a
/// hang earlier.
const LIMIT: Duration = Duration::from_secs(25 * 60);
/// How many tests run beside each other: most wait for daemons and for the kernel's locks.
const TESTS_PER_PROCESSOR: usize = 2;
/// More wait for one lock, that of the network configuration.
const TESTS_AT_ONCE_MAX: usize = 8;
/// Names a Python with the packages of the collective.
const COLLECTIVE_PYTHON_VARIABLE: &str = "ATP_TORCH_PYTHON";
const BACKENDS: [&str; 2] = ["fq", "htb"];
/// A filesystem in memory, and the room that the files of the tests need there.
const MEMORY: &str = "/dev/shm";
const MEMORY_BYTES_MIN: u64 = 1 << 30;

/// Runs the binaries that pace once per backend, and the others once.
pub fn run(tests: &KernelTests, choice: &Choice, run: &mut Run) -> Result<()> {
    atp_output::note!("kernel tests on Linux {}", kernel::host_release()?);
    let mut pass = |backend, paces, pacing_only| {
        let pass = Pass { tests, choice, backend, pacing_only };
        let place = Place::Host { programs: tests.object.is_ok(), backend };
        let what = if paces { "kernel tests that pace" } else { "other kernel tests" };
        let what = format!("{what}, {}", place.describe());
        run.rung(&what, || Ok(Rung { place, tally: pass.run(paces)? }))
    };
    pass(None, false, false)?;
    for (number, backend) in backends().into_iter().enumerate() {
        pass(backend, true, number > 0)?;
    }
    Ok(())
}

/// The backends of this kernel. Where none can be tried, the tests run once and report what is
/// missing.
fn backends() -> Vec<Option<&'static str>> {
    let there = |backend: &&str| Machine::this().is_root() && capability::can_add_qdisc(backend);
    let found: Vec<Option<&'static str>> = BACKENDS.into_iter().filter(there).map(Some).collect();
    if found.is_empty() { vec![None] } else { found }
}

struct Pass<'a> {
    tests: &'a KernelTests,
    choice: &'a Choice<'a>,
    backend: Option<&'static str>,
    /// An earlier pass ran the tests that don't depend on pacing.
    pacing_only: bool,
}

impl Pass<'_> {
    /// Runs the binaries that pace, or the others.
    fn run(&self, paces: bool) -> Result<Tally> {
        let mut tally = Tally::default();
        for binary in self.tests.binaries.iter().filter(|b| b.depends_on_backend() == paces) {
            tally.add(self.start(&Start { binary, filter: self.choice.filter, exact: false })?);
        }
        if self.choice.round.is_some() {
            return Ok(tally);
        }
        Ok(repeat::once_alone(tally, |names| {
            let starts = self.tests.each_alone(names)?;
            starts.iter().map(|start| self.start(start)).collect()
        }))
    }

    fn start(&self, start: &Start) -> Result<Tally> {
        let binary = start.binary;
        let mut command = before_others(&binary.path);
        let tests_at_once = TESTS_PER_PROCESSOR * available_parallelism()?.get();
        command.args(start.arguments(tests_at_once.min(TESTS_AT_ONCE_MAX)));
        command.envs(self.tests.environment());
        command.current_dir(&setup::paths().workspace);
        let python = self.choice.torch.parts().1.join("bin/python");
        if python.exists() {
            command.env(COLLECTIVE_PYTHON_VARIABLE, python);
        }
        if std::env::var_os("TMPDIR").is_none() && has_memory() {
            // A disk that a build keeps busy stops a program that writes for seconds, and its peer
            // gives up.
            command.env("TMPDIR", MEMORY);
        }
        let mut title = binary.name.clone();
        if let Some(backend) = self.backend {
            command.env(kernel::BACKEND_VARIABLE, backend);
            title += &format!(" on {backend}");
        }
        if self.pacing_only {
            command.env(kernel::PACING_ONLY_VARIABLE, "1");
        }
        // A repeated test has a log of its own.
        let alone = start.filter.filter(|_| start.exact).map(|test| format!("-alone-{test}"));
        let log = self.choice.log_path(&format!("{title}-host{}", alone.unwrap_or_default()))?;
        let mut reader = Reader::new(&binary.name, start.filter);
        let started = Instant::now();
        let end = watch::run(command, &log, LIMIT, |line| {
            show_progress(line);
            reader.line(line);
        })?;
        let tally = reader.finish(end.trouble);
        atp_output::note!("  {title}: {} in {:.0?}", tally.summary(), started.elapsed());
        logs::show_failures([&tally], &log);
        Ok(tally)
    }
}

/// A command that goes before the tests beside it, where root may give it that: kernel tests pace
/// and mostly wait.
fn before_others(program: &Path) -> Command {
    if !Machine::this().is_root() {
        return Command::new(program);
    }
    let mut nice = Command::new("nice");
    nice.args(["-n", "-10"]).arg(program);
    nice
}

/// Whether the files of the tests fit into memory.
fn has_memory() -> bool {
    let free_bytes =
        statvfs(MEMORY).map_or(0, |there| there.blocks_available() * there.fragment_size());
    free_bytes >= MEMORY_BYTES_MIN
}

/// Shows each test's line: a test takes seconds, and silence looks like a hang.
pub fn show_progress(line: &str) {
    if line.starts_with("test ") && line.contains(" ... ") {
        atp_output::note!("  {line}");
    }
}
