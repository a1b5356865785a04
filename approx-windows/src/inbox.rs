//! Receives windows, each of which counts once.

mod open;

use crate::{
    counted::{Count, Counted},
    error::{InboxError, MalformedError},
    header::{HELLO, WindowBegin, WindowHeader},
    stream::Stream,
    window::ReceivedWindow,
};
use approxlib::{Event, Receiver, ReceiverBuilder, ToAddresses};
use open::OpenWindows;
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

/// Receives the windows of any number of streams at one port.
///
/// Each window is handed over once it has ended. Its sender commits it once the application has
/// [confirmed](Inbox::confirm) it: a window that is neither confirmed nor counted is sent again.
#[derive(Debug)]
pub struct Inbox {
    receiver: Receiver,
    counted: Counted,
    open: OpenWindows,
    /// Ended windows of streams in `unconfirmed`, in their order.
    waiting: VecDeque<Ended>,
    /// Streams of which a window was handed over and not confirmed, and its run.
    unconfirmed: HashMap<Stream, u64>,
    stats: InboxStats,
}

/// A window that has ended for the library.
#[derive(Debug)]
struct Ended {
    key: (u64, u32),
    source: SocketAddr,
    header: WindowHeader,
    messages: Vec<(u8, Vec<u8>)>,
    bytes: u64,
}

/// The next thing that an [`Inbox`] has for its application.
#[derive(Debug)]
pub enum Arrival {
    /// A window with records that count.
    Window(Box<ReceivedWindow>),
    /// A window all of whose records were counted before. It is confirmed.
    Repeated(Box<WindowHeader>),
    /// A window that will be sent again: its sender failed, or was replaced.
    Unfinished(Box<WindowBegin>),
    /// The sender of this stream has ended its job: all windows that it had are confirmed.
    Ended(Box<Stream>),
    /// The bytes of this sender are no window. Its job fails.
    Malformed {
        /// The sender.
        source: SocketAddr,
        /// The reason.
        error: MalformedError,
    },
    /// The open windows need more memory than they may have. The job of this sender fails, and
    /// tries again later.
    NoMemory {
        /// The sender.
        source: SocketAddr,
        /// The first of the windows of that job, if it is known.
        window: Option<Box<WindowBegin>>,
        /// The limit, bytes.
        bytes_max: u64,
    },
}

/// Counters of an [`Inbox`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxStats {
    /// Windows that were counted, in whole or in part.
    pub windows: u64,
    /// Windows all of whose records had been counted.
    pub repeated: u64,
    /// Windows that a sender didn't finish.
    pub unfinished: u64,
    /// Senders whose bytes were no window.
    pub malformed: u64,
    /// Senders for whose windows there was no memory.
    pub no_memory: u64,
    /// Records that arrived and count.
    pub received: u64,
    /// Records that count and didn't arrive.
    pub lost: u64,
    /// Records that were received again.
    pub records_repeated: u64,
    /// Offsets that no window has brought.
    pub skipped: u64,
}

/// A sender of an open window that is silent for this long may have crashed, unless it awaits the
/// confirmation of an earlier window. If its windows take this share of the memory, they make room
/// first. A sender that lives sends them again once they are closed.
const SILENCE_SHARE: u64 = 16;
const SILENCE: Duration = Duration::from_secs(15);

impl Inbox {
    /// Receives at `local`. `counted`: the offsets that were counted before this process.
    /// `memory_bytes_max`: the most bytes of windows that are open or wait for another one.
    ///
    /// # Errors
    /// As [`ReceiverBuilder::bind`].
    pub fn bind(
        builder: ReceiverBuilder,
        local: impl ToAddresses,
        counted: Counted,
        memory_bytes_max: u64,
    ) -> Result<Self, InboxError> {
        let receiver = builder.confirm_windows(true).bind(local)?;
        Ok(Self {
            receiver,
            counted,
            open: OpenWindows::new(memory_bytes_max),
            waiting: VecDeque::new(),
            unconfirmed: HashMap::new(),
            stats: InboxStats::default(),
        })
    }

    /// The address that this is bound to.
    ///
    /// # Errors
    /// None at present.
    pub fn local_addr(&self) -> Result<SocketAddr, InboxError> {
        Ok(self.receiver.local_addr()?)
    }

    /// A descriptor for `poll`: readable when [`Inbox::next`] may have something, unless a window
    /// waits for the confirmation of another one.
    ///
    /// # Errors
    /// As [`Receiver::readable_fd`].
    pub fn readable_fd(&self) -> Result<BorrowedFd<'_>, InboxError> {
        Ok(self.receiver.readable_fd()?)
    }

    /// Waits for the next arrival, for `timeout` at most; `None` waits without a limit. While a
    /// window of a stream isn't confirmed, no other one of that stream is handed over.
    ///
    /// # Errors
    /// [`InboxError::Transport`] if the socket fails.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Arrival>, InboxError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(arrival) = self.next_waiting() {
                return Ok(Some(arrival));
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let Some(event) = self.receiver.recv(left)? else { return Ok(None) };
            if let Some(arrival) = self.on_event(event) {
                return Ok(Some(arrival));
            }
            // Messages may come without a pause.
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(self.next_waiting());
            }
        }
    }

    /// Counts a window, and confirms it to its sender: its result is stored.
    pub fn confirm(&mut self, window: &ReceivedWindow) {
        let header = &window.header;
        self.counted.insert(header);
        self.stats.windows += 1;
        self.stats.received += window.received();
        self.stats.lost += window.lost.len();
        self.stats.skipped = self.stats.skipped.saturating_add(window.skipped);
        if let Count::Partly(new) = &window.count {
            self.stats.records_repeated += header.records() - new.len();
        }
        self.release(window);
        self.receiver.confirm_window(window.key.0, window.key.1);
    }

    /// Gives a window back without counting it: its result couldn't be stored. Its sender's job
    /// fails, and sends the window again.
    pub fn reject(&mut self, window: &ReceivedWindow) {
        self.release(window);
        self.refuse(window.key.0);
    }

    /// The offsets that were counted so far.
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> InboxStats {
        self.stats
    }

    /// The bytes of windows that are open or wait.
    pub fn memory_bytes(&self) -> u64 {
        self.open.bytes()
    }

    fn on_event(&mut self, event: Event) -> Option<Arrival> {
        match event {
            Event::Started { .. } | Event::TermsChanged { .. } => None,
            Event::Message { source, run, window, group, data, .. } => {
                self.on_message((run, window), source, group, data)
            }
            Event::WindowEnded { source, run, summary, .. } => {
                let key = (run, summary.window);
                let Some(open) = self.open.remove(key) else {
                    // Its messages were refused.
                    return None;
                };
                if open.is_hello {
                    self.receiver.confirm_window(run, summary.window);
                    return None;
                }
                if !summary.complete {
                    return self.unfinished(open.begin);
                }
                let Some(header) = open.header else {
                    return Some(self.malformed(run, source, MalformedError::HeaderCount));
                };
                let (messages, bytes) = (open.messages, open.bytes);
                self.open.keep(bytes);
                self.waiting.push_back(Ended { key, source, header, messages, bytes });
                None
            }
            // A sender ends each window before its job.
            Event::Finished { run, summary, .. } => {
                let open = self.open.remove_run(run).into_iter().find_map(|open| open.begin);
                let stream = self.open.end(run).filter(|_| summary.complete);
                match (open, stream) {
                    (None, Some(stream)) => Some(Arrival::Ended(Box::new(stream))),
                    (open, _) => self.unfinished(open),
                }
            }
        }
    }

    fn on_message(
        &mut self,
        key: (u64, u32),
        source: SocketAddr,
        group: u8,
        data: Vec<u8>,
    ) -> Option<Arrival> {
        let added = match data.first() {
            Some(&HELLO) if data.len() == 1 => {
                // The answer, which no other receiver gives.
                self.receiver.request_end(key.0);
                self.open.hello(key)
            }
            _ => self.open.add(key, source, group, data),
        };
        match added {
            Err(error) => return Some(self.malformed(key.0, source, error)),
            // The stream has another sender: this one has its windows from before.
            Ok(Some(replaced)) => {
                let windows = self.open.remove_run(replaced);
                self.refuse(replaced);
                let begin = windows.into_iter().find_map(|open| open.begin);
                return self.unfinished(begin);
            }
            Ok(None) => {}
        }
        let bytes_max = self.open.bytes_max();
        if self.open.bytes() <= bytes_max {
            return None;
        }
        // A sender that has crashed sends no end.
        let awaits = |run| {
            self.unconfirmed.values().any(|awaiting| *awaiting == run)
                || self.waiting.iter().any(|ended| ended.key.0 == run)
        };
        if let Some(silent) = self.open.silent_run(SILENCE, bytes_max / SILENCE_SHARE, awaits) {
            let windows = self.open.remove_run(silent);
            self.refuse(silent);
            return self.unfinished(windows.into_iter().find_map(|open| open.begin));
        }
        self.stats.no_memory += 1;
        let (run, source) = self.open.largest_run().unwrap_or((key.0, source));
        let windows = self.open.remove_run(run);
        let window = windows.into_iter().find_map(|open| open.begin).map(Box::new);
        self.refuse(run);
        Some(Arrival::NoMemory { source, window, bytes_max })
    }

    /// The oldest ended window whose stream has none that awaits its confirmation.
    fn next_waiting(&mut self) -> Option<Arrival> {
        let is_free = |ended: &Ended| !self.unconfirmed.contains_key(&ended.header.stream);
        let at = self.waiting.iter().position(is_free)?;
        let Ended { key, source, header, messages, bytes } = self.waiting.remove(at)?;
        self.open.give_back(bytes);
        let count = self.counted.count(&header);
        let is_repeated = count == Count::Repeated;
        let skipped = self.counted.skipped(&header);
        let window = match ReceivedWindow::new(key, header, &messages, count) {
            Ok(window) => ReceivedWindow { skipped, ..window },
            Err(error) => return Some(self.malformed(key.0, source, error)),
        };
        if is_repeated {
            self.stats.repeated += 1;
            self.stats.records_repeated += window.header.records();
            self.stats.skipped = self.stats.skipped.saturating_add(skipped);
            // The windows before it end here, too.
            self.counted.insert(&window.header);
            self.receiver.confirm_window(key.0, key.1);
            return Some(Arrival::Repeated(Box::new(window.header)));
        }
        self.unconfirmed.insert(window.header.stream.clone(), key.0);
        Some(Arrival::Window(Box::new(window)))
    }

    fn release(&mut self, window: &ReceivedWindow) {
        self.unconfirmed.remove(&window.header.stream);
    }

    fn unfinished(&mut self, begin: Option<WindowBegin>) -> Option<Arrival> {
        let begin = begin?;
        self.stats.unfinished += 1;
        Some(Arrival::Unfinished(Box::new(begin)))
    }

    fn malformed(&mut self, run: u64, source: SocketAddr, error: MalformedError) -> Arrival {
        self.stats.malformed += 1;
        self.refuse(run);
        Arrival::Malformed { source, error }
    }

    /// Drops everything of a run. Its events that are on their way find nothing.
    fn refuse(&mut self, run: u64) {
        self.open.refuse(run);
        let open = &mut self.open;
        self.waiting.retain(|ended| {
            let keeps = ended.key.0 != run;
            if !keeps {
                open.give_back(ended.bytes);
            }
            keeps
        });
        self.receiver.refuse(run);
    }
}
