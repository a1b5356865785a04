//! The ATP daemon and command line.
//!
//! - `daemon` runs the control loop over the datapath (crate `atp-datapath`) and serves the control
//!   socket;
//! - `doctor` checks whether this host, and the path to a peer, have what ATP needs;
//! - `metrics` serves the daemon's state to Prometheus;
//! - `logging` sends log lines to the journal or to standard error;
//! - `signals` says which signals were ignored at the start;
//! - `cli` has one file per command.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
pub mod daemon;
pub mod doctor;
mod logging;
pub mod metrics;
mod signals;
