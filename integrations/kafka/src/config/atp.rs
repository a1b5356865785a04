//! `[atp]`: options of jobs and receivers.

use super::{Bytes, Span};
use approxlib::{Job, JobBuilder, Receiver, ReceiverBuilder, ScopedIp};
use serde::Deserialize;
use std::path::PathBuf;

/// The most partitions at once: three quarters of them from one address.
const SOURCES_MAX: usize = 4_096;

/// The daemon to use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged, expecting = "the path of a control socket, or false for no daemon")]
enum Daemon {
    #[default]
    Default,
    Socket(PathBuf),
    Use(bool),
}

impl Daemon {
    /// The argument of `control_socket`, if it must be called.
    fn control_socket(&self) -> Option<Option<PathBuf>> {
        match self {
            Self::Default | Self::Use(true) => None,
            Self::Socket(path) => Some(Some(path.clone())),
            Self::Use(false) => Some(None),
        }
    }
}

/// Options of the jobs that send windows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AtpSend {
    daemon: Daemon,
    rate_max_bytes_per_s: Option<u64>,
    peer_timeout: Option<Span>,
    /// How long to try again while the receiver can't be reached. Default 5 minutes.
    retry: Option<Span>,
}

impl AtpSend {
    /// The options of a job.
    pub fn job(&self) -> JobBuilder {
        let mut job = Job::builder();
        if let Some(socket) = self.daemon.control_socket() {
            job = job.control_socket(socket);
        }
        if let Some(rate) = self.rate_max_bytes_per_s {
            job = job.rate_max_bytes_per_s(rate);
        }
        if let Some(timeout) = self.peer_timeout {
            job = job.peer_timeout(timeout.0);
        }
        job
    }

    /// How long to try again.
    pub fn retry(&self) -> std::time::Duration {
        self.retry.map_or(std::time::Duration::from_secs(300), |span| span.0)
    }
}

/// Options of the receiver of windows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AtpReceive {
    daemon: Daemon,
    /// The hosts that may send. Default: all.
    senders: Vec<String>,
    line_rate_bytes_per_s: Option<u64>,
    memory_max: Option<Bytes>,
}

impl AtpReceive {
    /// The options of a receiver.
    ///
    /// # Errors
    /// An address of a sender is none.
    pub fn receiver(&self) -> Result<ReceiverBuilder, String> {
        // Each partition is a sender of its own, and all may have one address.
        let mut receiver = Receiver::builder().sources_max(SOURCES_MAX);
        if let Some(socket) = self.daemon.control_socket() {
            receiver = receiver.control_socket(socket);
        }
        if let Some(rate) = self.line_rate_bytes_per_s {
            receiver = receiver.line_rate_bytes_per_s(rate);
        }
        for sender in &self.senders {
            let address: ScopedIp = sender.parse().map_err(|_| {
                format!("[atp] `senders` has {sender:?}, which isn't an IP address")
            })?;
            receiver = receiver.peer(address);
        }
        Ok(receiver)
    }

    /// The most bytes of open windows. Default 512 MiB.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_max.map_or(512 << 20, |bytes| bytes.0)
    }
}
