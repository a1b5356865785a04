//! Common arguments and output lines of the senders and receivers.

use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A sender that doesn't use the library.
#[derive(clap::Args)]
pub struct Stream {
    #[arg(long)]
    pub to: SocketAddr,
    /// Bytes of one packet's payload, or of one write
    #[arg(long)]
    pub bytes: usize,
    #[arg(long)]
    pub seconds: f64,
}

/// A receiver that doesn't use the library.
#[derive(clap::Args)]
pub struct Sink {
    #[arg(long)]
    pub at: SocketAddr,
    /// UDP: poll with short sleeps instead of waiting for the next packet
    #[arg(long)]
    pub nap: bool,
}

/// A daemon's control socket, or none.
#[derive(clap::Args)]
pub struct Control {
    /// The daemon's socket [default: none, the userspace datapath]
    #[arg(long)]
    pub control: Option<PathBuf>,
}

impl Control {
    /// The datapath that the library must report. Another one would be another measurement.
    pub fn wanted_datapath(&self) -> &'static str {
        if self.control.is_some() { "ebpf" } else { "userspace" }
    }
}

/// The first line of a receiver: the address that it listens at.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    pub at: SocketAddr,
}

/// Prints the address to send to.
pub fn print_ready(at: SocketAddr) -> Result<()> {
    print_line(&Ready { at })
}

/// Prints a line of JSON.
pub fn print_line(line: &impl Serialize) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush().context("the benchmark that started this process has ended")
}
