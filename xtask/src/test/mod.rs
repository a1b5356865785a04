//! `cargo xtask test`: runs the tests that this machine can run, then prints the counts.
//!
//! | rung | tests | by default | with `--full` |
//! |---|---|---|---|
//! | unit | `cargo test`: unit, property, differential, doc, simulation | yes | yes |
//! | python | the wheels in new environments: pytest, mypy, samples of the documents | yes | yes |
//! | java | the jar: JUnit, samples of its guide | yes | yes |
//! | flink | the jars of the Flink connector: JUnit, in clusters of one JVM | yes | yes |
//! | kafka | the Kafka bridge, with mock brokers | yes | yes |
//! | host | the kernel tests of `tests/` on this kernel | yes | yes |
//! | guest | on Debian's 6.12 in a virtual machine, with fq; emulated, those that depend on fq | no | yes |
//! | soak | two minutes of `cargo xtask soak` | no | yes |
//!
//! With `--torch pypi` the rung python has PyPI's PyTorch, and tests FSDP2 as well. With `--engine`
//! only the tests of that engine's integration run, and also those with real brokers of Kafka, or
//! with long jobs of Flink and with PyFlink.
//!
//! A test that can't run names the capability that it needs (`capability`). The run fails if the
//! machine has that capability.

mod capability;
mod compile;
mod conclusion;
mod host;
mod java;
mod kafka;
mod kernel;
mod logs;
mod python;
mod repeat;
mod soak;
mod stress;
mod times;
mod unit;
mod vm;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::setup::{self, Need};
use capability::Place;
use kernel::KernelTests;
use test_report::{Failure, Skip, Tally, group};
use times::Times;

/// The text that the names of the tests to run contain, for those in other languages.
const FILTER_VARIABLE: &str = "ATP_TEST_FILTER";

#[derive(clap::Args)]
pub struct Args {
    /// Also run the kernel tests on Debian's kernel in a virtual machine, and a short soak test
    #[arg(long)]
    full: bool,
    /// Run only the tests whose names contain this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The PyTorch for the tests of its integration
    #[arg(long, value_enum, default_value_t = Torch::Debian)]
    torch: Torch,
    /// Run only the tests of the integration of this engine, and also the long ones
    #[arg(long, value_enum, conflicts_with_all = ["full", "torch"])]
    engine: Option<Engine>,
    /// Repeat the tests of --filter this many times, beside two busy loops
    #[arg(
        long,
        value_name = "N",
        requires = "filter",
        conflicts_with = "full",
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    stress: Option<u32>,
}

/// Which tests run, and how.
#[derive(Clone, Copy)]
struct Choice<'a> {
    /// Only those whose names contain this text.
    filter: Option<&'a str>,
    torch: Torch,
    /// Only the tests of its integration, the long ones included.
    engine: Option<Engine>,
    /// The round of --stress, which repeats no failed test alone.
    round: Option<u32>,
}

/// Where PyTorch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Torch {
    /// Debian's package, without FSDP2
    Debian,
    /// PyPI's, with FSDP2: a download of gigabytes, whose size is printed first
    Pypi,
}

/// An engine whose data ATP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// Kafka, with real brokers: a download, whose size is printed first
    Kafka,
    /// Flink, with long jobs and PyFlink: downloads, whose sizes are printed first
    Flink,
}

impl Torch {
    /// PyTorch as a need, and the environment in which the packages are tested.
    fn parts(self) -> (Need, &'static Path) {
        match self {
            Torch::Debian => (&setup::Torch, &setup::paths().torch_test),
            Torch::Pypi => (&setup::TORCH_PYPI, &setup::paths().torch_pypi),
        }
    }
}

impl Choice<'_> {
    /// The tests that this run leaves out, and the options that run them.
    fn left(&self, is_full: bool) -> &'static str {
        match (self.engine, is_full) {
            (Some(_), _) => "left to the other runs: all tests that don't concern the engine",
            (None, true) => {
                "left to --engine kafka: tests with real brokers; to --engine flink: long jobs"
            }
            (None, false) => {
                "left to --full: kernel tests in a guest with fq, the soak test; to --engine \
                 kafka: tests with real brokers; to --engine flink: long jobs"
            }
        }
    }

    /// The path of a log. Each round has its own.
    fn log_path(&self, name: &str) -> Result<PathBuf> {
        let round = self.round.map(|round| format!("-round-{round}"));
        logs::path(&format!("{name}{}", round.unwrap_or_default()))
    }
}

/// The results of one rung, and where it ran.
struct Rung {
    place: Place,
    tally: Tally,
}

impl Rung {
    fn here(tally: Tally) -> Rung {
        Rung { place: Place::host(), tally }
    }

    fn skipped(skip: Skip) -> Rung {
        Rung::here(Tally { skips: vec![skip], ..Tally::default() })
    }
}

/// The results and times so far.
#[derive(Default)]
struct Run {
    rungs: Vec<Rung>,
    times: Times,
    /// The rungs of which the filter selects no test.
    empty: BTreeSet<String>,
}

impl Run {
    /// Runs and measures one part. An error is a failure beside those of the other parts.
    ///
    /// # Errors
    /// This process was interrupted, or its output is lost: the other parts can't run.
    fn part<T>(&mut self, what: &str, part: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let outcome = self.times.measure(what, part);
        group::check()?;
        let failed = |error: anyhow::Error| {
            let words = format!("{what}: {error:#}");
            atp_output::note!("  {words}");
            let failures = words.lines().take(1).map(|line| Failure::Other(line.to_owned()));
            let tally = Tally { failures: failures.collect(), ..Tally::default() };
            self.rungs.push(Rung::here(tally));
        };
        Ok(outcome.map_err(failed).ok())
    }

    /// Runs `other` in another thread beside `part`.
    fn beside(
        &mut self,
        other: impl FnOnce(&mut Run) -> Result<()> + Send,
        part: impl FnOnce(&mut Run) -> Result<()>,
    ) -> Result<()> {
        let mut theirs = Run { empty: self.empty.clone(), ..Run::default() };
        let ended = thread::scope(|scope| {
            let other = scope.spawn(|| other(&mut theirs));
            let ours = part(self);
            other.join().map_err(|_| anyhow!("a thread that runs tests panicked"))?.and(ours)
        });
        self.rungs.extend(theirs.rungs);
        self.times.take(theirs.times);
        self.empty.extend(theirs.empty);
        ended
    }

    /// Runs a part that is a rung, unless the filter left it empty in an earlier round.
    fn rung(&mut self, what: &str, rung: impl FnOnce() -> Result<Rung>) -> Result<()> {
        if self.empty.contains(what) {
            return Ok(());
        }
        let rung = self.part(what, rung)?;
        if rung.as_ref().is_some_and(|rung| rung.tally.is_empty()) {
            self.empty.insert(what.to_owned());
        }
        self.rungs.extend(rung);
        Ok(())
    }
}

/// The builds and installations that the rungs need; `None` for those that failed, and for those
/// that aren't chosen.
#[derive(Default)]
struct Built {
    unit: Option<()>,
    wheels: Option<python::Built>,
    torch: Option<python::Installed>,
    jars: Option<java::Built>,
    flink: Option<java::Built>,
    pyflink: Option<python::Built>,
    kafka: Option<kafka::Built>,
    kernel: Option<KernelTests>,
}

impl Built {
    fn new(choice: &Choice, run: &mut Run) -> Result<Built> {
        let build_kafka = |run: &mut Run| {
            run.part("build of the Kafka bridge and its tests", || kafka::build(choice))
        };
        let build_flink = |run: &mut Run, options: &[&str]| {
            let options = [&["--engine", "flink"], options].concat();
            run.part("build of the Flink connector", || java::FLINK.build(&options))
        };
        match choice.engine {
            Some(Engine::Kafka) => {
                return Ok(Built { kafka: build_kafka(run)?, ..Built::default() });
            }
            Some(Engine::Flink) => {
                let pyflink = run.part("installation of PyFlink", python::install_pyflink)?;
                return Ok(Built { flink: build_flink(run, &[])?, pyflink, ..Built::default() });
            }
            None => {}
        }
        let unit = run.part("build of the unit tests", unit::build)?;
        let wheels = run.part("build of the wheels", python::build)?;
        let torch = match wheels {
            // Now, as apt changes files that a guest reads.
            Some(Ok(_)) => run.part("installation of PyTorch", || python::install(choice.torch))?,
            _ => None,
        };
        let jars = run.part("build of the jars", || java::JAVA.build(&[]))?;
        let flink = match &jars {
            Some(Ok(())) => build_flink(run, &["--without-library"])?,
            _ => jars.clone(),
        };
        let kafka = build_kafka(run)?;
        let kernel = run.part("build of the kernel tests", kernel::build)?;
        Ok(Built { unit, wheels, torch, jars, flink, pyflink: None, kafka, kernel })
    }

    fn run_unit(&self, choice: &Choice, run: &mut Run) -> Result<()> {
        self.unit.map_or(Ok(()), |()| run.rung("unit tests", || unit::run(choice)))
    }

    /// The tests of the libraries for other languages, and of the integrations.
    fn run_bindings(&self, choice: &Choice, run: &mut Run) -> Result<()> {
        if let Some(wheels) = &self.wheels {
            python::run(wheels, self.torch.as_ref(), choice, run)?;
        }
        if let Some(jars) = &self.jars {
            run.rung("tests of the Java library", || java::JAVA.run(jars, choice))?;
        }
        if let Some(jars) = &self.flink {
            run.rung("tests of the Flink connector", || java::FLINK.run(jars, choice))?;
        }
        if let (Some(Ok(())), Some(wheels)) = (&self.flink, &self.pyflink) {
            run.rung("tests of Flink's tables in Python", || python::run_flink(wheels, choice))?;
        }
        self.kafka.as_ref().map_or(Ok(()), |built| kafka::run(built, choice, run))
    }

    /// Runs the rungs that need no guest. The tests of the bindings and those of the kernel mostly
    /// wait: they run beside the unit tests, and in this order, as the Python packages' environment
    /// is needed by some of the kernel's.
    fn run(&self, choice: &Choice, run: &mut Run) -> Result<()> {
        let waiting = |run: &mut Run| {
            self.run_bindings(choice, run)?;
            self.run_on_host(choice, run)
        };
        run.beside(waiting, |run| self.run_unit(choice, run))
    }

    fn run_on_host(&self, choice: &Choice, run: &mut Run) -> Result<()> {
        self.kernel.as_ref().map_or(Ok(()), |tests| host::run(tests, choice, run))
    }

    /// Runs all rungs. An emulated guest takes one processor for longer than all other tests take,
    /// and many of these wait: they run beside it.
    fn run_in_full(&self, choice: &Choice, run: &mut Run) -> Result<()> {
        thread::scope(|scope| {
            let guest = self.kernel.as_ref().map(|tests| {
                scope.spawn(|| {
                    let started = Instant::now();
                    (vm::run(tests, choice.filter), started.elapsed())
                })
            });
            run.beside(|run| self.run_bindings(choice, run), |run| self.run_unit(choice, run))?;
            self.run_on_host(choice, run)?;
            if choice.filter.is_none() {
                run.rung("soak test", soak::run)?;
            }
            let Some(guest) = guest else { return Ok(()) };
            let mut took = Duration::ZERO;
            run.rung("kernel tests in the guest: the wait for them", || {
                let ended = guest.join().map_err(|_| anyhow!("the guest's thread panicked"))?;
                took = ended.1;
                ended.0
            })?;
            run.times.add("kernel tests in the guest, beside the others", took);
            Ok(())
        })
    }
}

pub fn main(args: Args) -> Result<()> {
    group::catch_interrupts()?;
    let Args { filter, torch, engine, .. } = &args;
    let choice = Choice { filter: filter.as_deref(), torch: *torch, engine: *engine, round: None };
    let is_good = match args.stress {
        Some(rounds) => stress::run(&choice, rounds)?,
        None => run(&choice, args.full)?,
    };
    if !is_good {
        // Exit here: the counts must be the last line, with no error after them.
        std::process::exit(1);
    }
    Ok(())
}

/// Whether no test failed.
fn run(choice: &Choice, is_full: bool) -> Result<bool> {
    let (what, minutes) = match (choice.engine, is_full) {
        (Some(Engine::Kafka), _) => ("the tests of the Kafka bridge", "10"),
        (Some(Engine::Flink), _) => ("the tests of the Flink connector", "10"),
        (None, true) => ("all tests", "50"),
        (None, false) => ("all tests", "30"),
    };
    atp_output::note!("{what}: about {minutes} minutes on two cores, the build included");
    let mut run = Run { times: Times::of_earlier_steps(), ..Run::default() };
    let built = Built::new(choice, &mut run)?;
    match is_full {
        true => built.run_in_full(choice, &mut run)?,
        false => built.run(choice, &mut run)?,
    }
    let logs = &setup::paths().test_logs;
    run.times.report(&run.rungs, &logs.join("times.txt"));
    let conclusion = conclusion::of(&run.rungs, choice.left(is_full), logs);
    atp_output::note!("\n{}", conclusion.lines.join("\n"));
    Ok(conclusion.is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part__an_error_is_a_failure_beside_the_others() {
        let mut run = Run::default();
        let failed = || -> Result<()> { anyhow::bail!("`maturin` failed:\nmany lines") };
        assert!(run.part("wheels", failed).unwrap().is_none());
        let tally = Tally { passed: 1, ..Tally::default() };
        run.rung("unit tests", || Ok(Rung::here(tally))).unwrap();
        let said = conclusion::of(&run.rungs, "left", Path::new("logs"));
        assert!(!said.is_good);
        let failed = "failed: wheels: `maturin` failed: (this machine)".to_owned();
        assert!(said.lines.contains(&failed), "{:?}", said.lines);
        assert_eq!(said.lines.last().unwrap(), "1 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn rung__without_tests_runs_once() {
        let mut run = Run::default();
        run.rung("a", || Ok(Rung::here(Tally::default()))).unwrap();
        run.rung("a", || unreachable!("the filter selects none of its tests")).unwrap();
    }
}
