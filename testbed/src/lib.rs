//! Networks of hosts on one machine, and the programs that run on them.
//!
//! A host is a network namespace without a name. It lives as long as its descriptor and the
//! processes in it, so the kernel removes it however its owner ends. All other resources are
//! removed when dropped. There are three networks:
//!
//! - [`Pair`]: two hosts on one cable
//! - [`Star`]: hosts around a router, for faults
//! - [`Testbed`]: senders, a switch with eight queues per port, and a receiver
//!
//! Build a network, and start processes, from a thread that outlives them: the kernel ties a child
//! to the thread that started it.

mod cgroup;
mod fault_row;
pub mod faults;
mod host;
mod identity;
pub mod interrupt;
mod iproute;
mod load;
mod namespace;
mod needs;
mod networks;
pub mod privilege;
mod process;
mod scratch;
mod snapshot;
mod switched;
mod transfer;
mod wait;
pub mod wire;

pub use cgroup::{TestCgroup, cgroup2_mount};
pub use fault_row::{FaultJob, FaultRow};
pub use host::{DEVICE, Daemon, Family, Host, Launch, take_logs, v4_counter};
pub use identity::Identity;
pub use load::Load;
pub use namespace::{NOBODY, Namespace};
pub use needs::{
    backend, collective_python, ebpf_object, emulated, faults_object, missing, missing_for_cgroups,
    missing_for_collective, missing_for_fq, missing_for_netem, object, pacing_only, program,
    qdisc_exists,
};
pub use networks::{Pair, Star};
pub use process::{Finished, Process, Signal};
pub use scratch::own_folder;
pub use snapshot::Snapshot;
pub use switch_profiles::Profile;
pub use switched::{Options, PortCounters, SENDERS_MAX, Testbed};
pub use transfer::{PORT, Received, Receiving, Sending, Transfer, check_promise, one_group};
pub use wait::{TIMEOUT, wait_for};
