//! The requests and replies of the control socket. Both ends parse them with these types.
//!
//! A library and a daemon of different versions work together if they share a version of the
//! protocol: see [`Request::Hello`]. A daemon refuses unknown fields of requests, because their
//! sender expects an effect. A library ignores unknown fields of replies.

use super::JobUser;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The latest version of the protocol that this crate speaks. A version covers requests, replies
/// and the layout of shared memory.
///
/// | version | change |
/// |---|---|
/// | 5 | negotiation |
/// | 6 | `Snapshot` instead of `Stats` and `LaneList`; flows that return with their cookie; the page of covered interfaces |
/// | 7 | the programs take packed packets |
/// | 8 | advice: a longer progress map, and the map of arriving lanes; known paths; first windows |
pub const PROTOCOL: u32 = 8;

/// The earliest version of the protocol that this crate speaks.
pub const PROTOCOL_MIN: u32 = 8;

/// The most bytes of one reply: less than a Unix socket's send buffer holds by default.
pub const PACKET_BYTES_MAX: usize = 192 * 1024;

/// The most bytes of one request: the longest path, escaped, with a margin.
pub const REQUEST_BYTES_MAX: usize = 32 * 1024;

/// The number of descriptors that come with [`Reply::Sender`]. In this order:
///
/// | descriptor | content | mapping |
/// |---|---|---|
/// | ACK ring of the flow | frozen BPF array of u64 | read-only |
/// | progress map of the connection | BPF array of 256 [`GroupProgress`](atp_common::maps::GroupProgress), then 256 [`ReceivedAdvice`](atp_common::maps::ReceivedAdvice) | read-write |
/// | status page of the flow | sealed memfd of 256 [`LaneStatus`](atp_common::maps::LaneStatus) | read-only |
///
/// [`Reply::Receiver`] brings one descriptor or, if the daemon gives advice, three. In this order:
///
/// | descriptor | content | mapping |
/// |---|---|---|
/// | page of covered interfaces | sealed memfd of [`INTERFACE_WORDS`] words of u32 | read-only |
/// | map of arriving lanes | BPF array of 512 [`ArrivingLane`](atp_common::maps::ArrivingLane) | read-write |
/// | eventfd | wakes a daemon that is asleep | not mapped |
///
/// The first word of the page is the number of interfaces, and their indices follow. The daemon's
/// programs acknowledge packets that arrive over them.
///
/// All flows that one connection opens share the progress map, because the target loss rate is that
/// of a job and group on one sending host.
pub const SENDER_FDS: usize = 3;

/// The words of the page of covered interfaces: their number, then at most as many indices.
pub const INTERFACE_WORDS: usize = 1_024;

/// The default control socket: the environment's `ATP_SOCKET`, or else `/run/atp/atp.sock`.
pub fn default_socket() -> PathBuf {
    std::env::var_os("ATP_SOCKET").map_or_else(|| "/run/atp/atp.sock".into(), PathBuf::from)
}

/// A request of a client. Requests without fields have braces because serde detects unknown fields
/// only in variants with braces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "request")]
pub enum Request {
    /// States the protocol versions that the client speaks. The first request on each connection,
    /// and the only one whose unknown fields are ignored. A daemon takes descriptors from its
    /// answer on, and none before (Linux 6.16).
    Hello {
        /// The latest version: [`PROTOCOL`].
        protocol: u32,
        /// The earliest version: [`PROTOCOL_MIN`]. Without it, the latest one.
        protocol_min: Option<u32>,
    },
    /// Creates a job that outlives this connection.
    JobCreate {
        /// The job's id; without it the daemon chooses one that is free.
        id: Option<u32>,
        /// A name for people.
        name: Option<String>,
        /// The cgroup, as a folder of a cgroup v2 tree. Only its sockets may send for the job.
        cgroup: Option<PathBuf>,
    },
    /// Lists jobs of this host, as many as one reply holds. The names and cgroups of other users'
    /// jobs are for root and the daemon's own user.
    JobList {
        /// The lowest id to list.
        from: u32,
        /// The lowest user of a job with that id; without it, any user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_uid: Option<u32>,
        /// The lowest container of that user; without it, that of the host itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_container: Option<u64>,
    },
    /// Ends a job. The daemon closes the connections that send for it, and their libraries continue
    /// in userspace.
    JobEnd {
        /// The job's id.
        id: u32,
        /// The job's user, if several users have a job with this id. Only root may name another
        /// user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        /// That user's container: see [`JobUser`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        container: Option<u64>,
    },
    /// Binds a job to a cgroup, as `JobCreate` does with a new one; for root. The job then lasts
    /// until it is ended. The daemon closes the connections that send for it. Their libraries
    /// register again, and those outside the cgroup are refused.
    JobAttach {
        /// The job's id.
        id: u32,
        /// The job's user, as in `JobEnd`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        /// That user's container.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        container: Option<u64>,
        /// The cgroup.
        cgroup: PathBuf,
    },
    /// Registers a sending socket. It comes with one descriptor: a bound and connected UDP socket,
    /// from which the daemon reads both addresses.
    ///
    /// Each user has job ids of its own: the job is the caller's one with this id, or else a new
    /// one. Without an id it is that of the caller's cgroup, or else a new one. A job created this
    /// way ends with its last sending socket.
    ///
    /// The id of a job that is bound to a cgroup is that cgroup's alone. The daemon refuses it to
    /// others ([`RefusalKind::BadRequest`]), because its programs would drop their packets.
    ///
    /// The daemon refuses ([`RefusalKind::NotCovered`]) if the socket's packets leave by an
    /// interface without its programs.
    SenderOpen {
        /// The job's id.
        id: Option<u32>,
        /// The cookie of a flow that continues from userspace; its packets carry it already.
        /// Without it, the daemon draws one.
        #[serde(default)]
        cookie: Option<u32>,
        /// The groups, 1 to 256, each id once. Each group gets a lane.
        groups: Vec<GroupOpen>,
    },
    /// Says that packets of this connection's sending sockets left the host, but the programs
    /// didn't see them. The daemon closes the sockets' lanes. The library doesn't wait for the
    /// reply: it continues in userspace.
    NotCovered {
        /// The number of packets that left unseen.
        packets: u64,
        /// From the first of them to this request, microseconds.
        after_us: u64,
    },
    /// Registers a receiving socket: the datapath acknowledges the packets that arrive for it, as
    /// long as the connection lasts. It comes with one descriptor: a bound UDP socket.
    ReceiverOpen {},
    /// Asks for the snapshot pages, from which a client reads the state of the host as often as it
    /// likes without another request.
    Snapshot {},
    /// Asks the daemon to detach from all interfaces, restore their qdiscs, and exit.
    Stop {},
}

impl Request {
    /// Parses one packet for the daemon. The first request of a connection must be a `Hello` that
    /// shares a protocol version with this daemon. `version` remembers it: begin with `None`.
    ///
    /// # Errors
    /// The refusal to send back, if the packet is no valid request.
    pub fn parse(packet: &[u8], version: &mut Option<u32>) -> Result<Self, Refusal> {
        let bad = |message| Err(Refusal { kind: RefusalKind::BadRequest, message });
        if let Ok(FirstRequest::Hello { protocol, protocol_min }) = serde_json::from_slice(packet) {
            let earliest = protocol_min.unwrap_or(protocol);
            let Some(shared) = shared_version(protocol, earliest) else {
                return Err(Refusal {
                    kind: RefusalKind::Version,
                    message: format!(
                        "the client speaks protocol versions {earliest} to {protocol}, this daemon \
                         {PROTOCOL_MIN} to {PROTOCOL}: use a client and a daemon of the same ATP \
                         version"
                    ),
                });
            };
            *version = Some(shared);
            return Ok(Self::Hello { protocol, protocol_min });
        }
        match serde_json::from_slice(packet) {
            Err(error) => bad(format!("the packet is not a valid request: {error}")),
            Ok(_) if version.is_none() => {
                bad("the first request of a connection must be a hello".to_owned())
            }
            Ok(request) => Ok(request),
        }
    }
}

/// A [`Request::Hello`] of any version: it has at least these fields.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
enum FirstRequest {
    Hello { protocol: u32, protocol_min: Option<u32> },
}

/// The latest protocol version that this crate shares with a peer, which speaks versions `earliest`
/// to `latest`.
pub(super) fn shared_version(latest: u32, earliest: u32) -> Option<u32> {
    let shared = latest.min(PROTOCOL);
    (shared >= earliest.max(PROTOCOL_MIN)).then_some(shared)
}

/// A group in [`Request::SenderOpen`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOpen {
    /// The group's id.
    pub group: u8,
    /// The group's MSR, parts per billion. A group opened at 10^9 is exact, and stays exact.
    pub msr_parts_per_billion: u32,
    /// N of the group on this sender; 0 if not known yet. The progress map updates it.
    pub messages: u32,
    /// The first epoch of the lane. A flow that continues names one after all those that its
    /// packets have carried.
    #[serde(default)]
    pub epoch: u16,
    /// The rate of a flow that continues, bytes per second; 0 for the law's first rate. The lane
    /// begins no faster than a new one.
    #[serde(default)]
    pub rate_bytes_per_s: u64,
    /// The library limits the first window. An exact group's lane then sends it at Rmax.
    #[serde(default)]
    pub first_window: bool,
}

/// A reply of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum Reply {
    /// Answers `Hello`.
    Welcome {
        /// The daemon's version.
        version: String,
        /// `fq` or `htb`.
        pacing: String,
        /// The protocol version of this connection.
        protocol: u32,
    },
    /// Answers `JobCreate` and `JobAttach`.
    Job(JobInfo),
    /// Answers `JobList`.
    Jobs {
        /// The jobs, by ascending id and user.
        jobs: Vec<JobInfo>,
        /// `from` of the next request; `None` after the last job.
        next: Option<u32>,
        /// `from_uid` of the next request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_uid: Option<u32>,
        /// `from_container` of the next request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_container: Option<u64>,
    },
    /// Answers `SenderOpen`, with [`SENDER_FDS`] descriptors.
    Sender(SenderGrant),
    /// Answers `ReceiverOpen`, with one descriptor or three: see [`SENDER_FDS`].
    Receiver,
    /// Answers `JobEnd`, `NotCovered` and `Stop`.
    Done,
    /// Answers `Snapshot`, with the descriptors of one or two sealed memfds, both for reading: a
    /// [`SnapshotPage`](atp_common::maps::snapshot::SnapshotPage), and for root and the daemon's
    /// own user also an [`IdentityPage`](atp_common::maps::snapshot::IdentityPage).
    Snapshot,
    /// Answers a request that the daemon can't or won't fulfill.
    Refused(Refusal),
}

/// Why the daemon refused a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind of refusal, for programs.
    pub kind: RefusalKind,
    /// A sentence for people: what failed, on what, and what to do.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request is malformed, contradictory, names a job that its caller can't send for, or
    /// asks for more than the operator's policy allows.
    BadRequest,
    /// There is no job with this id.
    UnknownJob,
    /// The job, port or socket belongs to another user.
    NotYours,
    /// The id or port is in use.
    InUse,
    /// A limit of jobs, flows, lanes or connections is reached, of this host or of this user.
    NoRoom,
    /// The socket belongs to a network namespace that the daemon doesn't serve.
    OtherNamespace,
    /// The socket's packets leave by an interface without the daemon's programs.
    NotCovered,
    /// The client and the daemon share no version of the protocol.
    Version,
    /// The daemon failed.
    Internal,
    /// A kind of a later version.
    #[serde(other)]
    Unknown,
}

/// A job of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobInfo {
    /// The job's id.
    pub id: u32,
    /// The job's name.
    pub name: Option<String>,
    /// The cgroup to which the job is bound.
    pub cgroup: Option<PathBuf>,
    /// The user who created the job.
    pub uid: u32,
    /// That user's container: see [`JobUser`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<u64>,
    /// Whether the job ends with its last sending socket.
    pub ephemeral: bool,
    /// The number of sockets registered for sending.
    pub flows: u32,
}

impl JobInfo {
    /// The user who created the job.
    pub const fn user(&self) -> JobUser {
        JobUser { uid: self.uid, container: self.container }
    }
}

/// A registered sending socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SenderGrant {
    /// The job's id, for the header.
    pub job: u32,
    /// The flow's cookie, for the header.
    pub cookie: u32,
    /// The number of u64 words of the ACK ring, a power of two.
    pub ack_ring_words: u32,
    /// `fq` or `htb`.
    pub pacing: String,
    /// The path to the destination, as far as the daemon knows it.
    #[serde(default)]
    pub path: KnownPath,
}

/// The RTT that a user's closed flows measured to a host, and the rate of this host's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownPath {
    /// The last estimate of the RTT, of the last minute, nanoseconds; 0 if unknown.
    pub rtt_smoothed_ns: u64,
    /// The estimate's mean deviation, nanoseconds.
    pub rtt_variation_ns: u64,
    /// The least RTT of the last 10 to 20 seconds, nanoseconds; 0 if unknown.
    pub rtt_min_ns: u64,
    /// The rate of the host's line (Rmax).
    pub rate_max_bytes_per_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(packet: &str, version: &mut Option<u32>) -> Result<Request, RefusalKind> {
        Request::parse(packet.as_bytes(), version).map_err(|refusal| refusal.kind)
    }

    #[test]
    fn parse__a_hello_of_a_later_version() {
        let later = format!(
            r#"{{"request":"hello","protocol":{},"protocol_min":{PROTOCOL},"surprise":1}}"#,
            PROTOCOL + 2
        );
        let mut version = None;
        assert!(matches!(parse(&later, &mut version), Ok(Request::Hello { .. })));
        assert_eq!(version, Some(PROTOCOL));
    }

    #[test]
    fn parse__a_hello_without_a_shared_version() {
        for protocol in [0, PROTOCOL_MIN - 1, PROTOCOL + 1] {
            let mut version = None;
            let hello = format!(r#"{{"request":"hello","protocol":{protocol}}}"#);
            assert_eq!(parse(&hello, &mut version), Err(RefusalKind::Version));
            assert_eq!(version, None);
        }
    }

    #[test]
    fn parse__other_requests_come_after_a_hello() {
        let mut version = None;
        let stop = r#"{"request":"stop"}"#;
        assert_eq!(parse(stop, &mut version), Err(RefusalKind::BadRequest));
        let hello = serde_json::to_string(&Request::Hello {
            protocol: PROTOCOL,
            protocol_min: Some(PROTOCOL_MIN),
        });
        parse(&hello.unwrap(), &mut version).unwrap();
        assert_eq!(parse(stop, &mut version), Ok(Request::Stop {}));
        let surprise = r#"{"request":"stop","surprise":1}"#;
        assert_eq!(parse(surprise, &mut version), Err(RefusalKind::BadRequest));
    }

    proptest! {
        /// The shared version is one that both sides speak, and the latest of those.
        #[test]
        fn shared_version__is_the_latest_of_both(earliest in 0u32..12, more in 0u32..12) {
            let spoken = |version: &u32| {
                (earliest..=earliest + more).contains(version)
                    && (PROTOCOL_MIN..=PROTOCOL).contains(version)
            };
            let latest = (0..24).rev().find(spoken);
            prop_assert_eq!(shared_version(earliest + more, earliest), latest);
        }
    }
}
