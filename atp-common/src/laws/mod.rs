//! The control laws, one file each. They use fixed point and no clock, so each can run anywhere: in
//! eBPF, in the daemon, and in the library's userspace datapath.

pub mod advice;
pub mod backlog;
pub mod burst;
pub mod first_window;
pub mod lane;
pub mod pacing;
pub mod path_delay;
pub mod queue;
pub mod rate;
pub mod rtt;
mod rules;
mod sample;
pub mod small_job;
pub mod tlr;
pub mod urgency;
pub mod yielding;

pub use rate::RateLaw;
pub use rules::{Rule, Rules, Variant};
