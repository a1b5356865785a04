//! The second rung: the kernel tests on this machine's own kernel, with each of its pacing
//! backends.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Rung;
use super::capability::{self, Place};
use super::kernel::{self, Binary, KernelTests};
use super::reader::Reader;
use super::stage;
use super::tally::Tally;
use crate::setup::{self, Machine};

/// For each binary: three times what an idle machine of two cores needs. The limit on silence ends
/// a hang sooner.
const LIMIT: Duration = Duration::from_secs(25 * 60);
const BACKENDS: [&str; 2] = ["fq", "htb"];

/// Runs the binaries that pace once per backend, and the others once.
pub fn run(tests: &KernelTests, filter: Option<&str>) -> Result<Vec<Rung>> {
    println!("kernel tests on Linux {}", kernel::host_release()?);
    let run = Run { tests, filter, pacing_only: false };
    let mut rungs = vec![run.pass(None, |binary| !binary.depends_on_backend())?];
    for (number, backend) in backends().into_iter().enumerate() {
        let run = Run { pacing_only: number > 0, ..run };
        rungs.push(run.pass(backend, Binary::depends_on_backend)?);
    }
    Ok(rungs)
}

/// The backends of this kernel. Where none can be tried, the tests run once and report what is
/// missing.
fn backends() -> Vec<Option<&'static str>> {
    let there = |backend: &&str| Machine::this().is_root() && capability::can_add_qdisc(backend);
    let found: Vec<Option<&'static str>> = BACKENDS.into_iter().filter(there).map(Some).collect();
    if found.is_empty() { vec![None] } else { found }
}

#[derive(Clone, Copy)]
struct Run<'a> {
    tests: &'a KernelTests,
    filter: Option<&'a str>,
    /// An earlier pass ran the tests that don't depend on pacing.
    pacing_only: bool,
}

impl Run<'_> {
    fn pass(
        &self,
        backend: Option<&'static str>,
        takes_part: impl Fn(&Binary) -> bool,
    ) -> Result<Rung> {
        let mut tally = Tally::default();
        for binary in self.tests.binaries.iter().filter(|binary| takes_part(binary)) {
            tally.add(self.binary(binary, backend)?);
        }
        let place = Place::Host { programs: self.tests.object.is_ok(), backend };
        Ok(Rung { place, tally })
    }

    fn binary(&self, binary: &Binary, backend: Option<&str>) -> Result<Tally> {
        let mut command = Command::new(&binary.path);
        command.args(kernel::arguments(self.filter)).envs(self.tests.environment());
        command.current_dir(&setup::paths().workspace);
        let title = match backend {
            Some(backend) => {
                command.env(kernel::BACKEND_VARIABLE, backend);
                format!("{} on {backend}", binary.name)
            }
            None => binary.name.clone(),
        };
        if self.pacing_only {
            command.env(kernel::PACING_ONLY_VARIABLE, "1");
        }
        let log = stage::log_path(&format!("{}-host", title.replace(' ', "-")))?;
        let mut reader = Reader::new(&binary.name, self.filter);
        let started = Instant::now();
        let end = stage::run(command, &log, LIMIT, |line| {
            show_progress(line);
            reader.line(line);
        })?;
        let tally = reader.finish(end.trouble);
        println!("  {title}: {} in {:.0?}", tally.summary(), started.elapsed());
        if !tally.failures.is_empty() {
            kernel::show_failures(&log);
        }
        Ok(tally)
    }
}

/// Shows each test's line: a test takes seconds, and silence looks like a hang.
pub fn show_progress(line: &str) {
    if line.starts_with("test ") && line.contains(" ... ") {
        println!("  {line}");
    }
}
