//! Layouts of the maps that eBPF and userspace share. They have no padding, `bool`, enum or
//! `Option`, and every size is asserted.

pub mod ack_ring;
mod advice;
pub mod arrivals;
mod config;
mod counter;
mod event;
mod flow;
mod job;
mod lane;
mod law;
mod progress;
mod sequenced;
pub mod snapshot;
mod status;

pub use advice::{
    ADVISED_LANES, ArrivedBytes, ArrivedLane, ArrivingLane, ArrivingLanes, LINES, RECEIVER_LANES,
    ReceivedAdvice,
};
pub use config::{BACKEND_FQ, BACKEND_HTB, Config};
pub use counter::Counter;
pub use event::Event;
pub use flow::{Flow, LANE_NONE, PORT_RECEIVER, PORT_SENDER, PortEntry};
pub use job::{JOB_ACTIVE, JOB_FREE, Job};
pub use lane::{EpochCell, LaneControl, LaneState};
pub use law::LaneLaw;
pub use progress::GroupProgress;
pub use sequenced::{Sequenced, read_sequenced, write_sequenced};
pub use status::LaneStatus;

/// How many jobs a host can have at once.
pub const JOBS: u32 = 1024;
/// How many sockets a host can have registered for sending at once.
pub const FLOWS: u32 = 2048;
/// How many lanes a host can have at once.
pub const LANES: u32 = 4096;
/// The deepest level below the root at which a cgroup may be given to a job. Its descendants may be
/// deeper.
pub const CGROUP_LEVELS: i32 = 8;
/// Words of a flow's ACK ring: 262,144 slots, half of which may be in flight; 64 KiB.
pub const ACK_RING_WORDS: u32 = 8192;
/// Words of a flow's ACK map behind its ring. Once the answer to PROBE number `n` is in the ring,
/// word `n % 64` holds `n` plus 1.
pub const ANSWER_WORDS: u32 = 64;
/// Words of a flow's ACK map behind its ring: the answers, and then one word that changes whenever
/// the egress program sees packets of the flow. It counts a GSO buffer once.
pub const RING_TAIL_WORDS: u32 = ANSWER_WORDS + 1;
/// Groups of a job.
pub const GROUPS: usize = 256;
