//! The options of a receiver, and its beginning.

use super::{
    Receiver,
    inbox::Inbox,
    registrar::register,
    sources::{Admission, Sources},
    worker::{Acknowledger, Buffers, Worker},
};
use crate::{
    control::default_socket,
    error::Error,
    udp::{UdpSocket, now_ns},
};
use atp_proto::ReceiverConfig;
use std::{
    collections::{HashSet, VecDeque},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    thread,
};

/// Options of a [`Receiver`].
#[derive(Clone, Debug)]
pub struct ReceiverBuilder {
    /// `None`: whatever is there. `Some(None)`: no daemon.
    control_socket: Option<Option<PathBuf>>,
    jobs: HashSet<u32>,
    sources_max: usize,
    message_bytes_max: u32,
    incomplete_bytes_max: u64,
    buffer_bytes: u64,
}

impl Default for ReceiverBuilder {
    fn default() -> Self {
        Self {
            control_socket: None,
            jobs: HashSet::new(),
            sources_max: 256,
            message_bytes_max: 64 << 20,
            incomplete_bytes_max: 64 << 20,
            buffer_bytes: 64 << 20,
        }
    }
}

impl ReceiverBuilder {
    /// The daemon's socket; `None` does without a daemon. Default: the daemon at
    /// [`default_socket`], if there is one.
    pub fn control_socket(mut self, path: Option<PathBuf>) -> Self {
        self.control_socket = Some(path);
        self
    }

    /// Takes this job, and no other that isn't named too. Default: any.
    pub fn job(mut self, id: u32) -> Self {
        self.jobs.insert(id);
        self
    }

    /// How many senders (address, job and run) may be there at once. When all places are taken, a
    /// sender whose job has ended makes room, or one that has been silent for some seconds, the one
    /// that has delivered least first; if there is none, the newcomer is told that there is no room.
    /// Default 256.
    pub fn sources_max(mut self, sources: usize) -> Self {
        self.sources_max = sources;
        self
    }

    /// The longest message that is taken. Default 64 MiB.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Bytes of messages that aren't whole yet, for each sender. Default 64 MiB.
    pub fn incomplete_bytes_max(mut self, bytes: u64) -> Self {
        self.incomplete_bytes_max = bytes;
        self
    }

    /// Bytes of whole messages that the application hasn't taken yet, beyond which nothing more is
    /// read. Default 64 MiB.
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Starts to receive at `local`; port 0 lets the kernel choose, `[::]` takes IPv4 too.
    ///
    /// # Errors
    /// If the address is taken or isn't this host's; no daemon at the socket that was named; the
    /// daemon's refusal.
    pub fn bind(self, local: SocketAddr) -> Result<Receiver, Error> {
        let failed = |source| Error::Socket { doing: "listening at", address: local, source };
        let socket = UdpSocket::bind(local).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let acknowledger = self.acknowledger(&socket)?;
        let datapath = match &acknowledger {
            Acknowledger::Kernel { .. } => "ebpf",
            Acknowledger::Userspace { .. } => "userspace",
        };
        let transport = ReceiverConfig {
            message_bytes_max: self.message_bytes_max,
            incomplete_bytes_max: self.incomplete_bytes_max,
            ..ReceiverConfig::default()
        };
        let admission = Admission { sources_max: self.sources_max, jobs: self.jobs, transport };
        let inbox = Arc::new(Inbox::new(self.buffer_bytes).map_err(Error::Thread)?);
        let worker = Worker {
            socket: Arc::new(socket),
            local,
            sources: Sources::new(admission),
            inbox: inbox.clone(),
            acknowledger,
            stats: Default::default(),
            buffers: Buffers::new(),
            housekeeping_due_ns: now_ns(),
            traffic: Default::default(),
        };
        let thread = thread::Builder::new().name("atp-receiver".into());
        let thread = Some(thread.spawn(|| worker.run()).map_err(Error::Thread)?);
        Ok(Receiver { local, datapath, inbox, ready: VecDeque::new(), thread })
    }

    fn acknowledger(&self, socket: &UdpSocket) -> Result<Acknowledger, Error> {
        let (path, required) = match &self.control_socket {
            Some(None) => return Ok(Acknowledger::Userspace { registrar: None }),
            Some(Some(path)) => (path.clone(), true),
            None => (default_socket(), false),
        };
        match register(&path, socket) {
            Ok(client) => Ok(Acknowledger::Kernel { client, path }),
            Err(error) if !required && error.leaves_userspace() => {
                tracing::info!(%error, "acknowledging in userspace");
                Ok(Acknowledger::Userspace { registrar: None })
            }
            Err(error) => Err(error.into()),
        }
    }
}
