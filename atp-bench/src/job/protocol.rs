//! The messages between the run and its workers, one JSON value per line. Workers read orders from
//! standard input and write replies to standard output.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::accepted::Accepted;
use super::answer::Answers;
use super::exact::{Load, Requests};
use super::intervals::Interval;
use super::query::Query;
use super::scheme_name::SchemeName;

/// The first line to a worker: its role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    ExactServer {
        bind: IpAddr,
    },
    ExactClient {
        server: SocketAddr,
        load: Load,
        seed: u64,
    },
    Receive {
        job: JobSpec,
        bind: IpAddr,
        control_socket: Option<PathBuf>,
        line_rate_bytes_per_s: u64,
        queue_depth_packets: u32,
    },
    Send {
        job: JobSpec,
        sender: usize,
        receiver: SocketAddr,
        control_socket: Option<PathBuf>,
    },
}

impl Role {
    pub fn name(&self) -> String {
        match self {
            Role::ExactServer { .. } => "exact server".to_owned(),
            Role::ExactClient { .. } => "exact client".to_owned(),
            Role::Receive { job, .. } => format!("{} receiver", job.scheme.name()),
            Role::Send { job, .. } => format!("{} sender", job.scheme.name()),
        }
    }
}

/// The parameters of a job, the same for all its workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    pub scheme: SchemeName,
    /// Distinguishes the jobs of a run.
    pub number: u32,
    pub seed: u64,
    pub msr: f64,
    /// The accepted relative error, if the receiver can ask for more or less than the MSR.
    pub emax: Option<f64>,
    /// The confidence of the intervals.
    pub confidence: f64,
    /// The sending hosts.
    pub sources: Vec<Ipv4Addr>,
    /// A file written by `Messages::write`.
    pub messages: PathBuf,
    pub queries: Vec<Query>,
    /// The rate of the hosts' links.
    pub rate_bytes_per_s: u64,
    /// ATP's laws, as options of the daemon.
    pub law: Vec<String>,
}

/// The lines to a worker after its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Begin at this instant of the shared clock.
    Start {
        at_ns: u64,
    },
    /// Tells a receiver that all senders have ended.
    SendersEnded,
    Stop,
}

/// A worker's reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The worker is prepared: files are read, sockets open. The port is 0 if the worker doesn't
    /// listen.
    Ready {
        port: u16,
    },
    Progress {
        delivered: usize,
    },
    Received(ReceiverReport),
    Sent(SenderReport),
    Requests(Requests),
    /// An error message, after which the worker ends.
    Failed(String),
}

impl Reply {
    /// Whether this is the worker's last reply.
    pub fn is_last(&self) -> bool {
        matches!(self, Reply::Received(_) | Reply::Sent(_) | Reply::Requests(_))
    }
}

/// The report of a job's receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// The instant when the job was complete.
    pub ended_ns: u64,
    /// The number of distinct messages, each compared with the sent one.
    pub delivered: usize,
    /// Instants of the shared clock, some milliseconds apart, with the messages delivered by then.
    pub timeline: Vec<(u64, usize)>,
    pub answers: Answers,
    /// By query.
    pub intervals: Vec<Vec<Interval>>,
    /// If the receiver asked for as much as an accepted error needs.
    pub accepted: Option<Accepted>,
    /// None if only the sender can count them.
    pub packets_arrived: Option<u64>,
}

/// The report of one of a job's senders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderReport {
    /// Packets sent, including retransmissions.
    pub packets_sent: u64,
    /// None if only the receiver can count them.
    pub packets_lost: Option<u64>,
    /// `ebpf` or `userspace`, if ApproxLib was the sender.
    pub datapath: Option<String>,
    /// `fq`, `htb` or `userspace`.
    pub pacing: Option<String>,
}
