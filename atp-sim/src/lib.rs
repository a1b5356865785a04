//! A packet-level, discrete-event simulator of ATP and other transports.
//!
//! ATP runs here with the state machines of atp-proto and the laws of atp-common, unchanged. The
//! kernel and the library use the same code.
//!
//! From the lowest layer to the highest:
//!
//! - [`engine`]: the event calendar. Time is in picoseconds.
//! - [`net`]: packets, ports, switches and topologies.
//! - [`scheme`]: the transports, one folder each.
//! - [`host`]: the endpoints of a host, and the line that they share.
//! - [`waste`]: accounts for the bytes that senders spend.
//! - [`simulation`]: a network with its hosts and flows.
//! - [`workload`]: the messages that applications send.
//! - [`experiment`]: one point of a figure, from its description to its results.
//! - [`runs`]: runs points on all cores, and keeps their results in a file.
//! - [`figures`]: the paper's figures.
//! - [`map`]: maps of where one scheme completes jobs faster than another.
//!
//! [`parallel`], [`files`] and [`statistics`] are helpers: work on all cores, atomic writes, and
//! means with their intervals.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod engine;
pub mod experiment;
pub mod figures;
pub mod files;
pub mod host;
pub mod map;
pub mod net;
pub mod parallel;
pub mod runs;
pub mod scheme;
pub mod simulation;
pub mod statistics;
pub mod waste;
pub mod workload;
