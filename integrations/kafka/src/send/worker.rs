//! A thread that sends the windows of one partition, again and again until they are confirmed.

use approx_windows::{Cut, Outbox, OutboxError, PackedWindow, Peer, Position, Sampling, Stream};
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
        Arc, Mutex, PoisonError,
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
/// Windows that are on their way at once.
const OPEN_MAX: usize = 2;

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
    /// Sending failed for too long.
    GaveUp(OutboxError),
}

/// The thread of a partition.
#[derive(Debug)]
pub struct Worker {
    cuts: Option<Sender<Cut>>,
    told: Receiver<Told>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    wake: EventFd,
    stop: AtomicBool,
    /// The job that sends now.
    job: Mutex<Option<JobHandle>>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn start(target: Target, stream: Stream) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let shared = Arc::new(Shared { wake, stop: AtomicBool::new(false), job: Mutex::default() });
        let ((cuts, to_send), (tell, told)) = (channel(), channel());
        let sending = Sending {
            target,
            stream,
            cuts: to_send,
            tell,
            shared: shared.clone(),
            outbox: None,
            windows: VecDeque::new(),
            failing: None,
            is_closed: false,
        };
        let thread = thread::Builder::new().name("windows".into()).spawn(|| sending.run())?;
        Ok(Self { cuts: Some(cuts), told, shared, thread: Some(thread) })
    }

    /// Sends a window, after those before it.
    pub fn send(&self, cut: Cut) {
        if let Some(cuts) = &self.cuts {
            // A worker that gave up has said so.
            let _ = cuts.send(cut);
        }
        self.shared.wake();
    }

    /// The news since the last call.
    pub fn told(&self) -> impl Iterator<Item = Told> + '_ {
        self.told.try_iter()
    }

    /// Whether the thread has ended, although nobody asked.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Waits for what the worker tells next, until `deadline`.
    pub fn wait(&self, deadline: Instant) -> Option<Told> {
        self.told.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// Ends the thread now. Windows that aren't confirmed are forgotten.
    fn stop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.cuts = None;
        if let Some(job) = &*self.shared.job() {
            job.abandon();
        }
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn wake(&self) {
        // A full counter wakes the thread as well.
        let _ = self.wake.write(1);
    }

    fn job(&self) -> std::sync::MutexGuard<'_, Option<JobHandle>> {
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
    cuts: Receiver<Cut>,
    tell: Sender<Told>,
    shared: Arc<Shared>,
    outbox: Option<Outbox>,
    /// Windows that aren't confirmed. The outbox has the first ones.
    windows: VecDeque<PackedWindow>,
    failing: Option<Failing>,
    /// No more windows come.
    is_closed: bool,
}

impl Sending {
    fn run(mut self) {
        while !(self.shared.stop.load(Relaxed) || self.is_closed && self.windows.is_empty()) {
            match self.step() {
                Ok(true) => {}
                Ok(false) => self.sleep(None),
                Err(error) => match self.on_failure(error) {
                    Some(pause) => self.sleep(Some(pause)),
                    None => return,
                },
            }
        }
        if let Some(outbox) = self.outbox.take().filter(|_| self.windows.is_empty()) {
            // All windows are confirmed: a lost goodbye loses nothing.
            let _ = outbox.finish();
        }
    }

    /// Does what can be done. Returns whether that was anything.
    fn step(&mut self) -> Result<bool, OutboxError> {
        let mut has_worked = false;
        loop {
            match self.cuts.try_recv() {
                Ok(cut) => {
                    let seed = rand::random();
                    let Self { stream, target, .. } = self;
                    let window = PackedWindow::new(&cut, stream, &target.sampling, seed);
                    self.windows.push_back(window);
                    has_worked = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.is_closed = true;
                    break;
                }
            }
        }
        Ok(has_worked | self.confirm()? | self.send_next()?)
    }

    fn confirm(&mut self) -> Result<bool, OutboxError> {
        let Some(outbox) = &mut self.outbox else { return Ok(false) };
        let mut has_worked = false;
        while outbox.try_confirmed()?.is_some() {
            self.failing = None;
            has_worked = true;
            if let Some(window) = self.windows.pop_front() {
                // The bridge is ending if it listens no more.
                let _ = self.tell.send(Told::Confirmed(window.position()));
            }
        }
        Ok(has_worked)
    }

    fn send_next(&mut self) -> Result<bool, OutboxError> {
        let sent = self.outbox.as_ref().map_or(0, |outbox| outbox.unconfirmed() as usize);
        let Some(window) = self.windows.get(sent).filter(|_| sent < OPEN_MAX) else {
            return Ok(false);
        };
        let outbox = match &mut self.outbox {
            Some(outbox) => outbox,
            None => {
                let opened = Outbox::open(&self.target.peer, &self.stream, window)?;
                *self.shared.job() = Some(opened.handle());
                self.outbox.insert(opened)
            }
        };
        // `stop` may have come before the job was known to it.
        if !self.shared.stop.load(Relaxed) {
            outbox.send(window)?;
        }
        Ok(true)
    }

    /// Notes a failure. Returns the pause before the next attempt, and `None` if that was the last.
    fn on_failure(&mut self, error: OutboxError) -> Option<Duration> {
        self.outbox = None;
        *self.shared.job() = None;
        if self.shared.stop.load(Relaxed) {
            return None;
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
        let _ = self.tell.send(told);
        (!has_given_up).then_some(pause)
    }

    /// Sleeps until a window comes or is confirmed; for `pause` while sending fails.
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
            if is_over || self.shared.stop.load(Relaxed) {
                return;
            }
        }
    }
}
