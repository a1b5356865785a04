//! Processes of the testbed: each dies with the process that started it, and nothing else is ever
//! signalled.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::{prctl, signal};
use nix::unistd::{Pid, getpid, getppid};

pub use nix::sys::signal::Signal;

/// A process by number and start time: numbers are used again, pairs aren't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pid: u32,
    /// Clock ticks since the machine's boot.
    pub started: u64,
}

impl Identity {
    /// The process that has this number now. One that has ended, and that nobody has waited for,
    /// isn't one any more: in a container that may stay so.
    pub fn of(pid: u32) -> Option<Identity> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Identity { pid, started: start_of(&stat)? })
    }

    pub fn this() -> Result<Identity> {
        Identity::of(std::process::id()).context("/proc is not mounted")
    }

    pub fn is_alive(self) -> bool {
        Identity::of(self.pid) == Some(self)
    }

    /// `PID-START`, and back.
    pub fn name(self) -> String {
        format!("{}-{}", self.pid, self.started)
    }

    pub fn from_name(name: &str) -> Option<Identity> {
        let (pid, started) = name.split_once('-')?;
        Some(Identity { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Signals the process if it is still the same one.
    pub fn signal(self, signal: Signal) {
        if self.is_alive() {
            // It may end between the look and the signal; then there is nothing to do.
            let _ = signal::kill(Pid::from_raw(self.pid as i32), signal);
        }
    }
}

/// Field 22 of /proc/PID/stat, if field 3 isn't a dead process's. The second one, the program's
/// name, may hold anything, and ends with the last parenthesis.
fn start_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A started process that is ended when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `command` in a process group of its own (Ctrl-C in the terminal is for us to handle),
    /// to get `at_owners_death` should the calling thread end first.
    pub fn spawn(mut command: Command, at_owners_death: Signal) -> Result<Process> {
        let owner = getpid();
        let tie = move || {
            prctl::set_pdeathsig(at_owners_death)?;
            // The owner may have died before the line above.
            if getppid() == owner { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
        };
        // SAFETY: between fork and exec the closure makes two system calls, and allocates nothing.
        unsafe { command.pre_exec(tie) };
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("`{program}` can't be started"))?;
        Ok(Process { child })
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub fn identity(&self) -> Option<Identity> {
        Identity::of(self.child.id())
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn ask_to_end(&mut self) {
        if self.is_running() {
            // Not waited for yet, so the number is still its own.
            let _ = signal::kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        }
    }

    fn kill(&mut self) {
        // Both fail only for a process that has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill();
        }
    }
}

/// Asks the processes to end, then makes those that don't within the grace. Returns whether all
/// went by themselves.
pub fn stop_all(processes: &mut [Process], grace: Duration) -> bool {
    processes.iter_mut().for_each(Process::ask_to_end);
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        if !processes.iter_mut().any(Process::is_running) {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    processes.iter_mut().for_each(Process::kill);
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    fn start_of__a_name_may_hold_anything() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 99 100";
        assert_eq!(start_of(stat), Some(4242));
        assert_eq!(start_of(&stat.replace(" S ", " Z ")), None);
        assert_eq!(start_of("12 (x"), None);
    }

    #[test]
    fn identity__round_trip_and_life() {
        let this = Identity::this().unwrap();
        assert_eq!(Identity::from_name(&this.name()), Some(this));
        assert!(this.is_alive());
        assert!(!Identity { started: this.started + 1, ..this }.is_alive());
        assert_eq!(Identity::from_name("12"), None);
        assert_eq!(Identity::from_name("12-x"), None);
    }

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
        let heard = stubborn.child().stdout.take().unwrap().read_exact(&mut [0]);
        heard.expect("the shell says when its trap is set");
        let obedient = || Process::spawn(sleeper(), Signal::SIGKILL).unwrap();
        assert!(stop_all(&mut [obedient(), obedient()], Duration::from_secs(5)));
        let mut mixed = [obedient(), stubborn];
        assert!(!stop_all(&mut mixed, Duration::from_millis(100)));
        assert!(!mixed.iter_mut().any(Process::is_running));
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
        let deadline = Instant::now() + Duration::from_secs(5);
        while identity.is_alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!identity.is_alive());
    }
}
