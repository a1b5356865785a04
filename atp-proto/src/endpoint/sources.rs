//! The table of known senders, by address, job and cookie. Their number is bounded.
//!
//! A source address proves nothing, so strangers must not be able to fill the table. No address
//! gets all places ([`Places`]). A newcomer without a place replaces a sender whose job has ended,
//! or else a silent one: first of addresses with more than a quarter of the places, then the one
//! that has delivered least. Senders that still send are never replaced.

use super::{
    Ends, Lanes, PeerIp,
    candidates::{Candidates, SEARCH_NS},
    places::{Network, Places},
    source::{Source, SourceKey},
    tombstones::{Tombstone, Tombstones},
};
use crate::{Budget, ReceiverConfig, StatedEnd};
use atp_common::wire::{Header, ResetReason};
use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Which senders are admitted.
#[derive(Clone)]
pub struct Admission {
    /// The most senders at once.
    pub sources_max: usize,
    /// The memory of all senders together, bytes; at least
    /// [`ReceiverConfig::budget_bytes_min`].
    pub memory_bytes_max: u64,
    /// The jobs that are admitted; empty for any.
    pub jobs: HashSet<u32>,
    /// The addresses that are admitted; empty for any.
    pub peers: HashSet<PeerIp>,
    /// The limits of each sender.
    pub transport: ReceiverConfig,
    /// A random number that strangers don't know: they must not choose whose RESETs are limited.
    pub secret: u64,
}

impl Admission {
    /// All jobs and addresses, with the limits of a receiving library.
    pub fn new(secret: u64) -> Self {
        Self {
            sources_max: 256,
            memory_bytes_max: 256 << 20,
            jobs: HashSet::new(),
            peers: HashSet::new(),
            transport: ReceiverConfig::default(),
            secret,
        }
    }

    /// Whether a sender is one of those that the application named.
    fn wants(&self, key: &SourceKey) -> bool {
        let peers = [PeerIp::from(key.address), key.address.ip().into()];
        (self.jobs.is_empty() || self.jobs.contains(&key.job))
            && (self.peers.is_empty() || peers.iter().any(|peer| self.peers.contains(peer)))
    }
}

/// The result of looking up or admitting the sender of a packet.
pub enum Admitted<'a, L> {
    /// The sender is in the table.
    Here(&'a mut Source<L>),
    /// The sender was in the table before.
    Gone(Tombstone),
    /// The sender is not admitted.
    Refused(ResetReason),
}

/// Tombstones kept per sender that the table may hold.
const TOMBSTONES_PER_SOURCE: usize = 4;

/// The table of known senders.
pub struct Sources<L> {
    admission: Admission,
    sources: Vec<Source<L>>,
    index: HashMap<SourceKey, usize>,
    /// The sender of the last packet: most packets come from the same sender as the one before.
    last: usize,
    /// The number of the run that was admitted last.
    last_run: u64,
    /// Ended jobs whose senders may still repeat their FIN.
    lingering: Tombstones,
    /// Ended jobs whose packets may still come, from a slow path or replayed by a stranger. They
    /// must not look like a new job.
    ended: Tombstones,
    /// Senders that fell silent before their job's end, and may come back.
    forgotten: Tombstones,
    evicted: u64,
    places: Places,
    candidates: Candidates,
    /// When memory is searched for next, if there is none.
    memory_search_due_ns: u64,
}

impl<L: Lanes> Sources<L> {
    pub fn new(admission: Admission, budget: Arc<Budget>) -> Self {
        let tombstones_max = admission.sources_max.saturating_mul(TOMBSTONES_PER_SOURCE);
        let lingering = Tombstones::new(tombstones_max, admission.transport.linger_ns);
        let forgotten = Tombstones::new(tombstones_max, admission.transport.silence_ns);
        let ended = Tombstones::new(tombstones_max, admission.transport.silence_ns);
        Self {
            places: Places::new(admission.sources_max, budget),
            admission,
            sources: Vec::new(),
            index: HashMap::new(),
            last: 0,
            last_run: 0,
            lingering,
            ended,
            forgotten,
            evicted: 0,
            candidates: Candidates::default(),
            memory_search_due_ns: 0,
        }
    }

    /// The sender of a packet, if it is in the table.
    pub fn find(&mut self, address: SocketAddr, header: &Header) -> Option<&mut Source<L>> {
        let index = *self.index.get(&SourceKey::new(address, header))?;
        self.sources.get_mut(index)
    }

    /// The number of known senders.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// The number of senders evicted before their job's end, to make room for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The memory that all senders hold, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.places.memory_bytes()
    }

    /// A job has ended: its place may be taken.
    pub fn note_ended(&mut self, key: SourceKey) {
        self.candidates.add_ended(key, 2 * self.admission.sources_max);
    }

    /// Frees memory after a packet of `refused` found no room. Drops the incomplete messages of all
    /// senders that seem to be abandoned. Then evicts the run of the same address that holds most,
    /// if its job has ended, or if it is an earlier run of the same job that has fallen silent:
    /// such a run has crashed, and sends no end. Looks at every sender, so not after each packet.
    pub fn free_memory(&mut self, now_ns: u64, refused: &SourceKey) {
        if now_ns < self.memory_search_due_ns {
            return;
        }
        self.memory_search_due_ns = now_ns + SEARCH_NS;
        for source in &mut self.sources {
            source.transport.drop_abandoned(now_ns);
        }
        let is_earlier_run = |source: &Source<L>| {
            PeerIp::from(source.key.address) == refused.address.into()
                && source.key != *refused
                && (source.key.job == refused.job || source.transport.is_finished())
                && source.memory_bytes() > 0
                && source.may_be_evicted(now_ns)
        };
        let earlier_runs = self.sources.iter().enumerate().filter(|(_, s)| is_earlier_run(s));
        if let Some((index, _)) = earlier_runs.max_by_key(|(_, source)| source.memory_bytes()) {
            self.evict(now_ns, index);
        }
    }

    /// All senders.
    pub fn iter(&self) -> impl Iterator<Item = &Source<L>> {
        self.sources.iter()
    }

    /// All senders.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Source<L>> {
        self.sources.iter_mut()
    }

    /// Whether a packet is of a job that has ended.
    pub fn has_ended(&mut self, now_ns: u64, address: SocketAddr, header: &Header) -> bool {
        if let Some(source) = self.find(address, header) {
            return source.transport.is_finished();
        }
        let tombstone = self.tombstone(now_ns, &SourceKey::new(address, header));
        matches!(tombstone, Some(Tombstone::Ended { .. }))
    }

    /// How long ago the last FIN came of the ended jobs whose sender may not know of the end. Jobs
    /// of which no message was delivered don't count: any host can send a FIN.
    pub fn newest_unknown_end_ns(&self, now_ns: u64) -> Option<u64> {
        let delivered = self.sources.iter().filter(|source| source.delivered() > 0);
        let here = delivered.filter_map(|source| source.transport.unknown_end_age_ns(now_ns));
        here.chain(self.lingering.newest_age_ns(now_ns)).min()
    }

    /// The sender of an ended job, no longer in the table, repeated its FIN.
    pub fn note_fin(&mut self, now_ns: u64, key: &SourceKey) {
        self.lingering.renew(now_ns, key);
    }

    /// The sender of an ended job, no longer in the table, knows of the end.
    pub fn forget_unknown_end(&mut self, key: &SourceKey) {
        // Without a tombstone there is nothing to forget.
        let _ = self.lingering.remove(key);
    }

    /// The ends that may have to be stated again to senders that left the table, and where the
    /// answers come from and go to.
    pub fn lingering_ends(&self) -> impl Iterator<Item = (Ends, &StatedEnd)> {
        self.lingering.iter().filter_map(|(key, tombstone)| match tombstone {
            &Tombstone::Ended { ref end, local } => {
                Some((Ends { source: key.address, local }, end))
            }
            Tombstone::Forgotten => None,
        })
    }

    /// Whether the first receipts to new senders say that this host gives advice.
    pub fn set_gives_advice(&mut self, gives_advice: bool) {
        self.admission.transport.gives_advice = gives_advice;
    }

    /// The sender of a packet. Admits it if it is new.
    pub fn admit(&mut self, now_ns: u64, ends: Ends, header: &Header) -> Admitted<'_, L> {
        let key = SourceKey::new(ends.source, header);
        if self.sources.get(self.last).is_none_or(|source| source.key != key) {
            self.last = match self.index.get(&key) {
                Some(index) => *index,
                None => match self.tombstone(now_ns, &key) {
                    Some(tombstone) => return Admitted::Gone(tombstone),
                    None => match self.add(now_ns, key, ends.local, header) {
                        Ok(index) => index,
                        Err(reason) => return Admitted::Refused(reason),
                    },
                },
            };
        }
        Admitted::Here(&mut self.sources[self.last])
    }

    fn tombstone(&self, now_ns: u64, key: &SourceKey) -> Option<Tombstone> {
        let mut lists = [&self.lingering, &self.ended, &self.forgotten].into_iter();
        lists.find_map(|list| list.find(now_ns, key)).cloned()
    }

    fn add(
        &mut self,
        now_ns: u64,
        key: SourceKey,
        local: Option<IpAddr>,
        first: &Header,
    ) -> Result<usize, ResetReason> {
        if !self.admission.wants(&key) {
            return Err(ResetReason::NotWanted);
        }
        let network = Network::of(key.address);
        if !self.places.has_room(network) && !self.make_room(now_ns, network) {
            return Err(ResetReason::NoRoom);
        }
        let share = self.places.take(network);
        self.last_run += 1;
        let (run, config) = (self.last_run, self.admission.transport);
        self.sources.push(Source::new(key, run, local, config, now_ns, first, share));
        self.index.insert(key, self.sources.len() - 1);
        Ok(self.sources.len() - 1)
    }

    /// Evicts a sender to make room for one of `newcomer`: first those whose job has ended, then
    /// those of addresses with many senders, then by [`Source::eviction_rank`]. Returns `false` if
    /// none is known that may be evicted. An address with many senders can replace its own only.
    fn make_room(&mut self, now_ns: u64, newcomer: Network) -> bool {
        let own = self.places.is_large(newcomer).then_some(newcomer);
        if self.evict_a_candidate(now_ns, own) {
            return true;
        }
        if !self.candidates.is_search_due(now_ns) {
            return false;
        }
        self.search_candidates(now_ns);
        self.evict_a_candidate(now_ns, own)
    }

    fn search_candidates(&mut self, now_ns: u64) {
        let may_be_evicted = self.sources.iter().filter(|source| source.may_be_evicted(now_ns));
        let mut found: Vec<_> = may_be_evicted
            .map(|source| {
                let (is_running, delivered, received_ns) = source.eviction_rank();
                let is_small = !self.places.is_large(source.network());
                ((is_running, is_small, delivered, received_ns), source.key)
            })
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        self.candidates.set(now_ns, found.into_iter().map(|(_, key)| key));
    }

    fn evict_a_candidate(&mut self, now_ns: u64, network: Option<Network>) -> bool {
        while let Some(key) = self.candidates.pop(network) {
            let index = self.index.get(&key).copied();
            let index = index.filter(|&index| self.sources[index].may_be_evicted(now_ns));
            if let Some(index) = index {
                self.evict(now_ns, index);
                return true;
            }
        }
        false
    }

    /// Forgets the sender of a run whose job has not ended. Its later packets are refused.
    pub fn forget(&mut self, now_ns: u64, run: u64) {
        let is_of_run = |source: &Source<L>| source.run == run && !source.transport.is_finished();
        if let Some(index) = self.sources.iter().position(is_of_run) {
            let source = self.remove(index);
            self.forgotten.insert(now_ns, source.key, Tombstone::Forgotten);
        }
    }

    fn remove(&mut self, index: usize) -> Source<L> {
        let source = self.sources.swap_remove(index);
        self.places.give_back(source.network());
        self.index.remove(&source.key);
        if let Some(moved) = self.sources.get(index) {
            self.index.insert(moved.key, index);
        }
        source
    }

    /// Removes a sender that may be evicted.
    fn evict(&mut self, now_ns: u64, index: usize) {
        debug_assert!(self.sources[index].may_be_evicted(now_ns));
        let source = self.remove(index);
        let delivered = source.delivered();
        if let Some(end) = source.transport.stated_end() {
            // A sender that delivered nothing needs no tombstone: as a new one it gets the same
            // answer.
            if delivered > 0 {
                let unknown_for_ns = source.transport.unknown_end_age_ns(now_ns);
                let tombstone = Tombstone::Ended { end: end.clone(), local: source.local };
                self.ended.insert(now_ns, source.key, tombstone.clone());
                if let Some(age_ns) = unknown_for_ns {
                    let fin_ns = now_ns.saturating_sub(age_ns);
                    self.lingering.insert_since(now_ns, fin_ns, source.key, tombstone);
                }
            }
            return;
        }
        self.evicted += 1;
        let job = source.key.job;
        tracing::info!(
            job,
            source = %source.key.address,
            delivered,
            "evicted a silent sender to make room for another"
        );
        // A sender that delivered nothing loses nothing, and may come back as a new one.
        if delivered > 0 {
            self.forgotten.insert(now_ns, source.key, Tombstone::Forgotten);
        }
    }

    /// Removes senders whose job has ended or that have been silent for too long, and tombstones
    /// that are no longer needed.
    pub fn expire(&mut self, now_ns: u64) {
        self.lingering.expire(now_ns);
        self.ended.expire(now_ns);
        self.forgotten.expire(now_ns);
        let (ended, forgotten, places) = (&mut self.ended, &mut self.forgotten, &mut self.places);
        let before = self.sources.len();
        self.sources.retain_mut(|source| {
            let expired = source.transport.expired(now_ns);
            if expired
                && source.delivered() > 0
                && let Some(end) = source.transport.stated_end()
            {
                let tombstone = Tombstone::Ended { end: end.clone(), local: source.local };
                ended.insert(now_ns, source.key, tombstone);
            }
            if expired && !source.transport.is_finished() {
                if source.delivered() > 0 {
                    forgotten.insert(now_ns, source.key, Tombstone::Forgotten);
                }
                let (job, delivered) = (source.key.job, source.delivered());
                tracing::info!(
                    job,
                    source = %source.key.address,
                    delivered,
                    "forgot a sender that was silent for too long before its job's end"
                );
            }
            if expired {
                places.give_back(source.network());
            }
            !expired
        });
        if self.sources.len() != before {
            self.last = 0;
            self.index.clear();
            self.index.extend(self.sources.iter().enumerate().map(|(index, s)| (s.key, index)));
        }
    }
}

#[cfg(test)]
mod tests;
