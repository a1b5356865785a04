//! Builds what the tests need, with a limit and a log.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::stage;

/// A compilation from nothing takes six minutes on two idle cores, and others may use them.
const LIMIT: Duration = Duration::from_secs(45 * 60);
/// A program that prints much without a result shows one of its lines this often.
const SHOW_INTERVAL: Duration = Duration::from_secs(20);

/// Runs `build`. Its lines go to the log of that name and to `each`.
///
/// # Errors
/// It failed: the end of its log is printed.
pub fn run(name: &str, build: Command, mut each: impl FnMut(&str)) -> Result<()> {
    let log = stage::log_path(&format!("{name}-build"))?;
    let mut progress = Progress::default();
    let end = stage::build(build, &log, LIMIT, |line| {
        each(line);
        progress.line(line);
    })?;
    if let Some(how) = end.trouble {
        stage::show_log(&log);
        bail!("{name}: {how}");
    }
    Ok(())
}

/// Shows a line now and then, so that people see what runs.
pub struct Progress {
    last_shown: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { last_shown: Instant::now() }
    }
}

impl Progress {
    /// A line of JSON is for programs.
    pub fn line(&mut self, line: &str) {
        let is_for_people = !line.is_empty() && !line.starts_with('{');
        if is_for_people && self.last_shown.elapsed() > SHOW_INTERVAL {
            self.show(&format!("... {}", line.trim()));
        }
    }

    pub fn show(&mut self, words: &str) {
        atp_output::note!("  {words}");
        self.last_shown = Instant::now();
    }
}
