//! A child process with its children, in a process group of its own.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A shell script that keeps a processor busy while the process lives that its argument names.
pub const BUSY_LOOP: &str = r#"
    while kill -0 "$1" 2>/dev/null; do
        i=0
        while [ "$i" -lt 100000 ]; do i=$((i + 1)); done
    done"#;

/// The interval of looks at a process.
pub const POLL: Duration = Duration::from_millis(100);
/// How long a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Makes Ctrl-C, SIGTERM and a closed terminal end the running groups, then this process.
pub fn catch_interrupts() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // `nohup` starts a program with SIGHUP ignored.
    let hangup = (!ignores_hangup(&status)).then_some(Signal::SIGHUP);
    for signal in [Signal::SIGINT, Signal::SIGTERM].into_iter().chain(hangup) {
        signal_hook::flag::register(signal as i32, Arc::clone(interrupted()))?;
    }
    Ok(())
}

/// Whether a process ignores SIGHUP, whose number is 1. `status`: its file in /proc.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1)
}

/// # Errors
/// This process was interrupted, or its output is lost.
pub fn check() -> Result<()> {
    if interrupted().load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(atp_output::check()?)
}

fn interrupted() -> &'static Arc<AtomicBool> {
    static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    INTERRUPTED.get_or_init(Arc::default)
}

/// The group is killed if it is dropped before its end.
pub struct Group {
    child: Child,
    ended: bool,
}

impl Group {
    pub fn start(command: &mut Command) -> Result<Group> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("can't start {program}"))?;
        Ok(Group { child, ended: false })
    }

    /// The exit status of the child; `None` while it runs. The rest of the group ends with it.
    ///
    /// # Errors
    /// The error of [`check`], which ends the group.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        check().inspect_err(|_| self.end())?;
        let status = self.child.try_wait()?;
        if status.is_some() && !self.ended {
            // Processes that the child left behind.
            self.signal(Signal::SIGKILL);
            self.ended = true;
        }
        Ok(status)
    }

    /// Asks the group to end, then kills it.
    pub fn end(&mut self) {
        self.signal(Signal::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(POLL);
        }
        self.signal(Signal::SIGKILL);
        // It was killed: collect its status.
        drop(self.child.wait());
        self.ended = true;
    }

    fn signal(&self, signal: Signal) {
        // All its members may have ended by now.
        let _ = killpg(self.id(), signal);
    }

    /// The id of the child and of its group.
    pub fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id from the kernel"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn wait_until(what: &str, is_so: &mut dyn FnMut() -> bool) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < limit, "{what}");
            std::thread::sleep(POLL);
        }
    }

    /// Runs a shell that prints the number of its child, then ends it by `end`. The child must end.
    fn ends_the_child(script: &str, mut end: impl FnMut(&mut Group) -> bool) {
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdout(std::fs::File::create(&said).unwrap());
        let mut group = Group::start(&mut shell).unwrap();
        let text = || std::fs::read_to_string(&said).unwrap();
        wait_until("the shell said nothing", &mut || text().ends_with('\n'));
        wait_until("the shell is still there", &mut || end(&mut group));
        // It has been killed, but on a busy machine it may not have run since.
        let stat = Path::new("/proc").join(text().trim()).join("stat");
        wait_until("the shell's child is still there", &mut || {
            let state = std::fs::read_to_string(&stat).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
    }

    #[test]
    fn end__kills_the_child_s_children() {
        ends_the_child("sleep 600 & echo $!; wait", |group| {
            group.end();
            true
        });
    }

    #[test]
    fn poll__kills_the_processes_that_the_child_left() {
        ends_the_child("sleep 600 & echo $!", |group| group.poll().unwrap().is_some());
    }

    #[test]
    fn ignores_hangup__reads_the_mask_of_signals() {
        assert!(ignores_hangup("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001006\n"));
    }
}
