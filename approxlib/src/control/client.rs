//! The client of the daemon's control socket. It sends one request at a time, and waits for the
//! reply or a timeout.

use super::{
    JobUser,
    protocol::{
        GroupOpen, JobInfo, PACKET_BYTES_MAX, PROTOCOL, PROTOCOL_MIN, Refusal, RefusalKind, Reply,
        Request, SENDER_FDS, SenderGrant,
    },
    snapshot::Snapshot,
    stats::HostStats,
};
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType,
        UnixAddr, connect, recvmsg, sendmsg, setsockopt, shutdown, socket, sockopt,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    sync::Once,
    time::Duration,
};

/// The timeout of a reply. On a busy machine the daemon may take seconds for the kernel's changes
/// of a new flow.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The most descriptors of one packet (the kernel's SCM_MAX_FD). With less room, `cmsgs` would fail
/// for a packet of too many descriptors, and those that fit would leak.
const FDS_MAX: usize = 253;

/// The error of a request to the daemon.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens at the socket.
    #[error(
        "no ATP daemon answers at {} ({source}): start it with `atp-user run`, or name its socket",
        path.display()
    )]
    NoDaemon {
        /// The path of the socket.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The daemon refused the request.
    #[error("the ATP daemon refused: {}", .0.message)]
    Refused(Refusal),
    /// The daemon did not answer in time.
    #[error(
        "the ATP daemon did not answer within {} s: check its log, or restart it",
        REPLY_TIMEOUT.as_secs()
    )]
    TimedOut,
    /// The daemon speaks another version of the protocol.
    #[error(
        "the ATP daemon at {} speaks another version of the control protocol ({reason}): restart \
         this program with the daemon's ATP version",
        path.display()
    )]
    OtherVersion {
        /// The path of the socket.
        path: PathBuf,
        /// The daemon's words, or what it answered.
        reason: String,
    },
    /// The daemon closed the connection.
    #[error("the ATP daemon closed the connection: check whether it still runs")]
    Closed,
    /// The reply is malformed, or doesn't answer the request.
    #[error(
        "the ATP daemon sent an invalid reply ({0}): use a client and a daemon of the same ATP \
         version"
    )]
    InvalidReply(String),
    /// The socket failed.
    #[error("the connection to the ATP daemon failed: {0}")]
    Io(#[from] io::Error),
}

impl ClientError {
    /// Whether a job or receiver that chooses its datapath automatically continues in userspace.
    ///
    /// It continues if the daemon can't be reached, or can't serve this socket: for lack of room,
    /// because of its port, namespace or user, or for a reason unknown to this version. It fails if
    /// the request itself was refused, because that is an error of the caller, and if the policy of
    /// the operator forbids it.
    pub(crate) fn allows_userspace(&self) -> bool {
        use RefusalKind::{BadRequest, UnknownJob};
        match self {
            Self::Refused(refusal) => !matches!(refusal.kind, BadRequest | UnknownJob),
            _ => true,
        }
    }

    /// Whether the socket's packets don't pass the daemon's programs. A route is no mistake of the
    /// caller: the job continues in userspace, even if the application named the daemon's socket.
    pub(crate) fn is_not_covered(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::NotCovered)
    }

    /// Whether the same request may succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        use RefusalKind::OtherNamespace;
        let namespace = matches!(self, Self::Refused(refusal) if refusal.kind == OtherNamespace);
        self.allows_userspace() && !self.is_other_version() && !namespace
    }

    /// Whether library and daemon share no version of the protocol. Such a daemon serves a job or
    /// receiver as little as none does, even if the application named its socket.
    pub(crate) fn is_other_version(&self) -> bool {
        matches!(self, Self::OtherVersion { .. })
    }

    /// Whether the daemon keeps the job's id for another user, as daemons did whose users shared
    /// all ids.
    fn is_id_of_another_user(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::NotYours)
    }

    /// Reports a daemon of another version, or one that shares ids between users, once per process:
    /// an application may open thousands of jobs, and continues in userspace.
    pub(crate) fn report_once(&self) {
        static REPORTED: Once = Once::new();
        if self.is_other_version() || self.is_id_of_another_user() {
            REPORTED.call_once(|| tracing::warn!("continuing in userspace: {self}"));
        }
    }

    /// Whether a socket could not be registered because its port is in use. Nothing else of a flow
    /// can be in use: an existing job of the user is joined.
    pub(crate) fn is_port_in_use(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::InUse)
    }
}

/// A flow to register.
#[derive(Clone, Debug)]
pub(crate) struct FlowOpen {
    pub(crate) id: Option<u32>,
    /// The cookie of a flow that continues.
    pub(crate) cookie: Option<u32>,
    pub(crate) groups: Vec<GroupOpen>,
}

/// A connection to the daemon. Senders and receivers that were registered on it end with it. It
/// ends when the process that made it drops it, for children that this process forked too.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    /// The process that made the connection. A child that it forked may not end it.
    process: u32,
    version: String,
    pacing: String,
    protocol: u32,
}

impl Drop for Client {
    /// Ends the connection at once. Closing is not enough: a child that another thread starts holds
    /// the descriptor until it runs its program, and a forked one for its life.
    fn drop(&mut self) {
        if std::process::id() == self.process {
            // Fails if the daemon has ended it.
            shutdown(self.socket.as_raw_fd(), Shutdown::Both).ok();
        }
    }
}

impl Client {
    /// Connects to the daemon at `path` and checks the protocol version.
    ///
    /// # Errors
    /// [`ClientError::NoDaemon`] if no daemon listens there; the others as for any request.
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
        let (version, pacing) = (String::new(), String::new());
        let process = std::process::id();
        let mut client = Self { socket, process, version, pacing, protocol: 0 };
        let other_version = |reason| ClientError::OtherVersion { path: path.into(), reason };
        let hello = Request::Hello { protocol: PROTOCOL, protocol_min: Some(PROTOCOL_MIN) };
        match client.request(&hello, &[]) {
            Ok((Reply::Welcome { version, pacing, protocol }, _))
                if (PROTOCOL_MIN..=PROTOCOL).contains(&protocol) =>
            {
                (client.version, client.pacing) = (version, pacing);
                client.protocol = protocol;
                Ok(client)
            }
            Ok((Reply::Welcome { version, protocol, .. }, _)) => {
                Err(other_version(format!("version {protocol}, of ATP {version}")))
            }
            Ok((other, _)) => Err(unexpected(&other)),
            Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Version => {
                Err(other_version(refusal.message))
            }
            // A daemon of an early version answers in other words.
            Err(ClientError::InvalidReply(reason)) => Err(other_version(reason)),
            Err(error) => Err(error),
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

    /// Creates a job that outlives this connection: see [`Request::JobCreate`].
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the id is in use, or the cgroup doesn't exist.
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

    /// Lists all jobs of this host. The list may miss a job that is created or ended meanwhile.
    ///
    /// # Errors
    /// If the daemon doesn't answer.
    pub fn job_list(&self) -> Result<Vec<JobInfo>, ClientError> {
        collect(|(from, from_uid, from_container)| {
            let request = Request::JobList { from, from_uid, from_container };
            match self.request(&request, &[])?.0 {
                Reply::Jobs { jobs, next, next_uid, next_container } => {
                    Ok((jobs, next.map(|next| (next, next_uid, next_container))))
                }
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Ends a job: see [`Request::JobEnd`].
    ///
    /// # Errors
    /// [`ClientError::Refused`] if there is no such job, it belongs to another user, or root names
    /// no user and several users have such a job.
    pub fn job_end(&self, id: u32, user: Option<JobUser>) -> Result<(), ClientError> {
        let (uid, container) = (user.map(|user| user.uid), user.and_then(|user| user.container));
        self.done(&Request::JobEnd { id, uid, container }, &[])
    }

    /// Binds a job to a cgroup: see [`Request::JobAttach`].
    ///
    /// # Errors
    /// As for [`Client::job_end`]; also if the caller isn't root, or the cgroup doesn't exist or
    /// has a job.
    pub fn job_attach(
        &self,
        id: u32,
        user: Option<JobUser>,
        cgroup: PathBuf,
    ) -> Result<JobInfo, ClientError> {
        let (uid, container) = (user.map(|user| user.uid), user.and_then(|user| user.container));
        match self.request(&Request::JobAttach { id, uid, container, cgroup }, &[])?.0 {
            Reply::Job(job) => Ok(job),
            other => Err(unexpected(&other)),
        }
    }

    /// Registers a bound and connected UDP socket for sending: see [`Request::SenderOpen`]. Returns
    /// the grant, and the descriptors of the ACK ring, the progress map and the status page.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the reason.
    pub fn sender_open(
        &self,
        id: Option<u32>,
        groups: &[GroupOpen],
        udp: BorrowedFd<'_>,
    ) -> Result<(SenderGrant, [OwnedFd; SENDER_FDS]), ClientError> {
        self.flow_open(FlowOpen { id, cookie: None, groups: groups.to_vec() }, udp)
    }

    /// As [`Client::sender_open`], also for a flow that continues.
    pub(crate) fn flow_open(
        &self,
        FlowOpen { id, cookie, groups }: FlowOpen,
        udp: BorrowedFd<'_>,
    ) -> Result<(SenderGrant, [OwnedFd; SENDER_FDS]), ClientError> {
        let request = Request::SenderOpen { id, cookie, groups };
        let (reply, fds) = self.request(&request, &[udp])?;
        let Reply::Sender(grant) = reply else { return Err(unexpected(&reply)) };
        let fds = fds.try_into().map_err(|fds: Vec<_>| {
            let found = format!("{} descriptors instead of {SENDER_FDS}", fds.len());
            ClientError::InvalidReply(found)
        })?;
        Ok((grant, fds))
    }

    /// Tells the daemon why this connection ends: see [`Request::NotCovered`]. Doesn't block: if
    /// the daemon reads nothing, it doesn't learn the reason.
    pub(crate) fn leave_uncovered(self, packets: u64, after_us: u64) {
        let request = Request::NotCovered { packets, after_us };
        let Ok(text) = serde_json::to_vec(&request) else { return };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        if let Err(error) =
            sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(&text)], &[], flags, None)
        {
            tracing::debug!(%error, "the daemon didn't learn that its programs see no packets");
        }
    }

    /// Registers a bound UDP socket for receiving: see [`Request::ReceiverOpen`]. Returns the page
    /// of covered interfaces. If the daemon gives advice, the map of arriving lanes and the eventfd
    /// come with it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the reason.
    pub fn receiver_open(
        &self,
        udp: BorrowedFd<'_>,
    ) -> Result<(OwnedFd, Option<[OwnedFd; 2]>), ClientError> {
        let (reply, fds) = self.request(&Request::ReceiverOpen {}, &[udp])?;
        let Reply::Receiver = reply else { return Err(unexpected(&reply)) };
        let mut fds = fds.into_iter();
        match [fds.next(), fds.next(), fds.next(), fds.next()] {
            [Some(page), None, ..] => Ok((page, None)),
            [Some(page), Some(lanes), Some(wake), None] => Ok((page, Some([lanes, wake]))),
            _ => Err(ClientError::InvalidReply("neither 1 nor 3 descriptors".into())),
        }
    }

    /// Asks for the snapshot pages. Their reader sends the daemon no further request.
    ///
    /// # Errors
    /// As for any request.
    pub fn snapshot(&self) -> Result<Snapshot, ClientError> {
        let (reply, fds) = self.request(&Request::Snapshot {}, &[])?;
        let Reply::Snapshot = reply else { return Err(unexpected(&reply)) };
        Snapshot::map(&fds)
            .map_err(|error| ClientError::InvalidReply(format!("its snapshot page: {error}")))
    }

    /// Reads the state of the host once. To read it again, keep a [`Client::snapshot`].
    ///
    /// # Errors
    /// As for [`Client::snapshot`].
    pub fn stats(&self) -> Result<HostStats, ClientError> {
        Ok(self.snapshot()?.read())
    }

    /// Asks the daemon to detach from all interfaces and exit.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the caller may not stop it.
    pub fn stop(&self) -> Result<(), ClientError> {
        self.done(&Request::Stop {}, &[])
    }

    /// Sends any request with descriptors, and returns its reply with the descriptors that came.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the daemon refused; the others if the connection failed.
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
            return Err(ClientError::InvalidReply("it is too long".into()));
        }
        let reply = serde_json::from_slice(&buffer[..len])
            .map_err(|error| ClientError::InvalidReply(error.to_string()))?;
        Ok((reply, fds))
    }
}

/// For `poll`, which reports when the daemon closes the connection.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Takes ownership of every descriptor that came with a reply, so that none leaks if the reply is
/// invalid.
fn adopt(messages: impl Iterator<Item = ControlMessageOwned>) -> Vec<OwnedFd> {
    let rights = messages.filter_map(|message| match message {
        ControlMessageOwned::ScmRights(fds) => Some(fds),
        _ => None,
    });
    // SAFETY: the kernel created these descriptors for this process in the recvmsg just done, and
    // no other value owns them.
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

/// Requests all pages of a list.
fn collect<T, From: Copy + Default + PartialOrd>(
    request: impl Fn(From) -> Result<(Vec<T>, Option<From>), ClientError>,
) -> Result<Vec<T>, ClientError> {
    let (mut all, mut from) = (Vec::new(), From::default());
    loop {
        let (page, next) = request(from)?;
        all.extend(page);
        match next {
            None => return Ok(all),
            Some(next) if next > from => from = next,
            Some(_) => return Err(ClientError::InvalidReply("a list without end".into())),
        }
    }
}

fn unexpected(reply: &Reply) -> ClientError {
    let name = match reply {
        Reply::Welcome { .. } => "welcome",
        Reply::Job(_) => "job",
        Reply::Jobs { .. } => "jobs",
        Reply::Sender(_) => "sender",
        Reply::Receiver => "receiver",
        Reply::Done => "done",
        Reply::Snapshot => "snapshot",
        Reply::Refused(_) => "refused",
    };
    ClientError::InvalidReply(format!("`{name}` does not answer the request"))
}
