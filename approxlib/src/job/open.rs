//! Choosing a datapath, and opening a job's flow on it.

use crate::{
    control::{Client, GroupOpen, SenderGrant, default_socket},
    datapath::{Datapath, Kernel, Member, Together, Userspace, UserspaceSettings},
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

/// How many local ports are tried until one is free at the daemon.
const PORTS_TRIED_MAX: u32 = 4;

/// Where the datapath is.
#[derive(Clone, Debug, Default)]
pub enum Choice {
    /// The daemon's if one at the default socket takes the job, else this process.
    #[default]
    Auto,
    /// The daemon's, at this socket.
    Daemon(PathBuf),
    /// This process.
    Userspace,
}

/// What is to be opened.
pub struct Request<'a> {
    pub id: Option<u32>,
    pub groups: &'a [GroupConfig],
    pub peer: SocketAddr,
    /// What the job's flows do together, if it has several.
    pub together: Option<&'a Arc<Together>>,
}

/// What came of it.
pub struct Opened {
    pub job: u32,
    pub cookie: u32,
    pub ack_ring_words: u32,
    pub datapath: Datapath,
    pub socket: UdpSocket,
}

/// A socket to `peer`, from a port that the kernel draws.
pub fn socket(peer: SocketAddr) -> Result<UdpSocket, Error> {
    let failed = |source| Error::Socket { doing: "connecting to", address: peer, source };
    UdpSocket::connect(peer).map_err(failed)
}

impl Choice {
    /// Opens the flow of `socket`, or of another one like it if the daemon has no use for its port.
    pub fn open(
        &self,
        request: &Request<'_>,
        mut socket: UdpSocket,
        userspace: &UserspaceSettings,
    ) -> Result<Opened, Error> {
        match self {
            Self::Userspace => Ok(open_userspace(request, socket, userspace)),
            Self::Daemon(path) => {
                let granted = ask(path, request, &mut socket)?;
                open_kernel(granted, request, socket, userspace)
            }
            Self::Auto => match ask(&default_socket(), request, &mut socket) {
                Err(Error::Daemon(error)) if error.leaves_userspace() => {
                    tracing::info!(%error, "sending with acknowledgements and pacing in userspace");
                    Ok(open_userspace(request, socket, userspace))
                }
                granted => open_kernel(granted?, request, socket, userspace),
            },
        }
    }
}

/// A daemon's consent.
struct Granted {
    client: Client,
    grant: SenderGrant,
    fds: [OwnedFd; 3],
}

/// Asks the daemon at `path` for a flow of `socket`. The datapath tells flows by their local port,
/// and network namespaces that share a daemon can draw the same one: then `socket` becomes one with
/// another port. Going on in userspace at once would be slower, and if the daemon knows the job, the
/// datapath may drop what a socket sends for it that isn't registered.
fn ask(path: &Path, request: &Request<'_>, socket: &mut UdpSocket) -> Result<Granted, Error> {
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
                // The one in use is only let go once the other is there, so they differ.
                *socket = self::socket(request.peer)?;
                if tried == PORTS_TRIED_MAX {
                    return Err(error.into());
                }
                tracing::debug!(%error, "trying another port");
            }
        }
    }
}

fn open_kernel(
    granted: Granted,
    request: &Request<'_>,
    socket: UdpSocket,
    settings: &UserspaceSettings,
) -> Result<Opened, Error> {
    let Granted { client, grant, fds } = granted;
    let kernel = {
        let bytes = [settings.packet_bytes(), settings.payload_bytes];
        Kernel::new(client, &grant, fds, request.groups, Member::of(request.together), bytes)
    };
    Ok(Opened {
        job: grant.job,
        cookie: grant.cookie,
        ack_ring_words: grant.ack_ring_words,
        datapath: Datapath::Kernel(kernel.map_err(Error::SharedMemory)?.into()),
        socket,
    })
}

fn open_userspace(
    request: &Request<'_>,
    socket: UdpSocket,
    settings: &UserspaceSettings,
) -> Opened {
    let lanes =
        Userspace::new(*settings, request.groups, Member::of(request.together), None, now_ns());
    Opened {
        job: request.id.unwrap_or_else(rand::random),
        cookie: rand::random(),
        ack_ring_words: atp_common::maps::ACK_RING_WORDS,
        datapath: Datapath::Userspace(lanes.into()),
        socket,
    }
}
