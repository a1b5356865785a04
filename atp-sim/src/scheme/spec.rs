//! The description of a scheme: everything that the rest of the simulator knows about it.

use super::{Endpoint, Feature, Features, LawChoice, Route};
use crate::net::{HostId, PortQueues, Unit};
use atp_common::{laws::Variant, units::Msr};
use std::fmt;
use switch_profiles::Profile;

/// A color: red, green, blue.
pub type Color = [u8; 3];

/// The sender and the receiver of a flow.
pub type Ends = (Box<dyn Endpoint>, Box<dyn Endpoint>);

/// ECN threshold in packets for DCTCP (NetApprox §7.1). It also applies to exact jobs beside other
/// schemes.
pub const ECN_THRESHOLD_PACKETS: u32 = 65;

/// A scheme.
pub struct Spec {
    /// The name in texts.
    pub title: &'static str,
    /// A noun phrase for help texts.
    pub description: &'static str,
    /// Names on the command line and in figures, one for each policy of its senders.
    pub names: &'static [(&'static str, Policy)],
    /// Color in figures.
    pub color: Color,
    /// Colors of the variants of the paper's protocol.
    pub variant_colors: &'static [(Variant, Color)],
    /// Whether a name may continue with `:VARIANT:LAW:-RULE`, see [`LawChoice`].
    pub takes_laws: bool,
    /// The features that may follow the name, each after a colon.
    pub features: &'static [Feature],
    /// Whether senders learn from their receivers that the job is complete. The simulator tells the
    /// senders of other schemes at once, which favors those schemes.
    pub stops_by_itself: bool,
    /// Whether the scheme's packets wait in the buffer that the ports of a switch share.
    pub shares_buffer: bool,
    /// Whether every packet takes its own path, unless the experiment chooses otherwise.
    pub sprays: bool,
    /// The queues of the scheme's switches, for its environment and choices.
    pub queues: fn(&Environment<'_>, Choices) -> PortQueues,
    /// The ends of a flow, for its route, environment, choices and total number of messages.
    pub ends: fn(Route, &Environment<'_>, Choices, u32) -> Ends,
}

/// The words that follow a scheme's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The control laws.
    pub laws: LawChoice,
    /// The features.
    pub features: Features,
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.title == other.title
    }
}

impl Eq for Spec {}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title)
    }
}

/// The choice of messages to send, if the sender has more than its job needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// All messages, until enough have arrived (NetApprox §2.2's EarlySend).
    #[default]
    EarlySend,
    /// A sample of exactly the needed number of messages, drawn in advance (SampleSend).
    SampleSend,
}

/// The part of a point that schemes depend on: the network and some settings.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// The network.
    pub network: &'a dyn Network,
    /// Rate of every line.
    pub bits_per_s: u64,
    /// Buffer that the ports of a switch share.
    pub buffer_bytes: u64,
    /// The queues of switches for ATP.
    pub profile: &'a Profile,
    /// The unit of the profile's limits.
    pub unit: Unit,
    /// Minimal sampling rate of every job.
    pub msr: Msr,
    /// Assumed timer granularity of the senders' hosts.
    pub timer_granularity_ns: u64,
    /// Delay of a receipt, which lets it cover more messages.
    pub receipt_delay_ns: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// A network's paths and delays.
pub trait Network {
    /// Round-trip time of a packet of `there_bytes` on the wire and an answer of `back_bytes`,
    /// between the most distant hosts, with empty queues.
    fn round_trip_ps(&self, there_bytes: u32, back_bytes: u32) -> u64;

    /// One path number for each path between two hosts.
    fn paths(&self, from: HostId, to: HostId) -> Vec<u32>;
}

impl Environment<'_> {
    /// See [`Network::round_trip_ps`]. The argument is the pair of lengths.
    pub fn round_trip_ps(&self, (there_bytes, back_bytes): (u32, u32)) -> u64 {
        self.network.round_trip_ps(there_bytes, back_bytes)
    }
}
