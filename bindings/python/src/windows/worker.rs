//! The thread that sends windows: the calls of an `Outbox` wait.

use approx_windows::{Outbox, OutboxError, PackedWindow, Peer, Position, Stream};
use approxlib::JobHandle;
use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

/// The interval of looks at confirmations, while some are missing.
const POLL: Duration = Duration::from_millis(5);

/// Sends windows on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Worker {
    commands: Sender<Command>,
    pub shared: Arc<Shared>,
}

#[derive(Debug)]
enum Command {
    Send(Box<PackedWindow>),
    Finish,
}

/// The progress of the thread.
#[derive(Debug, Default)]
pub struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub struct Progress {
    /// Windows that the outbox hasn't taken.
    pub queued: usize,
    /// The positions behind windows that aren't confirmed, in their order.
    unconfirmed: VecDeque<Position>,
    /// Windows that are confirmed.
    pub confirmed: u64,
    /// Where the stream is read again.
    pub position: Option<Position>,
    /// The first call that finds it raises it.
    pub failure: Option<OutboxError>,
    pub has_failed: bool,
    pub has_finished: bool,
    /// Ends a call of the thread that waits.
    job: Option<JobHandle>,
    is_abandoned: bool,
}

impl Progress {
    /// Whether all windows are confirmed.
    pub fn is_confirmed(&self) -> bool {
        self.queued == 0 && self.unconfirmed.is_empty()
    }

    /// The number of windows that aren't confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed, or for `limit`.
    pub fn wait(&self, limit: Duration, is_done: impl Fn(&Progress) -> bool) {
        let is_due = |progress: &mut Progress| !is_done(progress) && !progress.has_failed;
        drop(self.changed.wait_timeout_while(self.lock(), limit, is_due));
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl Worker {
    pub fn new(peer: Peer, stream: Stream) -> io::Result<Self> {
        let (commands, received) = mpsc::channel();
        let shared = Arc::<Shared>::default();
        let own = shared.clone();
        thread::Builder::new().name("atp-windows".to_owned()).spawn(move || {
            if let Err(error) = run(&received, &peer, &stream, &own) {
                own.change(|progress| {
                    progress.failure = Some(error);
                    progress.has_failed = true;
                });
            }
        })?;
        Ok(Self { commands, shared })
    }

    pub fn send(&self, window: PackedWindow) {
        {
            let mut progress = self.shared.lock();
            progress.queued += 1;
            progress.unconfirmed.push_back(window.position());
        }
        // A thread that has ended has failed.
        let _ = self.commands.send(Command::Send(Box::new(window)));
    }

    /// Ends the job, once all windows are confirmed.
    pub fn finish(&self) {
        let _ = self.commands.send(Command::Finish);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut progress = self.shared.lock();
        progress.is_abandoned = true;
        if let Some(job) = progress.job.take().filter(|_| !progress.has_finished) {
            job.abandon();
        }
    }
}

fn run(
    commands: &Receiver<Command>,
    peer: &Peer,
    stream: &Stream,
    shared: &Shared,
) -> Result<(), OutboxError> {
    let mut outbox: Option<Outbox> = None;
    loop {
        let is_waiting = outbox.as_ref().is_some_and(|outbox| outbox.unconfirmed() > 0);
        let command = match is_waiting {
            true => commands.recv_timeout(POLL),
            false => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match command {
            Ok(Command::Send(window)) => {
                let outbox = match &mut outbox {
                    Some(outbox) => outbox,
                    None => {
                        let opened = Outbox::open(peer, stream, &window)?;
                        shared.change(|progress| progress.job = Some(opened.handle()));
                        outbox.insert(opened)
                    }
                };
                if shared.lock().is_abandoned {
                    return Ok(());
                }
                outbox.send(&window)?;
                shared.change(|progress| progress.queued -= 1);
            }
            Ok(Command::Finish) => {
                if let Some(mut outbox) = outbox.take() {
                    while outbox.confirmed()?.is_some() {
                        shared.change(confirm);
                    }
                    outbox.finish()?;
                }
                shared.change(|progress| progress.has_finished = true);
                return Ok(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        while let Some(outbox) = &mut outbox
            && outbox.try_confirmed()?.is_some()
        {
            shared.change(confirm);
        }
    }
}

fn confirm(progress: &mut Progress) {
    progress.confirmed += 1;
    progress.position = progress.unconfirmed.pop_front().or(progress.position);
}
