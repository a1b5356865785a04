//! The errors of jobs and receivers. Each message names what failed, on what, and what to do.

use crate::{
    address::{AddressError, complete},
    control::ClientError,
    report::Report,
    udp::SocketErrors,
};
use atp_common::wire::ResetReason;
use atp_proto::{ConfigError, MsrError, SendError};
use std::{fmt, io, net::SocketAddr};

/// The error of a job or a receiver.
///
/// ```no_run
/// use approxlib::{Error, Job, ShortCause};
/// # fn main() -> Result<(), approxlib::Error> {
/// let mut job = Job::builder().msr(0.8).connect("10.0.0.9:4747")?;
/// job.send(b"one of many")?;
/// match job.finish() {
///     Ok(report) => println!("{} delivered", report.groups[0].delivered),
///     Err(Error::Short(shortfall)) => {
///         if let ShortCause::PeerSilent { silence_s, .. } = shortfall.cause {
///             eprintln!("no answer for {silence_s} s");
///         }
///         for group in &shortfall.groups {
///             eprintln!("group {}: {} of {}", group.group, group.delivered, group.needed);
///         }
///     }
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The minimal sampling rate is not between 0 and 1.
    #[error("the minimal sampling rate must lie between 0 and 1, not {0}")]
    Msr(f64),
    /// The bounds of a request's sampling rate are the wrong way round.
    #[error("the lowest sampling rate of a request, {least}, is above the highest, {most}")]
    RequestBounds {
        /// The lowest.
        least: f64,
        /// The highest.
        most: f64,
    },
    /// The name of the group with this id isn't allowed.
    #[error(
        "the name of group {0} is too long or has a control character: at most 32 bytes are allowed"
    )]
    GroupName(u8),
    /// The job was announced with no messages.
    #[error("a job of 0 messages cannot be opened: announce at least one, or announce no number")]
    NoMessages,
    /// A message is longer than the job allows.
    #[error(
        "a message of {bytes} bytes is too long: at most {bytes_max} are allowed \
         (the option message_bytes_max)"
    )]
    TooLarge {
        /// The message's length, bytes.
        bytes: usize,
        /// The job's limit, bytes.
        bytes_max: usize,
    },
    /// A job to several receivers was opened without any.
    #[error("a job needs at least one receiver: the list of addresses is empty")]
    NoPeers,
    /// The job was opened without this group.
    #[error("the job has no group {0}: name it in the option groups before opening the job")]
    NoGroup(u8),
    /// A message was sent after the end of the job's input.
    #[error("the job takes no more messages: its input was ended, or the job was canceled")]
    Ended,
    /// The receiver has ended the job before the window.
    #[error("the receiver has ended the job: it needs no more windows; `finish` gives the report")]
    EndedByReceiver,
    /// A message was sent while the end of the window is awaited.
    #[error(
        "the window is ending: wait for its end (end_window or try_window), then send the next \
         window's messages"
    )]
    WindowEnding,
    /// The sampling rate can't be changed; the source says why.
    #[error(transparent)]
    MsrRefused(#[from] MsrError),
    /// The group has its announced number of messages already.
    #[error(
        "the group has all of its {messages} messages: announce a larger number, or send the \
         others in another window (end_window)"
    )]
    TooMany {
        /// N of the group, or the most that a job can have.
        messages: u32,
    },
    /// Options of the job are invalid or contradict each other.
    #[error("the job's options are invalid: {0}")]
    Options(#[from] ConfigError),
    /// A name with a port has no address.
    #[error("{}", no_address(.name, .source))]
    Name {
        /// The name, as Debug writes it.
        name: String,
        /// The resolver's error, or an [`AddressError`].
        source: io::Error,
    },
    /// The address can't be a receiver's.
    #[error(
        "{0} is not the address of a receiver: give one host's address and a port other than 0"
    )]
    Peer(SocketAddr),
    /// The highest rate is so low that a packet would take longer than a second.
    #[error("a highest rate of {0} bytes/s is too low: give at least 1000")]
    RateMax(u64),
    /// The path's MTU is too small for ATP.
    #[error(
        "the path to {peer} takes packets of at most {mtu_bytes} bytes, but ATP needs 576: \
         raise the MTU of the path"
    )]
    PathTooNarrow {
        /// The receiver.
        peer: SocketAddr,
        /// The path's MTU, bytes with IP header.
        mtu_bytes: usize,
    },
    /// A UDP socket could not be opened, or failed.
    #[error("{doing} {address} failed: {source}{}", advice(.address, .source))]
    Socket {
        /// The operation: "connecting to", "listening at" or "receiving at".
        doing: &'static str,
        /// The address of the operation.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The daemon can't be reached, or refused.
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// The memory that the daemon shared can't be mapped.
    #[error("the memory shared by the ATP daemon cannot be mapped: {0}")]
    SharedMemory(io::Error),
    /// A background thread could not be started, or ended unexpectedly.
    #[error("a background thread of the library failed: {0}")]
    Thread(io::Error),
    /// The job ended below its minimal sampling rate.
    #[error(transparent)]
    Short(Box<Shortfall>),
}

/// The sentence about a name without an address. That of an [`AddressError`] says it all.
fn no_address(name: &str, error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<AddressError>()) {
        Some(of_address) => of_address.to_string(),
        None => format!(
            "{name} has no {}; give host:port, as in db7:4747 or 10.0.0.2:4747",
            missing(name, error)
        ),
    }
}

/// What `name`, as Debug writes it, lacks by the resolver's error.
fn missing(name: &str, error: &io::Error) -> String {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let text = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    match text {
        Some(text) if !text.rsplit_once(':').is_some_and(|(_, port)| is_port(port)) => {
            "port from 0 to 65535".to_owned()
        }
        _ => format!("address: {error}"),
    }
}

/// Advice for a socket error, appended to the kernel's text.
fn advice(address: &SocketAddr, error: &io::Error) -> String {
    if let Err(incomplete) = complete(*address) {
        return format!(": {incomplete}");
    }
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => ": stop the program that uses this port, or choose another one",
        io::ErrorKind::AddrNotAvailable => {
            ": use an address of this host, or 0.0.0.0 or [::] for all of them"
        }
        _ => "",
    };
    advice.to_owned()
}

/// A job that ended without the messages that it needs.
///
/// As text it names the peer, the cause, and the messages delivered in each group that is short.
#[derive(Clone)]
pub struct Shortfall {
    /// The receiver.
    pub peer: SocketAddr,
    /// Why the job ended.
    pub cause: ShortCause,
    /// The groups that are short. Empty if every group has the messages that it needs and only the
    /// receiver's confirmation is missing.
    pub groups: Vec<ShortGroup>,
    /// The report up to the job's end.
    pub report: Report,
}

/// A group with fewer delivered messages than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortGroup {
    /// The group's id.
    pub group: u8,
    /// Messages known to be delivered.
    pub delivered: u32,
    /// The messages that must be delivered: `ceil(MSR * N)`.
    pub needed: u32,
}

/// Why a job ended short.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ShortCause {
    /// No packet came from the peer within the peer timeout.
    PeerSilent {
        /// How long the peer was silent, seconds.
        silence_s: f64,
        /// The peer's host answered that nothing listens on the port (ICMP port unreachable).
        port_unreachable: bool,
        /// A router or this host answered that the peer's host can't be reached (ICMP host or
        /// network unreachable), or this host let no packet out because it found no link address.
        host_unreachable: bool,
    },
    /// The peer's host acknowledges packets, but the receiving application takes no messages.
    NotReading {
        /// For how long, seconds.
        silence_s: f64,
    },
    /// The receiver refused the job; the reason, if this version knows it.
    Refused(Option<ResetReason>),
    /// The receiver had no room for the job or its messages for as long as the peer timeout.
    NoRoom {
        /// For how long, seconds.
        refused_s: f64,
    },
    /// The receiver has fewer messages than it has confirmed: it was restarted.
    ReceiverLostState,
    /// The path's MTU shrank below the least that ATP needs.
    PathNarrowed {
        /// The path's MTU, bytes with IP header.
        mtu_bytes: u32,
    },
    /// This host let no packet out for as long as the peer timeout.
    CannotSend {
        /// The kernel's error number.
        errno: i32,
    },
    /// The application dropped the job before its end.
    Abandoned,
}

impl Shortfall {
    /// A job that the transport ended.
    pub(crate) fn new(
        peer: SocketAddr,
        error: &SendError,
        socket_errors: SocketErrors,
        report: Report,
    ) -> Self {
        let seconds = |ns: &u64| *ns as f64 / 1e9;
        let (cause, short) = match error {
            SendError::PeerSilent { silence_ns, short } => {
                let SocketErrors { port_unreachable, host_unreachable, .. } = socket_errors;
                let silence_s = seconds(silence_ns);
                (ShortCause::PeerSilent { silence_s, port_unreachable, host_unreachable }, short)
            }
            SendError::NotReading { silence_ns, short } => {
                (ShortCause::NotReading { silence_s: seconds(silence_ns) }, short)
            }
            SendError::Reset { reason, short } => (ShortCause::Refused(*reason), short),
            SendError::NoRoom { refused_ns, short } => {
                (ShortCause::NoRoom { refused_s: seconds(refused_ns) }, short)
            }
            SendError::ReceiverLostState { short } => (ShortCause::ReceiverLostState, short),
        };
        let groups = short.iter().map(|s| ShortGroup {
            group: s.group,
            delivered: s.delivered,
            needed: s.needed,
        });
        Self { peer, cause, groups: groups.collect(), report }
    }

    /// A job that this library ended.
    pub(crate) fn local(peer: SocketAddr, cause: ShortCause, report: Report) -> Self {
        let short = report.groups.iter().filter(|g| g.delivered < g.needed);
        let groups =
            short.map(|g| ShortGroup { group: g.group, delivered: g.delivered, needed: g.needed });
        Self { peer, cause, groups: groups.collect(), report }
    }
}

impl std::error::Error for Shortfall {}

/// The sentence, which a `main` that returns the error prints. The report has thousands of lines.
impl fmt::Debug for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer;
        match self.cause {
            ShortCause::PeerSilent { silence_s, port_unreachable, host_unreachable } => {
                write!(f, "the peer {peer} did not answer for {silence_s:.1} s")?;
                if port_unreachable {
                    f.write_str(" (its host says that nothing listens there)")?;
                } else if host_unreachable {
                    f.write_str(" (a router or this host says that its host is unreachable)")?;
                }
            }
            ShortCause::NotReading { silence_s } => write!(
                f,
                "the host of {peer} acknowledges packets, but its application has read no message \
                 for {silence_s:.1} s"
            )?,
            ShortCause::Refused(reason) => {
                let why = reason
                    .map_or("for a reason that this version does not know", ResetReason::explain);
                write!(f, "the peer {peer} refused the job: {why}")?;
            }
            ShortCause::NoRoom { refused_s } => {
                write!(f, "the receiver at {peer} had no room for {refused_s:.1} s")?;
            }
            ShortCause::ReceiverLostState => {
                write!(f, "the receiver at {peer} was restarted and lost the messages it had")?;
            }
            ShortCause::PathNarrowed { mtu_bytes } => write!(
                f,
                "the path to {peer} now takes packets of at most {mtu_bytes} bytes, too few for \
                 ATP: raise the MTU of the path"
            )?,
            ShortCause::CannotSend { errno: libc::ENOBUFS } => write!(
                f,
                "this host drops every packet to {peer}: check its queueing disciplines, and \
                 whether the job belongs to another cgroup"
            )?,
            ShortCause::CannotSend { errno } => {
                let error = io::Error::from_raw_os_error(errno);
                write!(f, "this host cannot send packets to {peer}: {error}")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{GroupReport, Sample};
    use atp_proto::{LostIds, UnknownIds};

    #[test]
    fn debug__of_a_shortfall_is_its_sentence() {
        let sample = Sample {
            at_s: 0.05,
            group: 0,
            tlr: 0.1,
            rate_bytes_per_s: 1,
            loss: 0.0,
            queue: 1,
            rtt_us: None,
        };
        let group = GroupReport {
            group: 0,
            messages: 10,
            delivered: 1,
            needed: 9,
            lost: 9,
            msr: 0.9,
            lost_ids: LostIds::Unknown(UnknownIds::EndUnconfirmed),
        };
        let report =
            Report { groups: vec![group], timeline: vec![sample; 100], ..Report::default() };
        let peer = "10.0.0.2:4747".parse().unwrap();
        let error = Error::Short(Box::new(Shortfall::local(peer, ShortCause::Abandoned, report)));
        assert_eq!(format!("{error:?}"), format!("Short({error})"));
        assert!(error.to_string().ends_with("1 of 9 needed messages delivered"), "{error}");
    }

    #[test]
    fn display__names_the_interface_that_an_address_lacks() {
        let failed = |address: &str| {
            let address = address.parse().unwrap();
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            Error::Socket { doing: "connecting to", address, source }.to_string()
        };
        assert!(failed("[fe80::1]:4747").ends_with("interface, as in [fe80::1%eth0]:4747"));
        assert!(!failed("[fe80::1%2]:4747").contains("interface"));
    }
}
