//! What the run and its workers say to each other: one JSON value a line, orders on the worker's
//! standard input, replies on its standard output.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::answer::Answers;
use super::exact::Requests;
use super::schemes::SchemeName;
use super::table::Query;

/// The first line: what the worker is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    ExactServer { bind: IpAddr },
    ExactClient { server: SocketAddr, requests_per_s: f64, seed: u64 },
    Receive { job: JobSpec, bind: IpAddr, control_socket: Option<PathBuf> },
    Send { job: JobSpec, sender: usize, receiver: SocketAddr, control_socket: Option<PathBuf> },
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

/// A job, as all its workers know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    pub scheme: SchemeName,
    /// Distinguishes the jobs of a run.
    pub number: u32,
    pub seed: u64,
    pub msr: f64,
    /// The sending hosts.
    pub sources: Vec<Ipv4Addr>,
    /// Written by `Messages::write`.
    pub messages: PathBuf,
    pub queries: Vec<Query>,
    /// Of the hosts' links.
    pub rate_bytes_per_s: u64,
    /// ATP's laws, as options of the daemon have them.
    pub law: Vec<String>,
}

/// What comes after the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Begin at this instant of the shared clock.
    Start {
        at_ns: u64,
    },
    /// To a receiver: no sender sends any more.
    SendersEnded,
    Stop,
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Everything that doesn't count is done: files are read, sockets open. The port is 0 for who
    /// doesn't listen.
    Ready {
        port: u16,
    },
    Progress {
        delivered: usize,
    },
    Received(ReceiverReport),
    Sent(SenderReport),
    Requests(Requests),
    /// In the words of an error message; the worker ends.
    Failed(String),
}

impl Reply {
    /// Whether the worker has nothing more to say.
    pub fn is_last(&self) -> bool {
        matches!(self, Reply::Received(_) | Reply::Sent(_) | Reply::Requests(_))
    }
}

/// A job's receiver at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// When the job was complete.
    pub ended_ns: u64,
    /// Distinct messages, each compared with what was sent.
    pub delivered: usize,
    /// How many there were at which instants of the shared clock, some milliseconds apart.
    pub timeline: Vec<(u64, usize)>,
    pub answers: Answers,
    /// Where it is the receiver that can count them.
    pub packets_arrived: Option<u64>,
}

/// One of a job's senders at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderReport {
    /// Repeated ones included.
    pub packets_sent: u64,
    /// Where it is the sender that knows.
    pub packets_lost: Option<u64>,
    /// Where a library of ours did the sending: `ebpf` or `userspace`.
    pub datapath: Option<String>,
    /// `fq`, `htb` or `userspace`.
    pub pacing: Option<String>,
}
