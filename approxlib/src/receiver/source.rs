//! One known sender: a run of a job at one address, with its transport's state.

use super::fin_acks::FinAcks;
use atp_common::{maps::arrivals::Arrivals, wire::Header};
use atp_proto::Receiver as Transport;
use std::{collections::HashMap, net::SocketAddr};

/// The idle limit of a sender that delivered nothing. A sender repeats an unanswered packet once a
/// second, and one repetition can be lost.
const IDLE_LIMIT_NS: u64 = 2_000_000_000;
/// The idle limit grows by this with each doubling of the delivered messages. Evicting a sender
/// that has delivered more loses more, and a stranger has to deliver more to get the same limit.
const IDLE_LIMIT_STEP_NS: u64 = 1_000_000_000;

/// Identifies a run of a job at one sender. A restarted job has another cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceKey {
    /// The sender's address.
    pub address: SocketAddr,
    /// The job's id.
    pub job: u32,
    /// The sender's secret.
    pub cookie: u32,
}

impl SourceKey {
    pub fn new(address: SocketAddr, header: &Header) -> Self {
        Self { address, job: header.job(), cookie: header.cookie() }
    }
}

/// A known sender.
pub struct Source {
    pub key: SourceKey,
    pub transport: Transport,
    /// The first header from this sender, which names its job and cookie in a RESET.
    pub first: Header,
    /// The last answers to its FIN, to be repeated.
    pub fin_acks: FinAcks,
    /// Arrivals of packets without ACKs, for answers to probes, by group. Kept only while this
    /// process acknowledges.
    pub arrivals: HashMap<u8, Box<Arrivals>>,
}

impl Source {
    pub fn new(key: SourceKey, transport: Transport, first: Header) -> Self {
        Self { key, transport, first, fin_acks: FinAcks::default(), arrivals: HashMap::new() }
    }

    /// The number of messages that this sender has delivered.
    pub fn delivered(&self) -> u32 {
        self.transport.stats().messages_delivered
    }

    /// Whether this sender may be evicted to make room for another: its job has ended, or it has
    /// been silent for longer than its idle limit.
    pub fn may_be_evicted(&self, now_ns: u64) -> bool {
        let doublings = u64::from(u32::BITS - self.delivered().leading_zeros());
        let idle_limit_ns = IDLE_LIMIT_NS + doublings * IDLE_LIMIT_STEP_NS;
        let silence_ns = now_ns.saturating_sub(self.transport.heard_ns());
        self.transport.is_finished() || silence_ns >= idle_limit_ns
    }

    /// The order of eviction: senders whose job has ended, then those that delivered least, then
    /// those that have been silent longest.
    pub fn eviction_rank(&self) -> (bool, u32, u64) {
        (!self.transport.is_finished(), self.delivered(), self.transport.heard_ns())
    }
}
