//! ATP over hundreds of simulated hosts, beside other transports.
//!
//! A packet-level simulator of discrete events. What it shows of ATP is what runs in the kernel and in
//! the library: the state machines of atp-proto and the laws of atp-common, unchanged.
//!
//! - [`engine`]: events in the order of their time, which is in picoseconds.
//! - [`net`]: packets, ports, switches, topologies.
//! - [`host`]: the ends of flows, and the line that they share.
//! - [`scheme`]: what the ends do; one file or folder per transport.
//! - [`workload`]: what applications send.
//! - [`waste`]: what became of the data that senders put on their lines.
//! - [`simulation`]: all of it together.
//! - [`experiment`]: one point of a figure, from a description to its numbers.
//! - [`figures`]: the paper's figures, run on all cores ([`parallel`]).
//! - [`map`]: where one scheme is done sooner than another.
//! - [`files`]: written as a whole or not at all.

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
pub mod scheme;
pub mod simulation;
pub mod waste;
pub mod workload;
