//! The sending host's part of a flow, without I/O: what lies between the application, the
//! [`Sender`](crate::Sender) and the socket.
//!
//! - [`Job`]: executes the application's commands, and begins, ends and reports windows.
//! - [`Lanes`]: paces, stamps, marks and counts the packets of each lane, and runs the laws. For a
//!   host without a daemon.
//! - [`Probers`]: probes about packets without ACKs of their own. For a host whose daemon's programs
//!   do the rest.
//! - [`Pacer`], [`ReadLag`] and [`ByGroup`]: what both kinds of hosts use.

mod by_group;
mod epochs;
mod job;
mod lanes;
mod pacer;
mod prober;
mod read_lag;

pub use by_group::ByGroup;
pub use epochs::SharedRing;
pub use job::{Command, Event, Job, NewMessage};
pub use lanes::{Clock, Handover, LaneHandover, LaneSettings, Lanes};
pub use pacer::Pacer;
pub use prober::{Probe, Probers};
pub use read_lag::ReadLag;
