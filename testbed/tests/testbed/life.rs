//! A testbed leaves nothing behind, however its owner ends.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use switch_profiles::Profile;
use testbed::{Identity, Options, Process, Signal, Testbed, interrupt};

use crate::Test;

pub const TESTS: &[Test] = &[
    ("life__drop_ends_processes_and_folder", life__drop_ends_processes_and_folder),
    ("life__panic_leaves_nothing", life__panic_leaves_nothing),
    ("life__interrupt_leaves_nothing", life__interrupt_leaves_nothing),
    ("life__termination_leaves_nothing", life__termination_leaves_nothing),
    (
        "life__killed_owner_leaves_nothing_after_the_next",
        life__killed_owner_leaves_nothing_after_the_next,
    ),
];

/// Set for a child of this program that builds a testbed and keeps it until a signal.
const OWNER: &str = "ATP_TESTBED_OWNER";

fn build() -> Result<Testbed> {
    let profile = Profile::default();
    let rate = 10_000_000;
    Testbed::build(&Options {
        senders: 2,
        rate_bits_per_s: rate,
        nic_rate_bits_per_s: rate,
        receiver_rate_bits_per_s: None,
        profile,
    })
}

fn start_sleeper(testbed: &Testbed) -> Result<Process> {
    let mut command = testbed.receiver().namespace.command("sleep");
    command.arg("60").stdin(Stdio::null());
    Process::spawn(command, Signal::SIGKILL)
}

/// The parts of a testbed that could be left behind.
#[derive(Debug)]
struct Traces {
    folder: PathBuf,
    sleeper: Identity,
}

impl Traces {
    fn of(testbed: &Testbed, sleeper: &Process) -> Result<Traces> {
        let sleeper = sleeper.identity().context("the sleeper has ended")?;
        Ok(Traces { folder: testbed.folder().to_owned(), sleeper })
    }

    fn ensure_gone(&self, folder_as_well: bool) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.sleeper.is_alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        ensure!(!self.sleeper.is_alive(), "the process is left: {self:?}");
        ensure!(!folder_as_well || !self.folder.exists(), "the folder is left: {self:?}");
        Ok(())
    }
}

fn life__drop_ends_processes_and_folder() -> Result<()> {
    let testbed = build()?;
    let sleeper = start_sleeper(&testbed)?;
    let traces = Traces::of(&testbed, &sleeper)?;
    ensure!(traces.folder.is_dir() && traces.sleeper.is_alive());
    drop(sleeper);
    drop(testbed);
    traces.ensure_gone(true)
}

fn life__panic_leaves_nothing() -> Result<()> {
    let (tell, told) = std::sync::mpsc::channel();
    let doomed = thread::spawn(move || {
        let testbed = build().expect("builds");
        let sleeper = start_sleeper(&testbed).expect("starts");
        tell.send(Traces::of(&testbed, &sleeper)).expect("the test waits for it");
        // Not `panic!`, whose message would look like a failed test.
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    let traces = told.recv()??;
    ensure!(doomed.join().is_err());
    traces.ensure_gone(true)
}

fn life__interrupt_leaves_nothing() -> Result<()> {
    end_owner_by(Signal::SIGINT)?.ensure_gone(true)
}

fn life__termination_leaves_nothing() -> Result<()> {
    end_owner_by(Signal::SIGTERM)?.ensure_gone(true)
}

fn life__killed_owner_leaves_nothing_after_the_next() -> Result<()> {
    let traces = end_owner_by(Signal::SIGKILL)?;
    traces.ensure_gone(false)?;
    drop(build()?);
    traces.ensure_gone(true)
}

/// Starts another process that owns a testbed, and ends that process by `signal`.
fn end_owner_by(signal: Signal) -> Result<Traces> {
    let mut owner = Command::new(std::env::current_exe()?);
    owner.env(OWNER, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut owner = Process::spawn(owner, Signal::SIGKILL)?;
    let mut said = BufReader::new(owner.child().stdout.take().context("it has an output")?).lines();
    let mut line = || said.next().context("the owner ended early")?.context("unreadable");
    let folder = PathBuf::from(line()?);
    let sleeper = Identity::from_name(&line()?).context("not an identity")?;
    kill(Pid::from_raw(owner.child().id() as i32), signal)?;
    owner.child().wait()?;
    Ok(Traces { folder, sleeper })
}

/// Runs the child: it owns a testbed until a signal comes.
pub fn play_owner() -> Option<ExitCode> {
    std::env::var_os(OWNER)?;
    let play = || -> Result<()> {
        interrupt::install()?;
        let testbed = build()?;
        let sleeper = start_sleeper(&testbed)?;
        let traces = Traces::of(&testbed, &sleeper)?;
        println!("{}\n{}", traces.folder.display(), traces.sleeper.name());
        while !interrupt::interrupted() {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    Some(match play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    })
}
