//! What can go wrong, in one sentence each.

use crate::{control::ClientError, report::Report, udp::Trouble};
use atp_common::wire::ResetReason;
use atp_proto::{ConfigError, MsrError, SendError};
use std::{fmt, io, net::SocketAddr};

/// Why a job or a receiver could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sampling rate that isn't one.
    #[error("the minimal sampling rate must lie between 0 and 1, not {0}")]
    Msr(f64),
    /// A job of no messages.
    #[error("a job needs at least one message")]
    NoMessages,
    /// A message that no packet count can hold, or that the job doesn't allow.
    #[error("a message of {bytes} bytes is too long: at most {bytes_max} are allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A job to nobody.
    #[error("a job needs at least one receiver")]
    NoPeers,
    /// A group that the job wasn't opened with.
    #[error("the job has no group {0}: name it when the job is opened")]
    NoGroup(u8),
    /// A sampling rate that can't be changed.
    #[error(transparent)]
    MsrRefused(#[from] MsrError),
    /// More messages than were announced.
    #[error("the job was announced with {messages} messages: no more can be sent")]
    TooMany {
        /// N.
        messages: u32,
    },
    /// Options that contradict each other.
    #[error("the job's options make no sense: {0}")]
    Options(#[from] ConfigError),
    /// Nobody can be there.
    #[error("{0} is no receiver's address: it needs a port, and one host's address")]
    Peer(SocketAddr),
    /// A rate at which no packet would leave in a second.
    #[error("a highest rate of {0} bytes/s is too low: 1000 is the least")]
    RateMax(u64),
    /// No packet of ours fits the path.
    #[error("the path to {peer} takes packets of {mtu_bytes} bytes at most, too few for ATP")]
    PathTooNarrow {
        /// The other side.
        peer: SocketAddr,
        /// Its path's MTU.
        mtu_bytes: usize,
    },
    /// A UDP socket could not be opened, or failed.
    #[error("{doing} {address} failed: {source}")]
    Socket {
        /// "sending to", "listening at", ..
        doing: &'static str,
        /// Which address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// What the daemon gave could not be used.
    #[error("the memory shared with the ATP daemon can't be mapped: {0}")]
    SharedMemory(io::Error),
    /// A background thread could not be started, or died.
    #[error("the library's background thread failed: {0}")]
    Thread(io::Error),
    /// The job ended below its minimal sampling rate.
    #[error(transparent)]
    Short(Box<Shortfall>),
}

/// A job that ended without what it needs: which groups, by how much, why, and what was delivered.
#[derive(Clone, Debug)]
pub struct Shortfall {
    /// The receiver.
    pub peer: SocketAddr,
    /// Why.
    pub cause: ShortCause,
    /// The groups that are short; empty if all was delivered and only the confirmation is missing.
    pub groups: Vec<ShortGroup>,
    /// What was done and delivered so far.
    pub report: Report,
}

/// A group that is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortGroup {
    /// The group's id.
    pub group: u8,
    /// Messages known to be delivered.
    pub delivered: u32,
    /// `ceil(MSR * N)`.
    pub needed: u32,
}

/// Why a job ended short.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ShortCause {
    /// Nothing came from the peer.
    PeerSilent {
        /// For how long, seconds.
        silence_s: f64,
        /// What routers and hosts said about it.
        nobody_listens: bool,
        /// The same.
        unreachable: bool,
    },
    /// The peer's host acknowledges, but the application takes nothing.
    NotReading {
        /// For how long, seconds.
        silence_s: f64,
    },
    /// The receiver refused; the reason, if it is known here.
    Refused(Option<ResetReason>),
    /// The receiver has less than it gave receipts for: it was started anew.
    ReceiverLostState,
    /// The path takes no packets as long as these any more.
    PathNarrowed {
        /// What it takes now, bytes with IP header.
        mtu_bytes: u32,
    },
    /// This host itself lets no packet out; the kernel's error number.
    CannotSend {
        /// An errno.
        code: i32,
    },
    /// The job was dropped before its end.
    Abandoned,
}

impl Shortfall {
    pub(crate) fn new(
        peer: SocketAddr,
        error: &SendError,
        trouble: Trouble,
        report: Report,
    ) -> Self {
        let seconds = |ns: &u64| *ns as f64 / 1e9;
        let (cause, short) = match error {
            SendError::PeerSilent { silence_ns, short } => {
                let Trouble { refused: nobody_listens, unreachable, .. } = trouble;
                let silence_s = seconds(silence_ns);
                (ShortCause::PeerSilent { silence_s, nobody_listens, unreachable }, short)
            }
            SendError::NotReading { silence_ns, short } => {
                (ShortCause::NotReading { silence_s: seconds(silence_ns) }, short)
            }
            SendError::Reset { reason, short } => (ShortCause::Refused(*reason), short),
            SendError::ReceiverLostState { short } => (ShortCause::ReceiverLostState, short),
        };
        let groups = short.iter().map(|s| ShortGroup {
            group: s.group,
            delivered: s.delivered,
            needed: s.needed,
        });
        Self { peer, cause, groups: groups.collect(), report }
    }

    /// A job that this side ended.
    pub(crate) fn own(peer: SocketAddr, cause: ShortCause, report: Report) -> Self {
        let short = report.groups.iter().filter(|g| g.delivered < g.needed);
        let groups =
            short.map(|g| ShortGroup { group: g.group, delivered: g.delivered, needed: g.needed });
        Self { peer, cause, groups: groups.collect(), report }
    }
}

impl std::error::Error for Shortfall {}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer;
        match self.cause {
            ShortCause::PeerSilent { silence_s, nobody_listens, unreachable } => {
                write!(f, "the peer {peer} did not answer for {silence_s:.1} s")?;
                if nobody_listens {
                    f.write_str(" (its host says that nothing listens there)")?;
                } else if unreachable {
                    f.write_str(" (a router says that its host can't be reached)")?;
                }
            }
            ShortCause::NotReading { silence_s } => write!(
                f,
                "the host of {peer} acknowledges packets, but its application took nothing for {silence_s:.1} s"
            )?,
            ShortCause::Refused(reason) => {
                let why = reason.map_or("for a reason unknown here", ResetReason::explain);
                write!(f, "the peer {peer} refused: {why}")?;
            }
            ShortCause::ReceiverLostState => {
                write!(f, "the receiver at {peer} was started anew and lost what it had")?;
            }
            ShortCause::PathNarrowed { mtu_bytes } => write!(
                f,
                "the path to {peer} now takes packets of {mtu_bytes} bytes at most: choose a smaller payload"
            )?,
            ShortCause::CannotSend { code: libc::ENOBUFS } => write!(
                f,
                "this host drops every packet to {peer}: look at its queues, and whether the job belongs to another cgroup"
            )?,
            ShortCause::CannotSend { code } => {
                let error = std::io::Error::from_raw_os_error(code);
                write!(f, "this host lets no packet out to {peer}: {error}")?;
            }
            ShortCause::Abandoned => write!(f, "the job to {peer} was dropped before its end")?,
        }
        self.write_groups(f)
    }
}

impl Shortfall {
    fn write_groups(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.groups.is_empty() {
            return f
                .write_str("; all that is needed was delivered, but the end was not confirmed");
        }
        for ShortGroup { group, delivered, needed } in &self.groups {
            write!(f, "; {delivered} of {needed} needed messages delivered")?;
            if self.report.groups.len() > 1 {
                write!(f, " in group {group}")?;
            }
        }
        Ok(())
    }
}
