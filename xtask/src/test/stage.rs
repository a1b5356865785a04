//! Runs one long program: in a process group of its own, with a time limit, its output in a log,
//! and each line passed to the caller as it comes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::hung;
use crate::setup;

const POLL: Duration = Duration::from_millis(100);
/// How long a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// A program that prints nothing for so long hangs: no test and no compilation is that slow.
const SILENCE_MAX: Duration = Duration::from_secs(6 * 60);

/// A silent program is reported this often, so that people see that it still runs.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// How a program ended.
pub struct End {
    /// A description for people; `None` for success.
    pub trouble: Option<String>,
    /// The program ended by itself, before any limit.
    pub by_itself: bool,
}

/// Makes Ctrl-C and SIGTERM end the running program with all its children, then this process.
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

/// The log of that name, in the folder of this run's logs.
pub fn log_path(name: &str) -> Result<PathBuf> {
    let folder = &setup::paths().test_logs;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't make the folder {}", folder.display()))?;
    Ok(folder.join(format!("{name}.log")))
}

/// Runs `command` for at most `limit`. The lines of its two streams go to `log` and `each`.
///
/// # Errors
/// It can't be started, or this process was interrupted.
pub fn run(command: Command, log: &Path, limit: Duration, each: impl FnMut(&str)) -> Result<End> {
    run_following(command, log, log, limit, each)
}

/// Like [`run`], for a program that appends its output to the file `followed`, which is read as it
/// grows. The program's own streams go to `log`.
pub fn run_following(
    mut command: Command,
    log: &Path,
    followed: &Path,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> Result<End> {
    let log = File::create(log).with_context(|| format!("can't write {}", log.display()))?;
    command.stdout(log.try_clone()?).stderr(log);
    let mut tail = Tail { path: followed, offset: 0, rest: Vec::new() };
    let mut group = Group::start(&mut command)?;
    let started = Instant::now();
    let (mut heard, mut reported) = (started, started);
    loop {
        std::thread::sleep(POLL);
        let end = match group.poll()? {
            Some(status) => Some(End {
                trouble: (!status.success()).then(|| status.to_string()),
                by_itself: true,
            }),
            None if started.elapsed() > limit => {
                Some(group.end_hung(format!("not finished after {} s", limit.as_secs())))
            }
            None if heard.elapsed() > SILENCE_MAX => {
                Some(group.end_hung(format!("ended, silent for {} s", SILENCE_MAX.as_secs())))
            }
            None => None,
        };
        if heard.max(reported).elapsed() > REPORT_INTERVAL {
            reported = Instant::now();
            atp_output::note!(
                "  ... still running, {} s without output",
                heard.elapsed().as_secs()
            );
        }
        tail.read(|line| {
            each(line);
            heard = Instant::now();
        });
        if let Some(end) = end {
            // Its last line may lack its end.
            if !tail.rest.is_empty() {
                each(String::from_utf8_lossy(&tail.rest).trim_end());
            }
            return Ok(end);
        }
    }
}

/// A child with its children. They are killed together if it is dropped before its end.
struct Group {
    child: Child,
    ended: bool,
}

impl Group {
    fn start(command: &mut Command) -> Result<Group> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("can't start {program}"))?;
        Ok(Group { child, ended: false })
    }

    /// Its exit status; `None` while it runs.
    fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if interrupted().load(Ordering::Relaxed) {
            self.end();
            bail!("interrupted");
        }
        // As after Ctrl-C: the output is lost.
        if let Err(lost) = atp_output::check() {
            self.end();
            return Err(lost.into());
        }
        let status = self.child.try_wait()?;
        self.ended = status.is_some();
        Ok(status)
    }

    /// Ends it, and prints where it hung.
    fn end_hung(&mut self, trouble: String) -> End {
        atp_output::note(hung::describe(self.id()));
        self.end();
        End { trouble: Some(trouble), by_itself: false }
    }

    /// Asks the group to end, then kills it.
    fn end(&mut self) {
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

    fn id(&self) -> Pid {
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

/// Reads a growing text file line by line.
struct Tail<'a> {
    path: &'a Path,
    offset: u64,
    /// A line without its end.
    rest: Vec<u8>,
}

impl Tail<'_> {
    fn read(&mut self, mut each: impl FnMut(&str)) {
        let Ok(mut file) = File::open(self.path) else { return };
        if file.seek(SeekFrom::Start(self.offset)).is_err() {
            return;
        }
        // Lines read before an error count.
        let before = self.rest.len();
        drop(file.read_to_end(&mut self.rest));
        self.offset += (self.rest.len() - before) as u64;
        while let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=at).collect();
            each(String::from_utf8_lossy(&line).trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn run_hands_over_every_line_and_keeps_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut lines = Vec::new();
        let each = |line: &str| lines.push(line.to_owned());
        let end = run(shell("echo one; echo two >&2; exit 3"), &log, LIMIT, each);
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(end.unwrap().trouble.unwrap(), "exit status: 3");
        assert_eq!(std::fs::read_to_string(log).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn run_ends_the_whole_group_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut child_id = String::new();
        let each = |line: &str| child_id = line.to_owned();
        let script = shell("sleep 60 & echo $!; wait");
        let end = run(script, &folder.path().join("log"), Duration::from_millis(300), each);
        assert!(!end.unwrap().by_itself);
        // It has been killed, but on a busy machine it may not have run since.
        let grandchild = Path::new("/proc").join(&child_id).join("stat");
        let waited = Instant::now();
        let is_gone = || {
            let state = std::fs::read_to_string(&grandchild).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        while !is_gone() {
            assert!(waited.elapsed() < GRACE, "{child_id} is still there");
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn run_following_reads_the_file_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let [log, words] = ["log", "words"].map(|name| folder.path().join(name));
        let script = format!("for i in 1 2 3; do echo $i >> {}; sleep 0.05; done", words.display());
        let mut lines = Vec::new();
        let each = |line: &str| lines.push(line.to_owned());
        let end = run_following(shell(&script), &log, &words, LIMIT, each);
        assert!(end.unwrap().trouble.is_none());
        assert_eq!(lines, ["1", "2", "3"]);
    }
}
