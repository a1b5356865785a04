//! The state of a host, as a snapshot's reader returns it and `atp-user stats --json` prints it.

use super::{JobUser, protocol::JobInfo};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, net::SocketAddr};

/// The state of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostStats {
    /// The interfaces, and the hook that consumes ACKs on each (`native` or `tc`).
    pub interfaces: BTreeMap<String, String>,
    /// `fq` or `htb`.
    pub pacing: String,
    /// The name of the rate law.
    pub law: String,
    /// The part of the system that evaluates epochs: `daemon` or `kernel`.
    pub epochs: String,
    /// Seconds from the start of the daemon to the last run of its control loop.
    pub uptime_s: f64,
    /// Whether the daemon has ended. The other values are then the last ones.
    pub ended: bool,
    /// Event counters of the datapath, by name.
    pub counters: BTreeMap<String, u64>,
    /// Seconds from the start of the daemon to the last reading of the counters. It reads them four
    /// times a second.
    pub counters_read_s: f64,
    /// The runs of each program, by name; `None` if the kernel doesn't measure them
    /// (`sysctl kernel.bpf_stats_enabled=1` makes it).
    pub programs: Option<BTreeMap<String, ProgramRuns>>,
    /// Whether the programs see the traffic that they control.
    pub coverage: CoverageStats,
    /// Requests that the operator's policy refused. Zero from a daemon of an earlier version.
    #[serde(default)]
    pub policy_refusals: PolicyRefusals,
    /// Entries that this reader has left out so far, because the daemon was writing them.
    pub skipped_entries: u64,
    /// The host's jobs, by ascending id and user. Names and cgroups are for root and the daemon's
    /// own user.
    pub jobs: Vec<JobInfo>,
    /// The lanes in use, by ascending index.
    pub lanes: Vec<LaneStats>,
}

/// Counts of flows whose packets pass no program of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageStats {
    /// Flows that were refused, because their route leads over another interface.
    pub refused_flows: u64,
    /// Flows whose packets ceased to pass the programs.
    pub lost_flows: u64,
    /// Flows that came back from userspace.
    pub returned_flows: u64,
    /// The reason of the last refusal or loss.
    pub last_reason: Option<String>,
}

/// Counts of requests that the operator's policy refused, by its limit. A job that asks again from
/// userspace, because its user has as many jobs as allowed, isn't counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRefusals {
    /// More jobs at the same time.
    pub jobs_max: u64,
    /// A lower MSR.
    pub msr_min: u64,
    /// An exact lane, although queue 0 is forbidden.
    pub queue_highest: u64,
}

/// The runs of a program while the kernel measured them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRuns {
    /// The number of runs.
    pub runs: u64,
    /// The time of all runs, nanoseconds.
    pub run_ns: u64,
}

/// The state of one lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneStats {
    /// The lane's index on this host.
    pub lane: u16,
    /// The id of its job.
    pub job: u32,
    /// The user of its job: each user has job ids of its own. `None` from a daemon of an earlier
    /// version.
    #[serde(default)]
    pub job_uid: Option<u32>,
    /// That user's container: see [`JobUser`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_container: Option<u64>,
    /// The index of its flow. The lanes of one socket share it.
    pub flow: u32,
    /// The lane's socket and process; `None` unless the reader is root or the daemon's own user.
    pub identity: Option<LaneIdentity>,
    /// Seconds from the start of the daemon until the lane was opened. With the index it tells a
    /// lane from all others of this daemon.
    pub opened_s: f64,
    /// The progress of its group.
    pub group: GroupStats,
    /// The lane's rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// The receiver's advice, bytes per second on the wire; `None` if it gives none, or if the
    /// daemon doesn't follow advice.
    #[serde(default)]
    pub advice_bytes_per_s: Option<u64>,
    /// Bytes per second that left between the last two reads of this snapshot; `None` at the first
    /// read, and if the programs evaluate epochs.
    pub achieved_bytes_per_s: Option<u64>,
    /// Packets that left; `None` if the programs evaluate epochs: then nobody adds up their counts.
    pub sent_packets: Option<u64>,
    /// Their bytes on the wire.
    pub sent_bytes: Option<u64>,
    /// The lane's queue in the switches, 0 to 7.
    pub queue: u8,
    /// The DSCP of its packets; `None` if they keep the application's.
    pub dscp: Option<u8>,
    /// The number of the current epoch.
    pub epoch: u16,
    /// The number of epochs evaluated.
    pub epochs_evaluated: u32,
    /// Loss of the last evaluated epoch, 0 to 1.
    pub loss: f64,
    /// Target loss rate, 0 to 1.
    pub tlr: f64,
    /// Smoothed round-trip time, microseconds; `None` before the first ACK.
    pub rtt_us: Option<f64>,
    /// The least round-trip time, microseconds: under the law `yield` of the last seconds. `None`
    /// before the first ACK.
    pub rtt_min_us: Option<f64>,
    /// The most packets that leave together in one GSO buffer.
    pub burst_packets: u32,
    /// Packets dropped because their departure time lay too far in the future.
    pub too_far_packets: u64,
}

impl LaneStats {
    /// The user of its job; `None` from a daemon of an earlier version.
    pub fn job_user(&self) -> Option<JobUser> {
        self.job_uid.map(|uid| JobUser { uid, container: self.job_container })
    }

    /// Whether the lane is one of `job`.
    pub fn is_of(&self, job: &JobInfo) -> bool {
        self.job == job.id && self.job_user().is_none_or(|user| user == job.user())
    }
}

/// The socket and process of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneIdentity {
    /// The socket's address.
    pub local: SocketAddr,
    /// The receiver's address.
    pub peer: SocketAddr,
    /// The process that opened it, in the daemon's PID namespace.
    pub pid: u32,
    /// The name of that process when it opened it.
    pub process: String,
    /// The id of the user of that process.
    pub uid: u32,
    /// The name of that user, if the reader's host knows one.
    pub user: Option<String>,
}

/// The progress of one group, as reported by its sender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupStats {
    /// The group's id.
    pub group: u8,
    /// The minimal sampling rate, 0 to 1.
    pub msr: f64,
    /// N, the number of messages.
    pub messages: u32,
    /// Messages for which the receiver has sent a receipt.
    pub delivered: u32,
    /// Messages lost so far.
    pub lost: u32,
}
