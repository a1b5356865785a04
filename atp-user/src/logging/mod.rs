//! Where log lines go: to the journal if systemd connected standard error to it, with each field as
//! a field of its own, else as text to standard error.

mod background;
mod journal;

pub use background::{LastLines, in_time, say_lost};

use atp_datapath::{LOG_TARGET, PacketLog};
use journal::Journal;
use nix::sys::stat::fstat;
use std::{io::stderr, path::Path, sync::Mutex};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt::{MakeWriter, layer},
    layer::Layered,
    prelude::*,
};

type Filtered = Layered<Targets, Registry>;

/// Starts logging. `RUST_LOG` filters the lines; without it the level is `info`.
pub fn start() {
    match journal() {
        Some(journal) => registry(None).with(journal::entries(Mutex::new(journal))).init(),
        None => registry(None).with(text(stderr)).init(),
    }
}

/// Starts the daemon's logging. Its control loop must not wait for the journal or for standard
/// error, so a thread writes there, until the returned value is dropped.
pub fn start_daemon(packets: PacketLog) -> LastLines {
    let packets = match packets {
        PacketLog::Off => None,
        level => level.name().parse().ok(),
    };
    if let Some(journal) = journal() {
        let (writer, last_lines) = background::writer(journal);
        registry(packets).with(journal::entries(writer)).init();
        return last_lines;
    }
    let (writer, last_lines) = background::writer(stderr());
    registry(packets).with(text(writer)).init();
    last_lines
}

fn registry(packets: Option<LevelFilter>) -> Filtered {
    let asked = std::env::var("RUST_LOG").ok();
    tracing_subscriber::registry().with(filter(asked.as_deref(), packets))
}

/// The lines to log: those that `RUST_LOG` asks for, and those about packets.
fn filter(asked: Option<&str>, packets: Option<LevelFilter>) -> Targets {
    let asked = asked.filter(|asked| !asked.trim().is_empty()).and_then(|asked| asked.parse().ok());
    let filter = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    with_datapath(filter).with_targets(packets.map(|level| (LOG_TARGET, level)))
}

/// The datapath is a crate of its own, and logs as a part of the daemon.
fn with_datapath(filter: Targets) -> Targets {
    let of = |crate_name| filter.iter().find(|(target, _)| *target == crate_name);
    match (of("atp_user"), of("atp_datapath")) {
        (Some((_, level)), None) => filter.with_target("atp_datapath", level),
        _ => filter,
    }
}

fn journal() -> Option<Journal> {
    stderr_is_journal().then(|| Journal::open(Path::new(journal::SOCKET)).ok()).flatten()
}

fn text<W>(writer: W) -> impl Layer<Filtered>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    layer()
        .with_target(false)
        .with_ansi(atp_output::has_color(&stderr()))
        // They would go to standard error by `eprintln!`, which panics if it is full.
        .log_internal_errors(false)
        .with_writer(writer)
}

/// Whether `JOURNAL_STREAM` names the file that is open as standard error: a child whose output was
/// redirected inherits the variable too (systemd.exec(5)).
fn stderr_is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(stderr()).is_ok_and(|file| named == format!("{}:{}", file.st_dev, file.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn filter__of_rust_log_and_of_packets() {
        for (asked, packets, target, level, is_logged) in [
            (None, None, "atp_user", Level::INFO, true),
            (None, None, "atp_user", Level::DEBUG, false),
            (Some(" "), None, "atp_user", Level::INFO, true),
            (Some("no such=level="), None, "atp_user", Level::INFO, true),
            (Some("warn"), None, "atp_user", Level::INFO, false),
            (Some("warn,atp_user=debug"), None, "atp_user::daemon", Level::DEBUG, true),
            (Some("warn,atp_user=debug"), None, "approxlib", Level::INFO, false),
            (Some("warn,atp_user=debug"), None, "atp_datapath::hook", Level::DEBUG, true),
            (Some("atp_user=info"), None, "atp_datapath::network", Level::WARN, true),
            (Some("atp_user=debug,atp_datapath=off"), None, "atp_datapath", Level::WARN, false),
            (None, Some(LevelFilter::TRACE), LOG_TARGET, Level::TRACE, true),
            (None, Some(LevelFilter::DEBUG), LOG_TARGET, Level::TRACE, false),
            (Some("off"), Some(LevelFilter::DEBUG), LOG_TARGET, Level::DEBUG, true),
        ] {
            let filter = filter(asked, packets);
            assert_eq!(filter.would_enable(target, &level), is_logged, "{asked:?} {packets:?}");
        }
    }
}
