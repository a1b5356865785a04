//! Requests and replies. Both ends parse them with the same types; unknown fields are refused.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// The protocol's version; the first thing that a client says.
pub const PROTOCOL: u32 = 3;

/// The most bytes of one reply: less than a Unix socket's send buffer holds by default.
pub const PACKET_BYTES_MAX: usize = 192 * 1024;

/// The most bytes of one request: the longest path, escaped, and then some.
pub const REQUEST_BYTES_MAX: usize = 32 * 1024;

/// Descriptors that come with [`Reply::Sender`], in this order: the flow's ACK ring (frozen BPF
/// array of u64, map it read-only), the connection's progress map (BPF array of 256
/// [`GroupProgress`](atp_common::maps::GroupProgress), map it read-write; the same for every flow
/// that one connection opens, since TLR is per job and group on one sender) and the flow's status
/// page (sealed memfd of 256 [`LaneStatus`](atp_common::maps::LaneStatus), map it read-only).
pub const SENDER_FDS: usize = 3;

/// Where the daemon listens unless told otherwise: `ATP_SOCKET`, or `/run/atp/atp.sock`.
pub fn default_socket() -> PathBuf {
    std::env::var_os("ATP_SOCKET").map_or_else(|| "/run/atp/atp.sock".into(), PathBuf::from)
}

/// What a client asks. Requests without fields have braces because serde looks for unknown fields
/// only there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "request")]
pub enum Request {
    /// First on every connection.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// Makes a job that outlives this connection.
    JobCreate {
        /// The wanted id, or any that is free.
        id: Option<u32>,
        /// A name for people.
        name: Option<String>,
        /// The cgroup (a folder of a cgroup v2 tree) whose sockets alone may send for the job.
        cgroup: Option<PathBuf>,
    },
    /// Jobs of this host, as many as one reply holds.
    JobList {
        /// Those with this id and above.
        from: u32,
    },
    /// Ends a job. The connections that send for it are closed: their libraries go on by
    /// themselves.
    JobEnd {
        /// Which.
        id: u32,
    },
    /// Registers a sending socket. One descriptor comes along: a UDP socket, bound and connected,
    /// from which the daemon reads both addresses itself.
    ///
    /// Without an id the job is that of the caller's cgroup, or else a new one. A job made this way
    /// ends with its last sending socket.
    SenderOpen {
        /// Which job.
        id: Option<u32>,
        /// The groups; each gets a lane. 1 to 256, each id once.
        groups: Vec<GroupOpen>,
    },
    /// Registers a receiving socket, so that the datapath acknowledges what arrives for it. One
    /// descriptor comes along: a UDP socket, bound. Lasts as long as the connection.
    ReceiverOpen {},
    /// The state of the host, but for its jobs and lanes.
    Stats {},
    /// Lanes in use, as many as one reply holds.
    LaneList {
        /// Those with this index and above.
        from: u16,
    },
    /// Detach from every interface, leave qdiscs as found, and exit.
    Stop {},
}

impl Request {
    /// Reads one packet as a daemon does: a request that makes sense now. The first is a hello in the
    /// daemon's protocol; `greeted` keeps whether there was one.
    pub fn parse(packet: &[u8], greeted: &mut bool) -> Result<Self, Refusal> {
        let bad = |message| Err(Refusal { kind: RefusalKind::BadRequest, message });
        match serde_json::from_slice(packet) {
            Err(error) => bad(format!("not a request: {error}")),
            Ok(Self::Hello { protocol }) if protocol != PROTOCOL => bad(format!(
                "the client speaks protocol {protocol}, this daemon {PROTOCOL}: use programs of one version"
            )),
            Ok(request) => {
                *greeted |= matches!(request, Self::Hello { .. });
                if !*greeted {
                    return bad("the first request must be a hello".to_owned());
                }
                Ok(request)
            }
        }
    }
}

/// A group whose lane is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOpen {
    /// The group's id.
    pub group: u8,
    /// Its MSR, parts per billion. A group that begins at 10^9 is exact, and stays so.
    pub msr_parts_per_billion: u32,
    /// N of the group on this sender, until the library tells more in its progress map; 0 if not
    /// known yet.
    pub messages: u32,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "reply")]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        /// The daemon's version.
        version: String,
        /// `fq` or `htb`.
        pacing: String,
    },
    /// To `JobCreate`.
    Job(JobInfo),
    /// To `JobList`.
    Jobs {
        /// By id.
        jobs: Vec<JobInfo>,
        /// Where to go on; `None` after the last.
        next: Option<u32>,
    },
    /// To `SenderOpen`, with [`SENDER_FDS`] descriptors.
    Sender(SenderGrant),
    /// To `JobEnd`, `ReceiverOpen` and `Stop`.
    Done,
    /// To `Stats`; without jobs and lanes.
    Stats(HostStats),
    /// To `LaneList`.
    Lanes {
        /// By index.
        lanes: Vec<LaneStats>,
        /// Where to go on; `None` after the last.
        next: Option<u16>,
    },
    /// To anything that can't be done.
    Refused(Refusal),
}

/// Why something can't be done, in one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// What kind of refusal it is, for programs.
    pub kind: RefusalKind,
    /// What, where, what to do: for people.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request makes no sense.
    BadRequest,
    /// No such job.
    UnknownJob,
    /// Somebody else's job, port or socket.
    NotYours,
    /// Taken already.
    InUse,
    /// No room for another job, flow, lane or connection, on this host or for this user.
    NoRoom,
    /// The socket is of a network namespace that the daemon doesn't serve.
    OtherNamespace,
    /// The daemon failed.
    Internal,
}

/// A job of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobInfo {
    /// The job's id.
    pub id: u32,
    /// Its name.
    pub name: Option<String>,
    /// The cgroup that it is bound to.
    pub cgroup: Option<PathBuf>,
    /// The user who made it.
    pub uid: u32,
    /// Whether it ends with its last sending socket.
    pub ephemeral: bool,
    /// Sockets registered for sending.
    pub flows: u32,
}

/// A registered sending socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenderGrant {
    /// The job's id, for the header.
    pub job: u32,
    /// The flow's cookie, for the header.
    pub cookie: u32,
    /// Words of the ACK ring, a power of two.
    pub ack_ring_words: u32,
    /// `fq` or `htb`.
    pub pacing: String,
}

/// The state of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostStats {
    /// Interfaces, with how the programs are attached (`native`, `generic`, `tc`).
    pub interfaces: BTreeMap<String, String>,
    /// `fq` or `htb`.
    pub pacing: String,
    /// Seconds since the daemon started.
    pub uptime_s: f64,
    /// Event counters of the datapath, by name.
    pub counters: BTreeMap<String, u64>,
    /// Jobs.
    pub jobs: Vec<JobInfo>,
    /// Lanes in use.
    pub lanes: Vec<LaneStats>,
}

/// One lane. No addresses: job, group and an index are enough to watch it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneStats {
    /// The lane's index on this host.
    pub lane: u16,
    /// Its job.
    pub job: u32,
    /// What its group has sent and received.
    pub group: GroupStats,
    /// Its rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// Its queue, 0 to 7.
    pub queue: u8,
    /// Its epoch.
    pub epoch: u16,
    /// Epochs evaluated.
    pub epochs_evaluated: u32,
    /// Loss of the last evaluated epoch, 0 to 1.
    pub loss: f64,
    /// Target loss rate, 0 to 1.
    pub tlr: f64,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: f64,
    /// Packets dropped by the runaway guard.
    pub too_far_packets: u64,
}

/// One group, as its sender reports it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupStats {
    /// The group's id.
    pub group: u8,
    /// Minimal sampling rate, 0 to 1.
    pub msr: f64,
    /// N.
    pub messages: u32,
    /// Messages with a receipt.
    pub delivered: u32,
    /// Messages lost so far.
    pub lost: u32,
}
