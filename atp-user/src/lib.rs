//! The ATP daemon and command line.
//!
//! - `datapath` loads the eBPF programs and shares their maps;
//! - `daemon` runs the control loop over the datapath and serves the control socket;
//! - `cli` has one file per command.

pub mod cli;
pub mod daemon;
pub mod datapath;
