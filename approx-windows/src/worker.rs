//! A thread that sends the windows of a stream, again and again until they are confirmed.

use crate::{
    cutter::{Batch, Cut},
    error::OutboxError,
    outbox::{Outbox, Peer},
    outgoing::OutgoingWindow,
    position::Position,
    sampling::Sampling,
    stream::Stream,
};
use approxlib::JobHandle;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::{EfdFlags, EventFd},
};
use std::{
    collections::VecDeque,
    io,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, TryRecvError, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The waits between two attempts to send: the first, and the longest.
const RETRY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Failures that are this far apart have nothing to do with each other. A job whose receiver is
/// silent fails after `peer_timeout`.
const SERIES: Duration = Duration::from_secs(120);

/// Where windows go, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// The receiver.
    pub peer: Peer,
    /// The groups.
    pub sampling: Sampling,
    /// How long to try again while the receiver fails.
    pub retry: Duration,
}

/// The news of a worker.
#[derive(Debug)]
pub enum Told {
    /// The oldest window is confirmed: the stream is read again from here.
    Confirmed(Position),
    /// Sending failed, and is tried again.
    Failed(OutboxError),
    /// Sending failed for too long: the thread ends.
    GaveUp(OutboxError),
    /// All windows are confirmed, and the job has ended: [`Worker::finish`].
    Finished,
}

/// Sends the windows of a stream from a thread. Dropping it ends the thread: windows that aren't
/// confirmed are forgotten.
#[derive(Debug)]
pub struct Worker {
    pieces: Option<Sender<Piece>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Piece {
    Batch(Batch),
    Cut(Box<Cut>),
}

#[derive(Debug)]
struct Shared {
    wake: EventFd,
    stop: AtomicBool,
    /// The job that sends now.
    job: Mutex<Option<JobHandle>>,
}

impl Worker {
    /// Starts the thread, which calls `tell` with its news.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn start(
        target: Target,
        stream: Stream,
        tell: impl FnMut(Told) + Send + 'static,
    ) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let shared = Arc::new(Shared { wake, stop: AtomicBool::new(false), job: Mutex::default() });
        let (pieces, to_send) = channel();
        let sending = Sending {
            target,
            stream,
            pieces: to_send,
            tell: Box::new(tell),
            shared: shared.clone(),
            outbox: None,
            windows: VecDeque::new(),
            failing: None,
            holds_open: false,
            is_closed: false,
        };
        let thread = thread::Builder::new().name("atp-windows".into()).spawn(|| sending.run())?;
        Ok(Self { pieces: Some(pieces), shared, thread: Some(thread) })
    }

    /// Sends a part of the window that closes next.
    pub fn send_batch(&self, batch: Batch) {
        self.give(Piece::Batch(batch));
    }

    /// Sends a window, or what is left of one, after those before it.
    pub fn send(&self, cut: Cut) {
        self.give(Piece::Cut(Box::new(cut)));
    }

    /// Ends the job, once all windows are confirmed: [`Told::Finished`]. No window follows.
    pub fn finish(&mut self) {
        self.pieces = None;
        self.shared.wake();
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn give(&self, piece: Piece) {
        if let Some(pieces) = &self.pieces {
            // A worker that gave up has said so.
            let _ = pieces.send(piece);
        }
        self.shared.wake();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.pieces = None;
        if let Some(job) = &*self.shared.job() {
            job.abandon();
        }
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake(&self) {
        // A full counter wakes the thread as well.
        let _ = self.wake.write(1);
    }

    fn job(&self) -> MutexGuard<'_, Option<JobHandle>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Failures that follow each other.
#[derive(Clone, Copy)]
struct Failing {
    since: Instant,
    last: Instant,
    /// The wait before the next attempt.
    pause: Duration,
}

/// The state of the thread.
struct Sending {
    target: Target,
    stream: Stream,
    pieces: Receiver<Piece>,
    tell: Box<dyn FnMut(Told) + Send>,
    shared: Arc<Shared>,
    outbox: Option<Outbox>,
    /// Windows that aren't confirmed. The outbox has the first ones. The last one may be open.
    windows: VecDeque<OutgoingWindow>,
    failing: Option<Failing>,
    /// Open windows wait for their end, because sending has failed. A receiver without memory for
    /// them would refuse them again and again.
    holds_open: bool,
    /// No more pieces come.
    is_closed: bool,
}

impl Sending {
    fn run(mut self) {
        while !self.is_stopped() {
            match self.step() {
                Ok(()) if self.is_closed && self.windows.is_empty() => break,
                Ok(()) => self.sleep(None),
                Err(error) => match self.on_failure(error) {
                    Some(pause) => self.sleep(Some(pause)),
                    None => return,
                },
            }
        }
        let is_done = self.windows.is_empty() && self.is_closed;
        if let Some(outbox) = self.outbox.take().filter(|_| is_done) {
            // All windows are confirmed: a lost goodbye loses nothing.
            let _ = outbox.finish();
        }
        if is_done {
            (self.tell)(Told::Finished);
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Relaxed)
    }

    /// Does what can be done.
    fn step(&mut self) -> Result<(), OutboxError> {
        loop {
            match self.pieces.try_recv() {
                Ok(piece) => self.take(piece),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.is_closed = true;
                    break;
                }
            }
        }
        self.confirm()?;
        self.send()
    }

    fn take(&mut self, piece: Piece) {
        let last = self.windows.back_mut().filter(|window| window.is_open());
        match (piece, last) {
            (Piece::Batch(batch), Some(window)) => window.add(batch),
            (Piece::Batch(batch), None) => {
                self.windows.push_back(OutgoingWindow::open(batch, &self.stream));
            }
            (Piece::Cut(cut), Some(window)) => window.close(*cut),
            (Piece::Cut(cut), None) => {
                self.windows.push_back(OutgoingWindow::closed(*cut, &self.stream));
            }
        }
    }

    fn confirm(&mut self) -> Result<(), OutboxError> {
        let Some(outbox) = &mut self.outbox else { return Ok(()) };
        while outbox.try_confirmed()?.is_some() {
            (self.failing, self.holds_open) = (None, false);
            if let Some(position) = self.windows.pop_front().and_then(|window| window.position()) {
                (self.tell)(Told::Confirmed(position));
            }
        }
        Ok(())
    }

    /// Sends what there is room for.
    fn send(&mut self) -> Result<(), OutboxError> {
        while !self.is_stopped() {
            let sent = self.outbox.as_ref().map_or(0, |outbox| outbox.unconfirmed() as usize);
            let next = self.windows.get(sent);
            let Some(window) = next.filter(|window| !(self.holds_open && window.is_open())) else {
                break;
            };
            let outbox = match &mut self.outbox {
                Some(outbox) => outbox,
                None => {
                    let Target { peer, sampling, .. } = &self.target;
                    let opened = Outbox::open(peer, &self.stream, sampling)?;
                    *self.shared.job() = Some(opened.handle());
                    // `stop` is looked at again: it may have come before it knew the job.
                    self.outbox = Some(opened);
                    continue;
                }
            };
            if !outbox.try_send(window)? || window.is_open() {
                break;
            }
        }
        Ok(())
    }

    /// Notes a failure. Returns the pause before the next attempt, and `None` if that was the last.
    fn on_failure(&mut self, error: OutboxError) -> Option<Duration> {
        self.outbox = None;
        *self.shared.job() = None;
        if self.is_stopped() {
            return None;
        }
        self.holds_open = true;
        if self.windows.front().is_none_or(OutgoingWindow::is_open) {
            // Nothing has to be there before the window's end.
            (self.tell)(Told::Failed(error));
            return Some(Duration::ZERO);
        }
        // A failure long after the last one is the first of others.
        let series = self.failing.filter(|series| series.last.elapsed() < SERIES);
        let now = Instant::now();
        let Failing { since, pause, .. } =
            series.unwrap_or(Failing { since: now, last: now, pause: RETRY[0] });
        let next_pause = (2 * pause).min(RETRY[1]);
        self.failing = Some(Failing { since, last: now, pause: next_pause });
        let has_given_up = since.elapsed() >= self.target.retry;
        let told = if has_given_up { Told::GaveUp(error) } else { Told::Failed(error) };
        (self.tell)(told);
        (!has_given_up).then_some(pause)
    }

    /// Sleeps until there may be something to do; for `pause` while sending fails.
    fn sleep(&self, pause: Option<Duration>) {
        let until = pause.map(|pause| Instant::now() + pause);
        loop {
            let job = self.outbox.as_ref().and_then(|outbox| outbox.changed_fd().ok());
            let wake = PollFd::new(self.shared.wake.as_fd(), PollFlags::POLLIN);
            let mut fds: Vec<_> = job
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .into_iter()
                .chain([wake])
                .collect();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            let _ = poll(&mut fds, timeout);
            let _ = self.shared.wake.read();
            let is_over = until.is_none_or(|until| Instant::now() >= until);
            if is_over || self.is_stopped() {
                return;
            }
        }
    }
}
