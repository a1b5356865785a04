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

/// Makes Ctrl-C and SIGTERM end the running groups, then this process.
pub fn catch_interrupts() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(interrupted()))?;
    }
    Ok(())
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

    /// The exit status of the child; `None` while it runs.
    ///
    /// # Errors
    /// This process was interrupted, or its output is lost. The group is ended then.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if interrupted().load(Ordering::Relaxed) {
            self.end();
            bail!("interrupted");
        }
        if let Err(lost) = atp_output::check() {
            self.end();
            return Err(lost.into());
        }
        let status = self.child.try_wait()?;
        self.ended = status.is_some();
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

    #[test]
    fn end__kills_the_child_s_children() {
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & echo $!; wait"]);
        shell.stdout(std::fs::File::create(&said).unwrap());
        let mut group = Group::start(&mut shell).unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        let wait_until = |what: &str, is_so: &mut dyn FnMut() -> bool| {
            while !is_so() {
                assert!(Instant::now() < limit, "{what}");
                std::thread::sleep(POLL);
            }
        };
        let text = || std::fs::read_to_string(&said).unwrap();
        wait_until("the shell said nothing", &mut || text().ends_with('\n'));
        group.end();
        // It has been killed, but on a busy machine it may not have run since.
        let stat = Path::new("/proc").join(text().trim()).join("stat");
        wait_until("the shell's child is still there", &mut || {
            let state = std::fs::read_to_string(&stat).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
    }
}
