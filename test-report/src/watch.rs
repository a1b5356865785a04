//! Runs one long program: with a time limit, its output in a log, and each line passed to the
//! caller as it comes.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::group::{Group, POLL};
use crate::hung::{self, Life};
use crate::processes::{processor_pressure, processor_time};
use crate::tail::Tail;

/// The interval of looks at the processor time: each reads a file per process of the machine.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// A silent program is reported this often, so that people see that it still runs.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// How a program ended.
pub struct End {
    /// A description for people; `None` for success.
    pub trouble: Option<String>,
    /// The program ended by itself, before any limit.
    pub by_itself: bool,
}

/// From when on a program is ended that does nothing.
enum Watched {
    Never,
    AtOnce,
    /// From the first such line on.
    From(fn(&str) -> bool),
}

/// Runs `command` until it ends, hangs, or exceeds `limit`. The lines of its two streams go to
/// `log` and `each`.
///
/// # Errors
/// It can't be started, or this process was interrupted.
pub fn run(command: Command, log: &Path, limit: Duration, each: impl FnMut(&str)) -> Result<End> {
    run_following(command, [log, log], limit, |_| None, each)
}

/// Like [`run`], for a program that may do nothing for any time within `limit`: a build waits for
/// the disk, the network, or another build.
pub fn build(command: Command, log: &Path, limit: Duration, each: impl FnMut(&str)) -> Result<End> {
    watch(command, [log, log], limit, |_| None, Watched::Never, each)
}

/// Like [`build`], until a line for which `is_test` holds. Then tests run, as in [`run`].
pub fn build_and_run(
    command: Command,
    log: &Path,
    limit: Duration,
    is_test: fn(&str) -> bool,
    each: impl FnMut(&str),
) -> Result<End> {
    watch(command, [log, log], limit, |_| None, Watched::From(is_test), each)
}

/// Like [`run`], for a program that appends its output to the file `followed`, which is read as it
/// grows. The program's own streams go to `log`. If `restart` returns a limit for a line, that one
/// begins.
pub fn run_following(
    command: Command,
    [log, followed]: [&Path; 2],
    limit: Duration,
    restart: fn(&str) -> Option<Duration>,
    each: impl FnMut(&str),
) -> Result<End> {
    watch(command, [log, followed], limit, restart, Watched::AtOnce, each)
}

fn watch(
    mut command: Command,
    [log, followed]: [&Path; 2],
    mut limit: Duration,
    restart: fn(&str) -> Option<Duration>,
    watched: Watched,
    mut each: impl FnMut(&str),
) -> Result<End> {
    File::create(log).with_context(|| format!("can't write {}", log.display()))?;
    // A program may open the log once more, as QEMU does for its guest's console: words that come
    // later must not stand at its beginning.
    let log = File::options().append(true).open(log)?;
    command.stdout(log.try_clone()?).stderr(log);
    let mut tail = Tail::new(followed);
    let mut group = Group::start(&mut command)?;
    let mut started = Instant::now();
    let (mut life, mut processor) = (Life::new(started), Duration::ZERO);
    let mut pressure = processor_pressure();
    let (mut received, mut looked, mut reported) = (started, started, started);
    let mut ends_if_hung = matches!(watched, Watched::AtOnce);
    loop {
        std::thread::sleep(POLL);
        let status = group.poll()?;
        let now = Instant::now();
        tail.read(|line| {
            each(line);
            if let Some(new) = restart(line) {
                (started, limit) = (now, new);
                pressure = processor_pressure();
            }
            ends_if_hung |= matches!(watched, Watched::From(is_test) if is_test(line));
            life.line(now);
            received = now;
        });
        if let Some(status) = status {
            tail.finish(each);
            let trouble = (!status.success()).then(|| status.to_string());
            return Ok(End { trouble, by_itself: true });
        }
        if now - looked > LOOK_INTERVAL {
            let total = processor_time(group.id());
            life.used(now, total.saturating_sub(processor));
            (looked, processor) = (now, total);
        }
        // On a machine with other work, a program may take up to twice as long.
        let waited = processor_pressure().saturating_sub(pressure);
        let is_late = now - started > limit + waited / 2;
        let too_late = is_late
            .then(|| format!("not finished after {} s", limit.as_secs()))
            .or_else(|| life.trouble(now).filter(|_| ends_if_hung));
        if let Some(trouble) = too_late {
            if ends_if_hung {
                atp_output::note(hung::describe(group.id()));
            }
            group.end();
            tail.finish(each);
            return Ok(End { trouble: Some(trouble), by_itself: false });
        }
        if now - received.max(reported) > REPORT_INTERVAL {
            reported = now;
            let (silent, used) = ((now - received).as_secs(), processor.as_secs());
            atp_output::note!(
                "  ... still running: {silent} s without output, {used} s of processor time"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

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
    fn run_ends_a_program_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let script = shell("sleep 600");
        let end = run(script, &folder.path().join("log"), Duration::from_millis(300), |_| {});
        let end = end.unwrap();
        assert!(!end.by_itself);
        assert_eq!(end.trouble.unwrap(), "not finished after 0 s");
    }

    #[test]
    fn run_following_reads_the_file_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let [log, words] = ["log", "words"].map(|name| folder.path().join(name));
        let script = format!("for i in 1 2 3; do echo $i >> {}; sleep 0.05; done", words.display());
        let mut lines = Vec::new();
        let each = |line: &str| lines.push(line.to_owned());
        let end = run_following(shell(&script), [&log, &words], LIMIT, |_| None, each);
        assert!(end.unwrap().trouble.is_none());
        assert_eq!(lines, ["1", "2", "3"]);
    }

    #[test]
    fn run_following_begins_a_new_limit_at_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let restart = |line: &str| (line == "mark").then_some(Duration::ZERO);
        let script = shell("echo mark; exec sleep 600");
        let end = run_following(script, [&log, &log], LIMIT, restart, |_| {});
        assert_eq!(end.unwrap().trouble.unwrap(), "not finished after 0 s");
    }
}
