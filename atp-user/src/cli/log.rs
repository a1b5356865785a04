//! Where log lines go: to the journal if systemd connected standard error to it, with each field as
//! a field of its own, else as text to standard error.

use nix::sys::stat::fstat;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::{EnvFilter, prelude::*};

/// Starts logging. `RUST_LOG` filters the lines; without it the level is `info`.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let journal = stderr_is_journal().then(tracing_journald::layer).and_then(Result::ok);
    let text = journal.is_none().then(|| {
        tracing_subscriber::fmt::layer()
            .with_target(false)
            .with_ansi(stderr().is_terminal())
            .with_writer(stderr)
    });
    tracing_subscriber::registry().with(filter).with(journal).with(text).init();
}

/// Whether `JOURNAL_STREAM` names the file that is open as standard error: a child whose output was
/// redirected inherits the variable too (systemd.exec(5)).
fn stderr_is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(stderr()).is_ok_and(|file| named == format!("{}:{}", file.st_dev, file.st_ino))
}
