//! A client of the daemon's control socket. One request at a time, each answered or timed out.

use super::protocol::{
    GroupOpen, HostStats, JobInfo, LaneStats, PACKET_BYTES_MAX, PROTOCOL, Refusal, RefusalKind,
    Reply, Request, SENDER_FDS, SenderGrant,
};
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
        connect, recvmsg, sendmsg, setsockopt, socket, sockopt,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    time::Duration,
};

/// How long the daemon may take to answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The most descriptors that one packet can bring (the kernel's SCM_MAX_FD): room for all of them,
/// so that a surplus can be closed. What is cut off can't.
const FDS_MAX: usize = 253;

/// Why the daemon could not be asked, or would not.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no ATP daemon answers at {} ({source}): start it with `atp-user run`, or name its socket", path.display())]
    NoDaemon {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The daemon refused, in its own words.
    #[error("the ATP daemon refused: {}", .0.message)]
    Refused(Refusal),
    /// The daemon did not answer in time.
    #[error("the ATP daemon did not answer within {} s", REPLY_TIMEOUT.as_secs())]
    TimedOut,
    /// The daemon hung up.
    #[error("the ATP daemon closed the connection")]
    Closed,
    /// What came back is not a reply to what was asked.
    #[error("the ATP daemon's answer makes no sense ({0}): use programs of one version")]
    Nonsense(String),
    /// The socket failed.
    #[error("talking to the ATP daemon failed: {0}")]
    Io(#[from] io::Error),
}

impl ClientError {
    /// Whether one who didn't ask for the daemon goes on without it. Not after a refusal of what was
    /// asked for, which is the caller's to know; but if the daemon can't be reached, or can't serve
    /// this socket for want of room, for its port or its place, or for a reason unknown here.
    pub(crate) fn leaves_userspace(&self) -> bool {
        use RefusalKind::{BadRequest, NotYours, UnknownJob};
        match self {
            Self::Refused(refusal) => !matches!(refusal.kind, BadRequest | UnknownJob | NotYours),
            _ => true,
        }
    }

    /// Whether a socket could not be registered because of its port. Of what opening a flow asks
    /// for, nothing else can be in use: a job that exists is joined, or is somebody else's.
    pub(crate) fn is_port_in_use(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::InUse)
    }
}

/// A connection to the daemon, past its hello. What was opened through it ends with it.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    version: String,
    pacing: String,
}

impl Client {
    /// Connects to the daemon at `path` and agrees on the protocol.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
            .map_err(io::Error::from)?;
        let timeout = nix::sys::time::TimeVal::new(REPLY_TIMEOUT.as_secs() as i64, 0);
        setsockopt(&socket, sockopt::ReceiveTimeout, &timeout).map_err(io::Error::from)?;
        setsockopt(&socket, sockopt::SendTimeout, &timeout).map_err(io::Error::from)?;
        let no_daemon =
            |error: Errno| ClientError::NoDaemon { path: path.into(), source: error.into() };
        let address = UnixAddr::new(path).map_err(no_daemon)?;
        connect(socket.as_raw_fd(), &address).map_err(no_daemon)?;
        let mut client = Self { socket, version: String::new(), pacing: String::new() };
        match client.request(&Request::Hello { protocol: PROTOCOL }, &[])?.0 {
            Reply::Welcome { version, pacing } => {
                (client.version, client.pacing) = (version, pacing);
                Ok(client)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The daemon's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// How the daemon paces: `fq` or `htb`.
    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    /// Makes a job that outlives this connection.
    pub fn job_create(
        &self,
        id: Option<u32>,
        name: Option<String>,
        cgroup: Option<PathBuf>,
    ) -> Result<JobInfo, ClientError> {
        match self.request(&Request::JobCreate { id, name, cgroup }, &[])?.0 {
            Reply::Job(job) => Ok(job),
            other => Err(unexpected(&other)),
        }
    }

    /// All jobs of this host. One that comes or goes meanwhile may be missed.
    pub fn job_list(&self) -> Result<Vec<JobInfo>, ClientError> {
        collect(|from| match self.request(&Request::JobList { from }, &[])?.0 {
            Reply::Jobs { jobs, next } => Ok((jobs, next)),
            other => Err(unexpected(&other)),
        })
    }

    /// Ends a job.
    pub fn job_end(&self, id: u32) -> Result<(), ClientError> {
        self.done(&Request::JobEnd { id }, &[])
    }

    /// Registers a bound and connected UDP socket for sending: the grant, and the descriptors of
    /// the ACK ring, the progress map and the status page.
    pub fn sender_open(
        &self,
        id: Option<u32>,
        groups: &[GroupOpen],
        udp: BorrowedFd<'_>,
    ) -> Result<(SenderGrant, [OwnedFd; SENDER_FDS]), ClientError> {
        let request = Request::SenderOpen { id, groups: groups.to_vec() };
        let (reply, fds) = self.request(&request, &[udp])?;
        let Reply::Sender(grant) = reply else { return Err(unexpected(&reply)) };
        let fds = fds.try_into().map_err(|fds: Vec<_>| {
            ClientError::Nonsense(format!("{} descriptors instead of {SENDER_FDS}", fds.len()))
        })?;
        Ok((grant, fds))
    }

    /// Registers a bound UDP socket for receiving: from now on the datapath acknowledges what
    /// arrives for it.
    pub fn receiver_open(&self, udp: BorrowedFd<'_>) -> Result<(), ClientError> {
        self.done(&Request::ReceiverOpen {}, &[udp])
    }

    /// The state of the host, its jobs and lanes. A job or lane that comes or goes meanwhile may be
    /// missed.
    pub fn stats(&self) -> Result<HostStats, ClientError> {
        match self.request(&Request::Stats {}, &[])?.0 {
            Reply::Stats(stats) => {
                Ok(HostStats { jobs: self.job_list()?, lanes: self.lane_list()?, ..stats })
            }
            other => Err(unexpected(&other)),
        }
    }

    fn lane_list(&self) -> Result<Vec<LaneStats>, ClientError> {
        collect(|from| match self.request(&Request::LaneList { from }, &[])?.0 {
            Reply::Lanes { lanes, next } => Ok((lanes, next)),
            other => Err(unexpected(&other)),
        })
    }

    /// Asks the daemon to detach and exit.
    pub fn stop(&self) -> Result<(), ClientError> {
        self.done(&Request::Stop {}, &[])
    }

    /// Sends any request, with descriptors, and waits for its reply and the descriptors in it.
    /// A refusal is an error.
    pub fn request(
        &self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>), ClientError> {
        let text = serde_json::to_vec(request).map_err(io::Error::from)?;
        self.send(&text, fds)?;
        let (reply, fds) = self.receive()?;
        match reply {
            Reply::Refused(refusal) => Err(ClientError::Refused(refusal)),
            reply => Ok((reply, fds)),
        }
    }

    fn done(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        match self.request(request, fds)?.0 {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn send(&self, text: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        let (text, flags) = ([IoSlice::new(text)], MsgFlags::MSG_NOSIGNAL);
        retry(|| sendmsg::<()>(self.socket.as_raw_fd(), &text, rights, flags, None))?;
        Ok(())
    }

    fn receive(&self) -> Result<(Reply, Vec<OwnedFd>), ClientError> {
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        let mut space = nix::cmsg_space!([RawFd; FDS_MAX]);
        let (len, truncated, fds) = retry(|| {
            let mut text = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let message =
                recvmsg::<()>(self.socket.as_raw_fd(), &mut text, Some(&mut space), flags)?;
            let lost = MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC;
            Ok((message.bytes, message.flags.intersects(lost), adopt(message.cmsgs()?)))
        })?;
        if len == 0 {
            return Err(ClientError::Closed);
        }
        if truncated {
            return Err(ClientError::Nonsense("it is too long".into()));
        }
        let reply = serde_json::from_slice(&buffer[..len])
            .map_err(|error| ClientError::Nonsense(error.to_string()))?;
        Ok((reply, fds))
    }
}

/// To see by `poll` when the daemon goes away.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Takes every descriptor that came along, so that none leaks whatever the reply turns out to be.
fn adopt(messages: impl Iterator<Item = ControlMessageOwned>) -> Vec<OwnedFd> {
    let rights = messages.filter_map(|message| match message {
        ControlMessageOwned::ScmRights(fds) => Some(fds),
        _ => None,
    });
    // SAFETY: the kernel made these descriptors for this process in the recvmsg just done; nobody
    // else knows of them.
    rights.flatten().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect()
}

fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> Result<T, ClientError> {
    loop {
        match call() {
            Ok(value) => return Ok(value),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Err(ClientError::TimedOut),
            Err(Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN) => {
                return Err(ClientError::Closed);
            }
            Err(error) => return Err(ClientError::Io(error.into())),
        }
    }
}

/// Asks page by page, until there is no next one.
fn collect<T, From: Copy + Default + PartialOrd>(
    ask: impl Fn(From) -> Result<(Vec<T>, Option<From>), ClientError>,
) -> Result<Vec<T>, ClientError> {
    let (mut all, mut from) = (Vec::new(), From::default());
    loop {
        let (page, next) = ask(from)?;
        all.extend(page);
        match next {
            None => return Ok(all),
            Some(next) if next > from => from = next,
            Some(_) => return Err(ClientError::Nonsense("a list without end".into())),
        }
    }
}

fn unexpected(reply: &Reply) -> ClientError {
    let name = match reply {
        Reply::Welcome { .. } => "welcome",
        Reply::Job(_) => "job",
        Reply::Jobs { .. } => "jobs",
        Reply::Sender(_) => "sender",
        Reply::Done => "done",
        Reply::Stats(_) => "stats",
        Reply::Lanes { .. } => "lanes",
        Reply::Refused(_) => "refused",
    };
    ClientError::Nonsense(format!("`{name}` does not answer the request"))
}
