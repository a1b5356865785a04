//! Chooses the datapath of a job, and opens the job's flow on it.

use crate::{
    control::{Client, ClientError, FlowOpen, GroupOpen, KnownPath, SenderGrant, default_socket},
    datapath::{Datapath, FlowProgress, JobProgress, Kernel, Userspace},
    error::Error,
    udp::{UdpSocket, now_ns},
};
use atp_proto::{GroupConfig, flow::LaneSettings};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most local ports that are tried while the daemon has them in use.
const PORTS_TRIED_MAX: u32 = 4;

/// Which datapath a job uses.
#[derive(Clone, Debug, Default)]
pub enum DatapathChoice {
    /// The daemon's if the daemon at the default socket takes the job, else this process.
    #[default]
    Auto,
    /// The daemon's, at this socket. If it speaks another version of the protocol, this process.
    Daemon(PathBuf),
    /// This process.
    Userspace,
}

/// A flow to open.
pub struct FlowRequest<'a> {
    pub id: Option<u32>,
    pub groups: &'a [GroupConfig],
    pub peer: SocketAddr,
    /// Whether the packets in flight are limited until the peer answers.
    pub first_window: bool,
    /// The sums over the job's flows, if it has several.
    pub job_progress: Option<&'a Arc<JobProgress>>,
}

/// An open flow.
pub struct OpenedFlow {
    pub job: u32,
    pub cookie: u32,
    pub ack_ring_words: u32,
    pub datapath: Datapath,
    pub socket: UdpSocket,
    /// The RTT of earlier flows and the line's rate, from the daemon; all zero without one.
    pub path: KnownPath,
    /// The daemon that serves the flow, or may serve it later.
    pub daemon: Option<PathBuf>,
}

/// A socket to `peer`, from a port that the kernel chooses.
pub fn socket(peer: SocketAddr) -> Result<UdpSocket, Error> {
    let failed = |source| Error::Socket { doing: "connecting to", address: peer, source };
    UdpSocket::connect(peer).map_err(failed)
}

impl DatapathChoice {
    /// Opens a flow from `socket`. If its port is in use at the daemon, a socket with another port
    /// takes its place.
    pub fn open(
        &self,
        request: &FlowRequest<'_>,
        mut socket: UdpSocket,
        userspace: &LaneSettings,
    ) -> Result<OpenedFlow, Error> {
        match self {
            Self::Userspace => Ok(open_userspace(request, socket, userspace, None)),
            Self::Daemon(path) => {
                open_at(path, true, request, &mut socket)?.open(path, request, socket, userspace)
            }
            Self::Auto => {
                let path = default_socket();
                open_at(&path, false, request, &mut socket)?.open(&path, request, socket, userspace)
            }
        }
    }
}

/// The daemon's answer to a new flow.
enum Answer {
    Granted(Granted),
    /// This process serves the flow. The daemon may do so later, if its programs see the packets.
    Userspace {
        later: bool,
    },
}

impl Answer {
    fn open(
        self,
        path: &Path,
        request: &FlowRequest<'_>,
        socket: UdpSocket,
        userspace: &LaneSettings,
    ) -> Result<OpenedFlow, Error> {
        match self {
            Self::Granted(granted) => open_kernel(granted, path, request, socket, userspace),
            Self::Userspace { later } => {
                let daemon = later.then(|| path.to_owned());
                Ok(open_userspace(request, socket, userspace, daemon))
            }
        }
    }
}

/// Asks the daemon at `path`. `required`: the application has named it.
fn open_at(
    path: &Path,
    required: bool,
    request: &FlowRequest<'_>,
    socket: &mut UdpSocket,
) -> Result<Answer, Error> {
    match request_flow(path, request, socket) {
        Ok(granted) => Ok(Answer::Granted(granted)),
        Err(Error::Daemon(error)) if error.is_not_covered() => {
            tracing::info!(
                peer = %request.peer,
                reason = %error,
                "sending without the daemon until its programs see this job's packets: \
                 acknowledgments and pacing in userspace"
            );
            Ok(Answer::Userspace { later: true })
        }
        Err(Error::Daemon(error)) if error.is_other_version() => {
            error.report_once();
            Ok(Answer::Userspace { later: false })
        }
        Err(Error::Daemon(error)) if !required && error.allows_userspace() => {
            error.report_once();
            tracing::info!(
                peer = %request.peer,
                reason = %error,
                "sending without a daemon: acknowledgments and pacing in userspace"
            );
            Ok(Answer::Userspace { later: false })
        }
        Err(error) => Err(error),
    }
}

/// A flow that the daemon granted.
#[derive(Debug)]
pub struct Granted {
    client: Client,
    grant: SenderGrant,
    fds: [OwnedFd; 3],
}

impl Granted {
    /// Asks the daemon to take over a flow that runs in userspace.
    pub fn request(
        client: Client,
        flow: FlowOpen,
        socket: &UdpSocket,
    ) -> Result<Self, ClientError> {
        let (grant, fds) = client.flow_open(flow, socket.as_fd())?;
        Ok(Self { client, grant, fds })
    }

    /// The job, the cookie and the size of the ring, which a flow that continues can't change.
    pub fn identity(&self) -> (u32, u32, u32) {
        (self.grant.job, self.grant.cookie, self.grant.ack_ring_words)
    }

    /// The datapath, in the memory that the daemon shares.
    pub fn into_kernel(
        self,
        groups: &[GroupConfig],
        settings: &LaneSettings,
        flow_progress: FlowProgress,
    ) -> io::Result<Kernel> {
        let Self { client, grant, fds } = self;
        let bytes = [settings.packet_bytes(), settings.payload_bytes];
        Kernel::new(client, &grant, fds, groups, flow_progress, bytes)
    }
}

/// Asks the daemon at `path` for a flow from `socket`.
///
/// The datapath identifies flows by their local port, and network namespaces that share a daemon
/// can choose the same one. Then `socket` is replaced by one with another port. Falling back to
/// userspace at once would be slower, and could fail: if the daemon knows the job, its programs may
/// drop packets of sockets that aren't registered for it.
fn request_flow(
    path: &Path,
    request: &FlowRequest<'_>,
    socket: &mut UdpSocket,
) -> Result<Granted, Error> {
    let client = Client::connect(path)?;
    let groups = request.groups.iter().map(|group| GroupOpen {
        group: group.group,
        msr_parts_per_billion: group.msr.parts_per_billion(),
        messages: group.total.unwrap_or(0),
        first_window: request.first_window,
        ..GroupOpen::default()
    });
    let groups: Vec<_> = groups.collect();
    let mut tried = 0;
    loop {
        match client.sender_open(request.id, &groups, socket.as_fd()) {
            Ok((grant, fds)) => return Ok(Granted { client, grant, fds }),
            Err(error) => {
                tried += 1;
                if !error.is_port_in_use() {
                    return Err(error.into());
                }
                // The old socket is still open here, so the new port differs.
                *socket = self::socket(request.peer)?;
                if tried == PORTS_TRIED_MAX {
                    return Err(error.into());
                }
                tracing::debug!(%error, "registering another local port");
            }
        }
    }
}

fn open_kernel(
    granted: Granted,
    path: &Path,
    request: &FlowRequest<'_>,
    socket: UdpSocket,
    settings: &LaneSettings,
) -> Result<OpenedFlow, Error> {
    let (job, cookie, ack_ring_words) = granted.identity();
    let known = granted.grant.path;
    let progress = FlowProgress::new(request.job_progress);
    let kernel = granted.into_kernel(request.groups, settings, progress);
    Ok(OpenedFlow {
        job,
        cookie,
        ack_ring_words,
        datapath: Datapath::Kernel(kernel.map_err(Error::SharedMemory)?.into()),
        socket,
        path: known,
        daemon: Some(path.to_owned()),
    })
}

fn open_userspace(
    request: &FlowRequest<'_>,
    socket: UdpSocket,
    settings: &LaneSettings,
    daemon: Option<PathBuf>,
) -> OpenedFlow {
    let lanes = Userspace::new(
        *settings,
        request.groups,
        FlowProgress::new(request.job_progress),
        None,
        now_ns(),
    );
    OpenedFlow {
        job: request.id.unwrap_or_else(rand::random),
        // The daemon takes no cookie of zero, which a forger would guess first.
        cookie: rand::random_range(1..=u32::MAX),
        ack_ring_words: atp_common::maps::ACK_RING_WORDS,
        datapath: Datapath::Userspace(lanes.into()),
        socket,
        path: KnownPath::default(),
        daemon,
    }
}
