//! The schemes that are compared, one per file. A new scheme implements [`Scheme`].

mod atp;
mod tcp;
mod tcp_early_send;
mod tcp_sample_send;
mod udp;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;

use super::accepted::Accepted;
use super::control::Control;
use super::messages::{Messages, dealt_to, needed};
use super::protocol::{JobSpec, SenderReport};
use super::scheme_name::SchemeName;

/// Both ends of a scheme. Each end runs in its own process, calls [`Control::ready`] once it is
/// prepared, and waits for the start.
pub trait Scheme {
    fn receive(&self, setup: &ReceiverSetup, control: &mut Control) -> Result<Received>;

    fn send(&self, setup: &SenderSetup, control: &mut Control) -> Result<SenderReport>;
}

/// The parameters of a receiver.
pub struct ReceiverSetup<'a> {
    pub job: &'a JobSpec,
    pub messages: &'a Messages,
    /// The host's address.
    pub bind: IpAddr,
    /// The control socket of the host's daemon, if it has one.
    pub control_socket: Option<PathBuf>,
    /// The rate of the host's line, bytes per second on the wire.
    pub line_rate_bytes_per_s: u64,
    /// The packets that an approximate queue of the switch's port to the host holds.
    pub queue_depth_packets: u32,
}

/// The parameters of a sender.
pub struct SenderSetup<'a> {
    pub job: &'a JobSpec,
    pub messages: &'a Messages,
    /// The sender's index.
    pub sender: usize,
    pub receiver: SocketAddr,
    /// The control socket of the host's daemon, if it has one.
    pub control_socket: Option<PathBuf>,
}

/// The result of a job at its receiver.
pub struct Received {
    /// The instant when the scheme knew that it had the messages it needs, on the shared clock.
    pub ended_ns: u64,
    /// The delivered messages with their indices.
    pub messages: Vec<(usize, Vec<u8>)>,
    /// None if only the sender can count them.
    pub packets_arrived: Option<u64>,
    /// If the receiver asked for as much as an accepted error needs.
    pub accepted: Option<Accepted>,
}

impl SchemeName {
    pub fn scheme(self) -> &'static dyn Scheme {
        match self {
            SchemeName::Atp | SchemeName::AtpReceiverAlone | SchemeName::AtpPaper => &atp::Atp,
            SchemeName::TcpEarlySend => &tcp_early_send::TcpEarlySend,
            SchemeName::TcpSampleSend => &tcp_sample_send::TcpSampleSend,
            SchemeName::Udp => &udp::Udp,
        }
    }
}

impl ReceiverSetup<'_> {
    fn senders(&self) -> usize {
        self.job.sources.len()
    }

    /// The rate of the host's line that the library may divide; 0 for no advice.
    fn advised_rate_bytes_per_s(&self) -> u64 {
        if self.job.scheme.gives_advice() { self.line_rate_bytes_per_s } else { 0 }
    }

    fn needed(&self) -> usize {
        needed(self.job.msr, self.messages.count())
    }
}

impl SenderSetup<'_> {
    /// The indices of this sender's messages.
    fn dealt(&self) -> impl Iterator<Item = usize> {
        dealt_to(self.sender, self.job.sources.len(), self.messages.count())
    }
}
