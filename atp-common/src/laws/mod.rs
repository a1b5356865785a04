//! The control laws, one file each. Fixed point, no clock, so that each can run anywhere: pacing and
//! the RTT run in eBPF, all of them in the daemon and in the library's userspace datapath.

pub mod burst;
mod dctcp;
mod frugal;
pub mod lane;
pub mod pacing;
mod pi;
mod polite;
pub mod queue;
pub mod rate;
mod rate_law;
pub mod rtt;
mod rules;
pub mod tlr;

pub use rate_law::RateLaw;
pub use rules::{Rule, Rules, Variant};
