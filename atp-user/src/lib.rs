//! The ATP daemon and command line.
//!
//! `daemon` runs the control loop over the eBPF `datapath`;
//! `cli` is what a person types.

pub mod cli;
pub mod daemon;
pub mod datapath;
