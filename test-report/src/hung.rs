//! Tells a program that hangs from one that works in silence, and describes it.
//!
//! A program hangs if it neither prints a line nor uses the processor. A linker prints nothing for
//! minutes, but works. Programs that wait look at their condition now and then, and daemons have a
//! clock: so a hundredth of one processor counts as nothing. A test that sleeps on purpose, or
//! waits for an event with a limit, isn't ended either: its limits are shorter.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::processes;

/// A program that showed no sign of life for so long hangs. The longest limit on one event in the
/// tests is 200 s.
const HANGS_AFTER: Duration = Duration::from_secs(6 * 60);
/// Processor time that is a sign of life: one percent of one processor.
const SIGN_OF_LIFE: Duration = Duration::from_millis(3_600);

/// When a program last showed a sign of life.
pub struct Life {
    last: Instant,
    /// Processor time used since `last`.
    used: Duration,
}

impl Life {
    pub fn new(now: Instant) -> Life {
        Life { last: now, used: Duration::ZERO }
    }

    /// The program printed a line.
    pub fn line(&mut self, now: Instant) {
        *self = Life::new(now);
    }

    /// The program used the processor for this time, since the last call.
    pub fn used(&mut self, now: Instant, time: Duration) {
        self.used += time;
        if self.used >= SIGN_OF_LIFE {
            *self = Life::new(now);
        }
    }

    /// Describes a program that hangs; `None` if it doesn't.
    pub fn trouble(&self, now: Instant) -> Option<String> {
        let silent = now.duration_since(self.last);
        (silent > HANGS_AFTER).then(|| {
            let (silent, used) = (silent.as_secs(), self.used.as_secs_f64());
            format!("hung: in {silent} s it printed no line and used the processor for {used:.1} s")
        })
    }
}

/// One line for each thread of the group's processes and their descendants: the program, the
/// thread, and the kernel function in which it waits.
pub fn describe(group: Pid) -> String {
    processes::folders(group).iter().map(|folder| threads(folder)).collect()
}

fn threads(process: &Path) -> String {
    let command = text(&process.join("cmdline")).replace('\0', " ");
    let Ok(threads) = fs::read_dir(process.join("task")) else { return String::new() };
    let lines = threads.flatten().map(|thread| {
        let [name, waits_in] = ["comm", "wchan"].map(|file| text(&thread.path().join(file)));
        let id = thread.file_name();
        let (id, command) = (id.to_string_lossy(), command.trim());
        format!("  {command}: thread {id} ({}) waits in {}\n", name.trim(), waits_in.trim())
    });
    lines.collect()
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When a program is found to hang that prints a line every so many seconds, and uses the
    /// processor for this time in each second; within two hours.
    fn found_after(line_interval_s: u32, used: Duration) -> Option<Duration> {
        let start = Instant::now();
        let mut life = Life::new(start);
        (1..7_200).find_map(|s| {
            let now = start + s * SECOND;
            if s % line_interval_s == 0 {
                life.line(now);
            }
            life.used(now, used);
            life.trouble(now).map(|_| s * SECOND)
        })
    }

    #[test]
    fn life__a_silent_linker_on_a_busy_machine_works() {
        assert_eq!(found_after(u32::MAX, SECOND / 20), None);
    }

    #[test]
    fn life__a_test_that_waits_for_minutes_works() {
        assert_eq!(found_after(200, Duration::ZERO), None);
    }

    #[test]
    fn life__nothing_or_a_look_now_and_then_is_a_hang() {
        let limit = HANGS_AFTER + SECOND;
        assert_eq!(found_after(u32::MAX, Duration::ZERO), Some(limit));
        assert_eq!(found_after(u32::MAX, SECOND / 1_000), Some(limit));
    }

    #[test]
    fn life__a_hang_begins_with_the_last_sign_of_life() {
        let start = Instant::now();
        let mut life = Life::new(start);
        life.used(start + 100 * SECOND, SIGN_OF_LIFE);
        assert_eq!(life.trouble(start + 100 * SECOND + HANGS_AFTER), None);
        let words = life.trouble(start + 461 * SECOND).unwrap();
        assert_eq!(words, "hung: in 361 s it printed no line and used the processor for 0.0 s");
    }

    #[test]
    fn describe__names_a_program_of_the_group() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        // Until exec, it still has this process's name.
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut said = describe(group);
        while !said.contains("sleep 60") && Instant::now() < deadline {
            said = describe(group);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.starts_with("  sleep 60: thread "), "{said}");
        assert_eq!(describe(group), "");
    }
}
