//! The sending host's part of a flow, without I/O: what lies between the application, the
//! [`Sender`](crate::Sender) and the socket.
//!
//! - [`Job`]: executes the application's commands, and begins, ends and reports windows.
//! - [`Lanes`]: paces, stamps, marks and counts the packets of each lane, and runs the laws. For a
//!   host without a daemon.
//! - [`PacedLane`]: one lane with its law. Its counts are in a [`LaneMemory`]: that of the
//!   library's thread, or of the kernel's programs. The simulator uses the second.
//! - [`Probers`]: probes about packets without ACKs of their own. For a host with a daemon, whose
//!   programs do the rest.
//! - [`Pacer`], [`ReadLag`] and [`ByGroup`]: what both kinds of hosts use.

mod by_group;
mod epochs;
mod job;
mod lane;
mod lane_memory;
mod lanes;
mod pacer;
mod prober;
mod read_lag;
mod thread_memory;

pub use by_group::ByGroup;
pub use epochs::SharedRing;
pub use job::{Command, Event, Job, NewMessage};
pub use lane::{Clock, LaneNews, LawInput, PacedLane};
pub use lane_memory::LaneMemory;
pub use lanes::{Handover, LaneHandover, LaneSettings, Lanes};
pub use pacer::Pacer;
pub use prober::{Probe, Probers};
pub use read_lag::ReadLag;
