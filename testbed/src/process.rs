//! Processes of a testbed. Each dies with the process that started it, and no other process is ever
//! signaled.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::{prctl, signal};
use nix::unistd::{Pid, getpid, getppid};

use crate::identity::Identity;
use crate::wait::{TIMEOUT, wait_for};

pub use nix::sys::signal::Signal;

/// A started process, killed when this value is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: Option<Output>,
}

/// Unnamed files for a process's output.
#[derive(Debug)]
struct Output {
    stdout: File,
    stderr: File,
}

/// An ended process and its output.
#[derive(Debug)]
pub struct Finished {
    /// The exit status.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub stdout: String,
    /// Everything it wrote to standard error.
    pub stderr: String,
}

impl Process {
    /// Starts `command` with the streams set by the caller. The process gets `at_owners_death` if
    /// the calling thread ends first.
    pub fn spawn(command: Command, at_owners_death: Signal) -> Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        Process::start(&name, command, at_owners_death)
    }

    /// Starts `command` without input and keeps its output. `name` is for error messages.
    pub fn captured(name: &str, command: Command) -> Result<Process> {
        Process::captured_until(name, command, Signal::SIGKILL)
    }

    /// Like [`Self::captured`], with the signal that the process gets if the calling thread ends.
    pub(crate) fn captured_until(
        name: &str,
        mut command: Command,
        at_owners_death: Signal,
    ) -> Result<Process> {
        let output = Output { stdout: tempfile::tempfile()?, stderr: tempfile::tempfile()? };
        command.stdin(Stdio::null());
        command.stdout(output.stdout.try_clone()?).stderr(output.stderr.try_clone()?);
        let mut process = Process::start(name, command, at_owners_death)?;
        process.output = Some(output);
        Ok(process)
    }

    fn start(name: &str, mut command: Command, at_owners_death: Signal) -> Result<Process> {
        let owner = getpid();
        let tie = move || {
            prctl::set_pdeathsig(at_owners_death)?;
            // The owner may have died before the line above.
            if getppid() == owner { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
        };
        // SAFETY: between fork and exec the closure makes two system calls, and allocates nothing.
        unsafe { command.pre_exec(tie) };
        // A process group of its own: Ctrl-C in the terminal is for the owner to handle.
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("can't start {name}"))?;
        Ok(Process { name: name.to_owned(), child, output: None })
    }

    /// The standard library's handle of the process, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process's id and start time; `None` once it has ended.
    pub fn identity(&self) -> Option<Identity> {
        Identity::of(self.child.id())
    }

    /// Waits until the process ends by itself, and expects success.
    pub fn success(self) -> Result<Finished> {
        let name = self.name.clone();
        let finished = self.end(TIMEOUT)?;
        if !finished.status.success() {
            bail!("{name} failed ({}): {}", finished.status, finished.stderr.trim());
        }
        Ok(finished)
    }

    /// Waits until the process ends by itself, within `limit`.
    pub fn end(mut self, limit: Duration) -> Result<Finished> {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                let (name, limit) = (&self.name, limit.as_secs_f64());
                bail!("{name} did not end within {limit} s; it wrote: {}", self.stderr()?);
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ok(Finished { status, stdout: self.stdout()?, stderr: self.stderr()? })
    }

    /// Waits until the process has written `words` to standard error.
    pub fn wait_until_it_says(&mut self, words: &str) -> Result<()> {
        let what = format!("{} to write {words:?}", self.name);
        wait_for(&what, || {
            let said = self.stderr()?;
            if said.contains(words) {
                return Ok(Some(()));
            }
            match self.child.try_wait()? {
                Some(status) => bail!("{} ended ({status}): {}", self.name, said.trim()),
                None => Ok(None),
            }
        })
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        signal::kill(Pid::from_raw(self.child.id() as i32), signal).context("kill")
    }

    /// The standard output so far, if it was captured.
    pub fn stdout(&self) -> Result<String> {
        content(&self.captured_output()?.stdout)
    }

    /// The standard error so far, if it was captured.
    pub fn stderr(&self) -> Result<String> {
        content(&self.captured_output()?.stderr)
    }

    fn captured_output(&self) -> Result<&Output> {
        self.output.as_ref().with_context(|| format!("the output of {} is not captured", self.name))
    }

    fn ask_to_end(&mut self) {
        if self.is_running().unwrap_or(false) {
            // The process has not been reaped, so its id can't belong to another.
            let _ = self.signal(Signal::SIGTERM);
        }
    }

    fn kill(&mut self) {
        // Both fail only for a process that was already reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The file's content, read without moving the program's write position.
fn content(file: &File) -> Result<String> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Asks the processes to end, and kills those that still run after `grace`. Returns whether all
/// ended in time.
pub(crate) fn stop_all(processes: &mut [&mut Process], grace: Duration) -> bool {
    processes.iter_mut().for_each(|process| process.ask_to_end());
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        if !processes.iter_mut().any(|process| process.is_running().unwrap_or(false)) {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    processes.iter_mut().for_each(|process| process.kill());
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("30").stdin(Stdio::null());
        command
    }

    #[test]
    fn drop__ends_the_process() {
        let process = Process::spawn(sleeper(), Signal::SIGKILL).unwrap();
        let identity = process.identity().unwrap();
        assert!(identity.is_alive());
        drop(process);
        assert!(!identity.is_alive());
    }

    #[test]
    fn stop_all__asks_first_and_insists() {
        let mut stubborn = Command::new("sh");
        stubborn.args(["-c", "trap '' TERM; echo; while :; do sleep 1; done"]);
        stubborn.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut stubborn = Process::spawn(stubborn, Signal::SIGKILL).unwrap();
        let is_set = stubborn.child().stdout.take().unwrap().read_exact(&mut [0]);
        is_set.expect("the shell says when its trap is set");
        let obedient = || Process::spawn(sleeper(), Signal::SIGKILL).unwrap();
        assert!(stop_all(&mut [&mut obedient(), &mut obedient()], Duration::from_secs(60)));
        let mut obedient = obedient();
        let mut mixed = [&mut obedient, &mut stubborn];
        assert!(!stop_all(&mut mixed, Duration::from_millis(100)));
        assert!(!mixed.iter_mut().any(|process| process.is_running().unwrap()));
    }

    #[test]
    fn spawn__dies_with_the_thread_that_started_it() {
        let orphan = thread::spawn(|| {
            let process = Process::spawn(sleeper(), Signal::SIGKILL).unwrap();
            let identity = process.identity().unwrap();
            std::mem::forget(process);
            identity
        });
        let identity = orphan.join().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while identity.is_alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!identity.is_alive());
    }
}
