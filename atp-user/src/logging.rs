//! Where log lines go: to the journal if systemd connected standard error to it, with each field as
//! a field of its own, else as text to standard error.

use crate::datapath::{LOG_TARGET, PacketLog};
use nix::sys::stat::fstat;
use std::{
    io::{IsTerminal, stderr},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::Directive,
    fmt::{MakeWriter, layer},
    layer::Layered,
    prelude::*,
};

type Filtered = Layered<EnvFilter, Registry>;

/// The lines of the daemon that wait while standard error takes none, for instance because a person
/// stopped the terminal. Further lines are lost.
const LINES_MAX: usize = 8192;

/// Counts the lines that the daemon lost.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// Starts logging. `RUST_LOG` filters the lines; without it the level is `info`.
pub fn start() {
    match journal() {
        Some(journal) => registry(None).with(journal).init(),
        None => registry(None).with(text(stderr)).init(),
    }
}

/// Starts the daemon's logging. Its control loop must not wait for standard error, so a thread
/// writes there. The thread ends with the returned value, after the last line.
pub fn start_daemon(packets: PacketLog) -> Option<WorkerGuard> {
    let packets = match packets {
        PacketLog::Off => None,
        level => format!("{LOG_TARGET}={}", level.name()).parse().ok(),
    };
    if let Some(journal) = journal() {
        registry(packets).with(journal).init();
        return None;
    }
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_MAX)
        .thread_name("atp-log")
        .finish(stderr());
    let _ = LOST.set(writer.error_counter());
    registry(packets).with(text(writer)).init();
    Some(guard)
}

/// Says how many lines were lost so far, if that has changed since the last call.
pub fn say_lost() {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    let lost = LOST.get().map_or(0, ErrorCounter::dropped_lines);
    if SAID.swap(lost, Relaxed) != lost {
        tracing::warn!(lost, "log lines were lost: standard error was too slow");
    }
}

fn registry(further: Option<Directive>) -> Filtered {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let filter = match further {
        Some(further) => filter.add_directive(further),
        None => filter,
    };
    tracing_subscriber::registry().with(filter)
}

fn journal() -> Option<tracing_journald::Layer> {
    stderr_is_journal().then(tracing_journald::layer).and_then(Result::ok)
}

fn text<W>(writer: W) -> impl Layer<Filtered>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    layer().with_target(false).with_ansi(stderr().is_terminal()).with_writer(writer)
}

/// Whether `JOURNAL_STREAM` names the file that is open as standard error: a child whose output was
/// redirected inherits the variable too (systemd.exec(5)).
fn stderr_is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(stderr()).is_ok_and(|file| named == format!("{}:{}", file.st_dev, file.st_ino))
}
