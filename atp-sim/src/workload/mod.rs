//! The messages that applications send: their sizes and times.

mod all_reduce;
mod arrivals;
mod background;
mod coflow;
mod sizes;
mod trace;

pub use all_reduce::{Purpose, Shape, Transfer};
pub use arrivals::{Arrivals, Gaps, sampled};
pub use background::{Background, Between, Interval, PAYLOAD_BYTES_MAX};
pub use coflow::{Coflow, Coflows, Scale};
pub use sizes::Sizes;
pub use trace::{Trace, TraceJob};

/// The limit of hosts in a network or trace.
pub const HOSTS_MAX: u32 = 10_000;
