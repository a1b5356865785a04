//! Chooses the datapath of a job, and opens the job's flow on it.

use crate::{
    control::{Client, GroupOpen, SenderGrant, default_socket},
    datapath::{Datapath, FlowProgress, JobProgress, Kernel, Userspace, UserspaceSettings},
    error::Error,
    udp::{UdpSocket, now_ns},
};
use atp_proto::GroupConfig;
use std::{
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
        userspace: &UserspaceSettings,
    ) -> Result<OpenedFlow, Error> {
        match self {
            Self::Userspace => Ok(open_userspace(request, socket, userspace)),
            Self::Daemon(path) => match request_flow(path, request, &mut socket) {
                Err(Error::Daemon(error)) if error.is_other_version() => {
                    error.report_other_version();
                    Ok(open_userspace(request, socket, userspace))
                }
                granted => open_kernel(granted?, request, socket, userspace),
            },
            Self::Auto => match request_flow(&default_socket(), request, &mut socket) {
                Err(Error::Daemon(error)) if error.allows_userspace() => {
                    error.report_other_version();
                    tracing::info!(
                        peer = %request.peer,
                        reason = %error,
                        "sending without a daemon: acknowledgments and pacing in userspace"
                    );
                    Ok(open_userspace(request, socket, userspace))
                }
                granted => open_kernel(granted?, request, socket, userspace),
            },
        }
    }
}

/// A flow that the daemon granted.
struct Granted {
    client: Client,
    grant: SenderGrant,
    fds: [OwnedFd; 3],
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
    request: &FlowRequest<'_>,
    socket: UdpSocket,
    settings: &UserspaceSettings,
) -> Result<OpenedFlow, Error> {
    let Granted { client, grant, fds } = granted;
    let kernel = {
        let bytes = [settings.packet_bytes(), settings.payload_bytes];
        Kernel::new(
            client,
            &grant,
            fds,
            request.groups,
            FlowProgress::new(request.job_progress),
            bytes,
        )
    };
    Ok(OpenedFlow {
        job: grant.job,
        cookie: grant.cookie,
        ack_ring_words: grant.ack_ring_words,
        datapath: Datapath::Kernel(kernel.map_err(Error::SharedMemory)?.into()),
        socket,
    })
}

fn open_userspace(
    request: &FlowRequest<'_>,
    socket: UdpSocket,
    settings: &UserspaceSettings,
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
        cookie: rand::random(),
        ack_ring_words: atp_common::maps::ACK_RING_WORDS,
        datapath: Datapath::Userspace(lanes.into()),
        socket,
    }
}
