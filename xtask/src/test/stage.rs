//! Runs one long program: in a process group of its own, with a time limit, its output in a log,
//! and each line passed to the caller as it comes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
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

/// How a program ended.
pub enum End {
    Exited(ExitStatus),
    /// It was ended after that time.
    TimedOut(Duration),
    /// It was ended after that time without output.
    Silent(Duration),
}

impl End {
    /// `None` for success, else a description for people.
    pub fn trouble(&self) -> Option<String> {
        match self {
            End::Exited(status) if status.success() => None,
            End::Exited(status) => Some(status.to_string()),
            End::TimedOut(limit) => Some(format!("not finished after {} s", limit.as_secs())),
            End::Silent(limit) => Some(format!("ended, silent for {} s", limit.as_secs())),
        }
    }
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
pub fn run(
    mut command: Command,
    log: &Path,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> Result<End> {
    let (from_child, to_us) = std::io::pipe().context("can't make a pipe")?;
    command.stdout(to_us.try_clone()?).stderr(to_us);
    let mut group = Group::start(&mut command)?;
    // The command holds the pipe's writing ends; dropped, the pipe ends with the children.
    drop(command);
    let mut log = File::create(log).with_context(|| format!("can't write {}", log.display()))?;
    let lines = lines_of(from_child);
    let mut limits = Limits::new(limit);
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => {
                writeln!(log, "{line}")?;
                each(&line);
                limits.heard();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(End::Exited(group.wait()?)),
        }
        if let Some(end) = group.poll(&limits)? {
            // Read the rest of its output, for a limited time: a process that it left behind may
            // keep the pipe open.
            let ended = Instant::now();
            while let Ok(line) = lines.recv_timeout(GRACE.saturating_sub(ended.elapsed())) {
                writeln!(log, "{line}")?;
                each(&line);
            }
            return Ok(end);
        }
    }
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
    let mut tail = Tail { path: followed, offset: 0, rest: String::new() };
    let mut group = Group::start(&mut command)?;
    let mut limits = Limits::new(limit);
    loop {
        std::thread::sleep(POLL);
        let end = group.poll(&limits)?;
        tail.read(|line| {
            each(line);
            limits.heard();
        });
        if let Some(end) = end {
            // Its last line may lack its end.
            if !tail.rest.is_empty() {
                each(tail.rest.trim_end());
            }
            return Ok(end);
        }
    }
}

/// The limits on a program's time and silence.
struct Limits {
    started: Instant,
    heard: Instant,
    limit: Duration,
}

impl Limits {
    fn new(limit: Duration) -> Limits {
        let now = Instant::now();
        Limits { started: now, heard: now, limit }
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    fn ran_out(&self) -> Option<End> {
        if self.started.elapsed() > self.limit {
            Some(End::TimedOut(self.limit))
        } else if self.heard.elapsed() > SILENCE_MAX {
            Some(End::Silent(SILENCE_MAX))
        } else {
            None
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

    /// How it ended, by itself or by its limits; `None` while it runs.
    fn poll(&mut self, limits: &Limits) -> Result<Option<End>> {
        if interrupted().load(Ordering::Relaxed) {
            self.end();
            bail!("interrupted");
        }
        if let Some(status) = self.child.try_wait()? {
            self.ended = true;
            return Ok(Some(End::Exited(status)));
        }
        let end = limits.ran_out();
        if end.is_some() {
            print!("{}", hung::describe(self.id()));
            self.end();
        }
        Ok(end)
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait()?;
        self.ended = true;
        Ok(status)
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

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// Reads a growing text file line by line.
struct Tail<'a> {
    path: &'a Path,
    offset: u64,
    rest: String,
}

impl Tail<'_> {
    fn read(&mut self, mut each: impl FnMut(&str)) {
        let Ok(mut file) = File::open(self.path) else { return };
        let mut new = Vec::new();
        let read = file.seek(SeekFrom::Start(self.offset)).and_then(|_| file.read_to_end(&mut new));
        let Ok(count) = read else { return };
        self.offset += count as u64;
        self.rest.push_str(&String::from_utf8_lossy(&new));
        while let Some(at) = self.rest.find('\n') {
            each(self.rest[..at].trim_end());
            self.rest.drain(..=at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let limit = Duration::from_secs(10);
        let end = run(shell("echo one; echo two >&2; exit 3"), &log, limit, |line| {
            lines.push(line.to_owned());
        });
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(end.unwrap().trouble().unwrap(), "exit status: 3");
        assert_eq!(std::fs::read_to_string(log).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn run_ends_the_whole_group_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut child_id = String::new();
        let end = run(
            shell("sleep 60 & echo $!; wait"),
            &folder.path().join("log"),
            Duration::from_millis(300),
            |line| child_id = line.to_owned(),
        );
        assert!(matches!(end.unwrap(), End::TimedOut(_)));
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
        let words = folder.path().join("words");
        let script = format!("for i in 1 2 3; do echo $i >> {}; sleep 0.05; done", words.display());
        let mut lines = Vec::new();
        let log = folder.path().join("log");
        let limit = Duration::from_secs(10);
        let end = run_following(shell(&script), &log, &words, limit, |line| {
            lines.push(line.to_owned());
        });
        assert!(end.unwrap().trouble().is_none());
        assert_eq!(lines, ["1", "2", "3"]);
    }
}
