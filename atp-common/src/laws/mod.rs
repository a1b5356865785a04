//! The control laws, one file each. Fixed point, no clock, so that each can run anywhere: pacing and
//! the RTT run in eBPF, all of them in the daemon and in the library's userspace datapath.

pub mod burst;
pub mod lane;
pub mod pacing;
pub mod queue;
pub mod rate;
pub mod rtt;
pub mod tlr;
