//! The control laws, one file each. Fixed point, no clock: every function here runs in the daemon,
//! in the library's userspace datapath, in eBPF and in the simulator.

pub mod lane;
pub mod pacing;
pub mod queue;
pub mod rate;
pub mod rtt;
pub mod tlr;
