//! The log of single packets that the programs write (aya-log): its level, and the thread that
//! reads it. See `atp-ebpf/src/log.rs`.

use super::{
    DatapathError,
    error::error_chain,
    log_limit::LogLimit,
    log_line::{LogLine, TARGET},
    stats::CounterMap,
    table::mismatch,
};
use aya::Ebpf;
use aya_log::EbpfLogger;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::{EfdFlags, EventFd},
};
use std::{
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Instant,
};

/// The constant of the programs that holds the level.
pub(super) const LEVEL_GLOBAL: &str = aya_log::LEVEL;
/// The ring of lines that wait for the thread.
pub(super) const RING: &str = "AYA_LOGS";
/// The bytes of that map.
const RING_BYTES: u32 = 1 << 20;
/// At least as many lines as fit into that map: a line takes 256 bytes and a header of 8.
const LINES_MAX: u64 = RING_BYTES as u64 / 264;
/// A line that was counted is in the map after this time.
const SETTLED_MS: u16 = 500;

/// The packets that the programs log. See [`atp_common::maps::Event`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PacketLog {
    /// None: the programs contain no code for it
    #[default]
    #[value(skip)]
    Off,
    /// Packets that were dropped, refused or not acknowledged, and why
    Debug,
    /// Also each ACK and each answer to a PROBE that the programs sent or took
    Trace,
}

impl PacketLog {
    /// The level's name for filters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// The value of [`LEVEL_GLOBAL`].
    pub(super) const fn in_programs(self) -> &'static u8 {
        match self {
            Self::Off => &0,
            Self::Debug => &(aya_log::Level::Debug as u8),
            Self::Trace => &(aya_log::Level::Trace as u8),
        }
    }

    /// The bytes of [`RING`]. The loader rounds up to a page.
    pub(super) const fn ring_bytes(self) -> u32 {
        match self {
            Self::Off => 1,
            Self::Debug | Self::Trace => RING_BYTES,
        }
    }
}

/// The thread that reads the log. Dropping this value ends it, after the last line. Detach the
/// programs before: they would write further lines.
pub struct LogThread {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl LogThread {
    /// Starts the thread.
    pub fn start(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let written = CounterMap::take_one(ebpf, "LOG_LINES")?;
        let printer = Arc::new(Printer { tally: Mutex::new(Tally::new(written)) });
        let logger = EbpfLogger::init_with_logger(ebpf, printer.clone())
            .map_err(|error| mismatch(format!("no log: {}", error_chain(&error))))?;
        let failed = |error| DatapathError::map("read the programs' log", error);
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|e| failed(e.into()))?;
        let stop = Arc::new(stop);
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("atp-packet-log".into())
            .spawn(move || {
                if let Err(error) = read(logger, &printer, &stopped) {
                    tracing::error!(%error, "can't read the programs' log");
                }
            })
            .map_err(failed)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        let told = self.stop.write(1);
        if let Some(thread) = self.thread.take()
            && (told.is_err() || thread.join().is_err())
        {
            tracing::error!("the thread for the programs' log has failed");
        }
    }
}

/// Prints lines until the end. Says how many were lost, because [`LINES_MAX`] others waited in the
/// ring, or left out by [`LogLimit`].
fn read(mut logger: EbpfLogger<Arc<Printer>>, printer: &Printer, stop: &EventFd) -> io::Result<()> {
    loop {
        let written = printer.lock().written();
        logger.flush();
        // The programs count a line before they write it, so the last lines may still come.
        let is_settled = printer.lock().is_settled(written);
        let timeout = if is_settled { PollTimeout::NONE } else { SETTLED_MS.into() };
        let mut ready = [
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(logger.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, timeout) {
            Err(Errno::EINTR) => continue,
            Ok(0) => printer.lock().say_lost(written),
            polled => drop(polled?),
        }
        if ready[0].any() == Some(true) {
            let written = printer.lock().written();
            logger.flush();
            printer.lock().say_lost(written);
            return Ok(());
        }
    }
}

/// Turns the lines of aya-log into events of this process's log.
struct Printer {
    tally: Mutex<Tally>,
}

impl Printer {
    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl log::Log for Printer {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.lock().count_read() {
            return;
        }
        let text = record.args().to_string();
        match LogLine::parse(&text) {
            Some(line) => line.print(),
            None => tracing::debug!(target: TARGET, text, "can't parse the programs' line"),
        }
    }

    fn flush(&self) {}
}

/// Lines written, read and lost.
struct Tally {
    counter: CounterMap,
    read: u64,
    /// Lines that found no room in the ring.
    lost: u64,
    limit: LogLimit,
    /// The lost lines that the log has said.
    said: u64,
}

impl Tally {
    fn new(counter: CounterMap) -> Self {
        Self { counter, read: 0, lost: 0, limit: LogLimit::default(), said: 0 }
    }

    /// Lines that the programs had so far.
    fn written(&self) -> u64 {
        self.counter.sum_at(0).unwrap_or_default()
    }

    /// Whether that many lines were read, or are known to be lost, and the loss was said.
    const fn is_settled(&self, written: u64) -> bool {
        written <= self.read + self.lost && self.said == self.lost + self.limit.left_out()
    }

    /// Counts a line. Returns whether to print it.
    fn count_read(&mut self) -> bool {
        self.read += 1;
        let verdict = self.limit.admit(Instant::now());
        // While packets keep the thread busy, as many lines as fit into the ring may still wait.
        if verdict.is_first {
            self.say_lost(self.written().saturating_sub(LINES_MAX));
        }
        verdict.is_printed
    }

    /// Says how many lines were lost so far, if none of the first `written` can still come.
    fn say_lost(&mut self, written: u64) {
        self.lost = self.lost.max(written.saturating_sub(self.read));
        let lost = self.lost + self.limit.left_out();
        if lost != self.said {
            self.said = lost;
            tracing::warn!(lost, "lines about packets were lost: too many packets");
        }
    }
}
