//! Where the values come from: the snapshot page of a daemon, and the next daemon after its end.

use anyhow::{Result, bail};
use approxlib::control::{Client, ClientError, HostStats, Snapshot};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    os::fd::AsFd,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a daemon may take to read its counters.
const FRESH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long its control loop may be silent before that is worth a word.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A daemon that is watched, or that has ended.
pub struct Source {
    socket: PathBuf,
    watched: Option<Watched>,
}

/// A running daemon. The client is kept open because it tells of a crash.
struct Watched {
    client: Client,
    snapshot: Snapshot,
    /// The last tick, and when it was seen first.
    ticked: (f64, Instant),
}

impl Watched {
    fn connect(socket: &Path) -> Result<Self, ClientError> {
        let client = Client::connect(socket)?;
        let snapshot = client.snapshot()?;
        Ok(Self { client, snapshot, ticked: (0.0, Instant::now()) })
    }

    fn has_ended(&self) -> bool {
        if self.snapshot.has_ended() {
            return true;
        }
        // The daemon sends nothing without a request: an event is its end.
        let mut fds = [PollFd::new(self.client.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|events| events > 0)
    }
}

/// One look at the source.
pub struct Reading {
    /// The values, if there are new ones.
    pub stats: Option<HostStats>,
    /// The present problem, if there is one.
    pub trouble: Option<String>,
}

impl Source {
    /// Connects to the daemon at `socket`.
    ///
    /// # Errors
    /// If none answers there.
    pub fn connect(socket: &Path) -> Result<Self> {
        Ok(Self { socket: socket.into(), watched: Some(Watched::connect(socket)?) })
    }

    /// The state of the host with counters that were read after this call, and with the rates
    /// achieved since.
    ///
    /// # Errors
    /// If the daemon ends meanwhile, or is too slow.
    pub fn read_fresh(&mut self) -> Result<HostStats> {
        let deadline = Instant::now() + FRESH_TIMEOUT;
        let path = self.socket.display();
        let Some(watched) = &mut self.watched else { bail!("the ATP daemon at {path} has ended") };
        let first = watched.snapshot.read();
        loop {
            thread::sleep(Duration::from_millis(20));
            if watched.has_ended() {
                bail!("the ATP daemon at {path} has ended");
            }
            if watched.snapshot.counters_read_s() > first.uptime_s {
                return Ok(watched.snapshot.read());
            }
            if Instant::now() > deadline {
                bail!(
                    "the ATP daemon at {path} has not read its counters for {} s: check its log",
                    FRESH_TIMEOUT.as_secs()
                );
            }
        }
    }

    /// The present values. After the end of the daemon, looks for another one.
    pub fn read(&mut self) -> Reading {
        let path = self.socket.display();
        match &mut self.watched {
            Some(watched) if watched.has_ended() => {
                self.watched = None;
                let trouble = format!("the ATP daemon at {path} has ended: its last values");
                Reading { stats: None, trouble: Some(trouble) }
            }
            Some(watched) => {
                let stats = watched.snapshot.read();
                let trouble = watched.silence(&stats);
                Reading { stats: Some(stats), trouble }
            }
            None => match Watched::connect(&self.socket) {
                Ok(mut watched) => {
                    let stats = watched.snapshot.read();
                    self.watched = Some(watched);
                    Reading { stats: Some(stats), trouble: None }
                }
                Err(ClientError::NoDaemon { .. }) => {
                    let trouble = format!(
                        "no ATP daemon at {path}: these are the last values; waiting for a daemon"
                    );
                    Reading { stats: None, trouble: Some(trouble) }
                }
                Err(error) => Reading { stats: None, trouble: Some(error.to_string()) },
            },
        }
    }
}

impl Watched {
    /// Says so if the control loop has not run for a while.
    fn silence(&mut self, stats: &HostStats) -> Option<String> {
        if self.ticked.0 != stats.uptime_s {
            self.ticked = (stats.uptime_s, Instant::now());
        }
        let silent = self.ticked.1.elapsed();
        (silent > SILENCE_MAX)
            .then(|| format!("the daemon's control loop has not run for {} s", silent.as_secs()))
    }
}
