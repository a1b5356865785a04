//! One known sender: a run of a job at one address, with its transport's state.

use super::{Ends, Event, EventKind, Lanes, canonical, places::Network};
use crate::{Account, Part, Receiver as Transport, ReceiverConfig, Share};
use atp_common::{
    maps::arrivals::{self, Arrivals, Run},
    wire::{Advice, Header},
};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

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
pub struct Source<L> {
    pub key: SourceKey,
    /// The number of the run: see [`Event::run`].
    pub run: u64,
    pub transport: Transport,
    /// The first header from this sender, which names its job and cookie in a RESET.
    pub first: Header,
    /// The sender's lanes, as the host keeps them.
    pub lanes: L,
    /// The local address of its packets.
    pub local: Option<IpAddr>,
    /// Arrivals of packets without ACKs, for answers to probes, by group. Kept only while this
    /// endpoint acknowledges.
    arrivals: HashMap<u8, Box<Arrivals>>,
    /// The memory of `arrivals`.
    arrivals_account: Account,
}

impl<L> Source<L> {
    /// The sender of the packet with the header `first`, at an address with this `share` of the
    /// memory. `local`: the address to which it sends.
    pub fn new(
        key: SourceKey,
        run: u64,
        local: Option<IpAddr>,
        config: ReceiverConfig,
        now_ns: u64,
        first: &Header,
        share: Arc<Share>,
    ) -> Self
    where
        L: Default,
    {
        Self {
            key,
            run,
            transport: Transport::with_share(config, now_ns, first, Some(share.clone())),
            first: *first,
            lanes: L::default(),
            local,
            arrivals: HashMap::new(),
            arrivals_account: Account::new(Some(share), Part::Records),
        }
    }

    /// Where its answers come from and go to.
    pub fn ends(&self) -> Ends {
        Ends { source: self.key.address, local: self.local }
    }

    /// The sender's address, as events have it.
    pub fn address(&self) -> SocketAddr {
        canonical(self.key.address)
    }

    /// An event of this run.
    pub fn event(&self, kind: EventKind) -> Event {
        Event { source: self.address(), job: self.key.job, run: self.run, kind }
    }

    /// The address that its place and memory belong to.
    pub fn network(&self) -> Network {
        Network::of(self.key.address)
    }

    /// Records the arrival of packets of a group, for answers to probes. Returns `false` if there
    /// is no memory for the record.
    pub fn record(&mut self, group: u8, run: &Run) -> bool {
        const BYTES: u64 = size_of::<Arrivals>() as u64;
        if !self.arrivals.contains_key(&group) {
            if !self.arrivals_account.fits(BYTES) {
                return false;
            }
            self.arrivals_account.take(BYTES);
        }
        arrivals::record(&mut **self.arrivals.entry(group).or_default(), run);
        true
    }

    /// The recorded arrivals of a group.
    pub fn arrivals(&self, group: u8) -> Option<&Arrivals> {
        self.arrivals.get(&group).map(|arrivals| &**arrivals)
    }

    /// The memory that it holds of its address's share, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.transport.memory_bytes() + self.arrivals_account.bytes()
    }

    /// The number of messages that this sender has delivered.
    pub fn delivered(&self) -> u64 {
        self.transport.stats().messages_delivered
    }

    /// Whether this sender may be evicted to make room for another: its job has ended, or it has
    /// been silent for longer than its idle limit.
    pub fn may_be_evicted(&self, now_ns: u64) -> bool {
        let doublings = u64::from(u64::BITS - self.delivered().leading_zeros());
        let idle_limit_ns = IDLE_LIMIT_NS + doublings * IDLE_LIMIT_STEP_NS;
        let silence_ns = now_ns.saturating_sub(self.transport.received_ns());
        self.transport.is_finished() || silence_ns >= idle_limit_ns
    }

    /// The order of eviction: senders whose job has ended, then those that delivered least, then
    /// those that have been silent longest.
    pub fn eviction_rank(&self) -> (bool, u64, u64) {
        (!self.transport.is_finished(), self.delivered(), self.transport.received_ns())
    }
}

impl<L: Lanes> Source<L> {
    /// Gives the advice that has changed to the transport.
    pub fn take_advice(&mut self) {
        self.lanes.take_advice(|group, advice| self.transport.set_advice(group, advice));
    }

    /// Ends the advice to its lanes.
    pub fn end_advice(&mut self) {
        for group in self.lanes.clear() {
            self.transport.set_advice(group, Advice::NONE);
        }
    }
}
