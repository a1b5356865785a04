//! The table of known senders, by address, job and cookie. Their number is bounded.
//!
//! A source address proves nothing, so strangers must not be able to fill the table. No address
//! gets all places ([`Places`]). A newcomer without a place replaces a sender whose job has ended,
//! or else a silent one, beginning with the one that has delivered least. Senders that still send
//! are never replaced.

use super::{
    places::{Network, Places},
    source::{Source, SourceKey},
    tombstones::{Tombstone, Tombstones},
};
use crate::{address::ScopedIp, udp::Ends};
use atp_common::wire::{Header, ResetReason};
use atp_proto::{ReceiverConfig, StatedEnd};
use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
};

/// Which senders are admitted.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The most senders at once.
    pub sources_max: usize,
    /// The memory of all senders together, bytes.
    pub memory_bytes_max: u64,
    /// The jobs that are admitted; empty for any.
    pub jobs: HashSet<u32>,
    /// The addresses that are admitted; empty for any.
    pub peers: HashSet<ScopedIp>,
    /// The limits of each sender.
    pub transport: ReceiverConfig,
}

impl Admission {
    /// Whether a sender is one of those that the application named.
    fn wants(&self, key: &SourceKey) -> bool {
        let peers = [ScopedIp::from(key.address), key.address.ip().into()];
        (self.jobs.is_empty() || self.jobs.contains(&key.job))
            && (self.peers.is_empty() || peers.iter().any(|peer| self.peers.contains(peer)))
    }
}

/// The result of looking up or admitting the sender of a packet.
pub enum Admitted<'a> {
    /// The sender is in the table.
    Here(&'a mut Source),
    /// The sender was in the table before.
    Gone(Tombstone),
    /// The sender is not admitted.
    Refused(ResetReason),
}

/// Tombstones kept per sender that the table may hold.
const TOMBSTONES_PER_SOURCE: usize = 4;

/// The table of known senders.
pub struct Sources {
    admission: Admission,
    sources: Vec<Source>,
    index: HashMap<SourceKey, usize>,
    /// The sender of the last packet: most packets come from the same sender as the one before.
    last: usize,
    /// Ended jobs whose senders may still repeat their FIN.
    lingering: Tombstones,
    /// Ended jobs whose packets may still come, from a slow path or replayed by a stranger. They
    /// must not look like a new job.
    ended: Tombstones,
    /// Senders that fell silent before their job's end, and may come back.
    forgotten: Tombstones,
    evicted: u64,
    places: Places,
    /// When abandoned messages are searched for next, if there is no memory.
    search_due_ns: u64,
}

/// The interval of searches for abandoned messages: each looks at every sender.
const SEARCH_NS: u64 = 10_000_000;

impl Sources {
    pub fn new(admission: Admission) -> Self {
        let tombstones_max = admission.sources_max.saturating_mul(TOMBSTONES_PER_SOURCE);
        let lingering = Tombstones::new(tombstones_max, admission.transport.linger_ns);
        let forgotten = Tombstones::new(tombstones_max, admission.transport.silence_ns);
        let ended = Tombstones::new(tombstones_max, admission.transport.silence_ns);
        let memory_bytes_max =
            admission.memory_bytes_max.max(admission.transport.budget_bytes_min());
        Self {
            places: Places::new(admission.sources_max, memory_bytes_max),
            admission,
            sources: Vec::new(),
            index: HashMap::new(),
            last: 0,
            lingering,
            ended,
            forgotten,
            evicted: 0,
            search_due_ns: 0,
        }
    }

    /// The sender of a packet, if it is in the table.
    pub fn find(&mut self, address: SocketAddr, header: &Header) -> Option<&mut Source> {
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

    /// Makes room in the memory after a packet of `refused` was refused for want of it. Drops the
    /// incomplete messages of all senders that seem to be abandoned. Then evicts the run of the
    /// same address that holds most, if its job has ended, or if it is an earlier run of the same
    /// job that has fallen silent: such a run has crashed, and sends no end.
    pub fn free_memory(&mut self, now_ns: u64, refused: &SourceKey) {
        if now_ns >= self.search_due_ns {
            self.search_due_ns = now_ns + SEARCH_NS;
            for source in &mut self.sources {
                source.transport.drop_abandoned(now_ns);
            }
        }
        let is_earlier_run = |source: &Source| {
            ScopedIp::from(source.key.address) == refused.address.into()
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

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Source> {
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
    pub fn admit(&mut self, now_ns: u64, ends: Ends, header: &Header) -> Admitted<'_> {
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
        self.sources.push(Source::new(key, local, self.admission.transport, now_ns, first, share));
        self.index.insert(key, self.sources.len() - 1);
        Ok(self.sources.len() - 1)
    }

    /// Evicts the first sender by eviction rank, to make room for one of `newcomer`. Among equals,
    /// addresses with many senders go first. Returns `false` if none may be evicted. An address
    /// with many senders can replace its own only.
    fn make_room(&mut self, now_ns: u64, newcomer: Network) -> bool {
        let places = &self.places;
        let may_replace_others = !places.is_large(newcomer);
        let may_be_replaced = |source: &Source| {
            (may_replace_others || source.network() == newcomer) && source.may_be_evicted(now_ns)
        };
        let candidates = self.sources.iter().enumerate().filter(|(_, s)| may_be_replaced(s));
        let first = candidates.min_by_key(|(_, source)| {
            let (is_running, delivered, heard_ns) = source.eviction_rank();
            (is_running, !places.is_large(source.network()), delivered, heard_ns)
        });
        let Some((index, _)) = first else { return false };
        self.evict(now_ns, index);
        true
    }

    /// Removes a sender that may be evicted.
    fn evict(&mut self, now_ns: u64, index: usize) {
        debug_assert!(self.sources[index].may_be_evicted(now_ns));
        let source = self.sources.swap_remove(index);
        self.places.give_back(source.network());
        self.index.remove(&source.key);
        if let Some(moved) = self.sources.get(index) {
            self.index.insert(moved.key, index);
        }
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
mod tests {
    use super::*;
    use atp_common::wire::{Fields, FinBody, FinGroup, Flags, HEADER_LEN, Kind};

    const S: u64 = 1_000_000_000;
    const SOURCES_MAX: usize = 8;

    fn sources() -> Sources {
        let transport = ReceiverConfig::default();
        Sources::new(Admission {
            sources_max: SOURCES_MAX,
            memory_bytes_max: 0,
            jobs: HashSet::new(),
            peers: HashSet::new(),
            transport,
        })
    }

    fn header(kind: Kind, cookie: u32, message: u32, count: u32) -> Header {
        header_of_job(1, kind, cookie, message, count)
    }

    fn header_of_job(job: u32, kind: Kind, cookie: u32, message: u32, count: u32) -> Header {
        Header::new(&Fields {
            kind,
            flags: Flags::NONE,
            group: 0,
            job,
            cookie,
            message,
            index: 0,
            count,
            epoch: 0,
            slot: 0,
            time: 0,
        })
    }

    /// Every cookie has an address of its own.
    fn address(cookie: u32) -> SocketAddr {
        SocketAddr::from(((0x0a00_0000 | cookie).to_be_bytes(), 1_000))
    }

    fn ends(source: SocketAddr) -> Ends {
        Ends { source, local: None }
    }

    /// Why a packet found no place: the tombstone, or `None` for want of room.
    type Rejected = Option<Tombstone>;

    fn admit(sources: &mut Sources, now_ns: u64, header: &Header) -> Result<(), Rejected> {
        admit_at(sources, now_ns, address(header.cookie()), header)
    }

    fn admit_at(
        sources: &mut Sources,
        now_ns: u64,
        address: SocketAddr,
        header: &Header,
    ) -> Result<(), Rejected> {
        match sources.admit(now_ns, ends(address), header) {
            Admitted::Here(source) => {
                source.transport.on_data(now_ns, header, &[1]);
                Ok(())
            }
            Admitted::Gone(tombstone) => Err(Some(tombstone)),
            Admitted::Refused(ResetReason::NoRoom) => Err(None),
            Admitted::Refused(reason) => panic!("{reason:?}"),
        }
    }

    /// Delivers a message of one packet.
    fn deliver(sources: &mut Sources, now_ns: u64, cookie: u32, message: u32) -> bool {
        admit(sources, now_ns, &header(Kind::Data, cookie, message, 1)).is_ok()
    }

    /// The body of a FIN of one group, all of whose messages are needed.
    fn fin_body(messages: u32) -> [u8; 20] {
        let group = FinGroup { group: 0, messages, needed: messages, delivered: 0 };
        let mut body = [0; 20];
        FinBody::write(&mut body, 0, &[group]).unwrap();
        body
    }

    /// The groups of a tombstone's answer to a FIN of one message.
    fn stated(rejected: Result<(), Rejected>, cookie: u32) -> Vec<FinGroup> {
        let Err(Some(Tombstone::Ended { end, .. })) = rejected else { panic!("{rejected:?}") };
        let (body, mut out) = (fin_body(1), [0; 100]);
        let fin = header(Kind::Fin, cookie, 1, 1);
        let len = end.answer(&fin, &FinBody::parse(&body).unwrap(), &mut out);
        let (answer, kind) = Header::parse(&out[..len]).unwrap();
        assert!(kind == Kind::FinAck && answer.flags().contains(Flags::ENDED));
        FinBody::parse(&out[HEADER_LEN..len]).unwrap().groups().collect()
    }

    fn finish(sources: &mut Sources, now_ns: u64, cookie: u32, messages: u32) {
        let header = header(Kind::Fin, cookie, messages, 1);
        let body = fin_body(messages);
        let Admitted::Here(source) = sources.admit(now_ns, ends(address(cookie)), &header) else {
            panic!()
        };
        let mut out = [0; HEADER_LEN + 20];
        source.transport.on_fin(now_ns, &header, &FinBody::parse(&body).unwrap(), &mut out);
        assert!(source.transport.is_finished());
    }

    #[test]
    fn admit__a_flood_does_not_evict_a_sender_that_sends() {
        let mut sources = sources();
        let mut admitted = 0;
        for step in 0..10_000u32 {
            let now_ns = u64::from(step) * S / 1_000;
            // This sender sends once a second.
            if step % 1_000 == 0 {
                assert!(deliver(&mut sources, now_ns, 0, step / 1_000), "at step {step}");
            }
            admitted += u32::from(deliver(&mut sources, now_ns, 1 + step, 0));
        }
        assert_eq!(sources.len(), SOURCES_MAX);
        // Every three of the ten seconds, the strangers replace each other in all entries but one.
        assert_eq!(admitted, 4 * (SOURCES_MAX as u32 - 1));
    }

    #[test]
    fn admit__evicts_strangers_after_their_idle_limit() {
        let mut sources = sources();
        for cookie in 0..SOURCES_MAX as u32 {
            assert!(deliver(&mut sources, 0, cookie, 0xff_ffff));
        }
        assert!(!deliver(&mut sources, 3 * S - 1, 100, 0));
        assert!(deliver(&mut sources, 3 * S, 100, 0));
        assert_eq!((sources.len(), sources.evicted()), (SOURCES_MAX, 1));
    }

    #[test]
    fn admit__evicts_the_sender_that_delivered_most_last() {
        let mut sources = sources();
        for cookie in 0..SOURCES_MAX as u32 {
            for message in 0..=cookie {
                assert!(deliver(&mut sources, 0, cookie, message));
            }
        }
        for cookie in 0..SOURCES_MAX as u32 {
            assert!(deliver(&mut sources, 20 * S, 100 + cookie, 0));
            let gone = header(Kind::Data, cookie, 50, 1);
            for later_s in [20, 26, 3_000] {
                let again = admit(&mut sources, later_s * S, &gone);
                assert_eq!(again, Err(Some(Tombstone::Forgotten)));
            }
        }
    }

    #[test]
    fn admit__a_sender_that_delivered_nothing_may_come_back() {
        let mut sources = sources();
        for cookie in 0..SOURCES_MAX as u32 {
            assert_eq!(admit(&mut sources, 0, &header(Kind::Data, cookie, 0, 2)), Ok(()));
        }
        assert!(deliver(&mut sources, 2 * S, 100, 0));
        assert!(deliver(&mut sources, 2 * S, 0, 0));
    }

    #[test]
    fn admit__evicts_ended_jobs_at_once_and_still_answers_them() {
        let mut sources = sources();
        for cookie in 0..100 {
            let now_ns = S + u64::from(cookie);
            assert!(deliver(&mut sources, now_ns, cookie, 0), "job {cookie}");
            finish(&mut sources, now_ns, cookie, 1);
        }
        assert_eq!((sources.len(), sources.evicted()), (SOURCES_MAX, 0));
        let again = admit(&mut sources, S, &header(Kind::Fin, 90, 1, 0));
        assert_eq!(stated(again, 90)[0].delivered, 1);
        assert_eq!(sources.lingering_ends().count(), TOMBSTONES_PER_SOURCE * SOURCES_MAX);
        // A late packet is not delivered a second time.
        assert!(!deliver(&mut sources, S, 90, 0));
        sources.expire(60 * S);
        assert!(!deliver(&mut sources, 60 * S, 90, 0));
    }

    #[test]
    fn newest_unknown_end_ns__counts_from_the_last_fin_of_an_evicted_job_too() {
        let mut sources = sources();
        for cookie in 0..SOURCES_MAX as u32 {
            assert!(deliver(&mut sources, S, cookie, 0));
            finish(&mut sources, S, cookie, 1);
        }
        assert!(deliver(&mut sources, 3 * S, 99, 0));
        assert_eq!(sources.lingering_ends().count(), 1);
        assert_eq!(sources.newest_unknown_end_ns(3 * S), Some(2 * S));
    }

    /// Packets may come long after the state is gone: replayed, or FINs of a sender that lost the
    /// answers.
    #[test]
    fn expire__packets_of_an_ended_job_begin_no_new_job() {
        let mut sources = sources();
        assert!(deliver(&mut sources, S, 7, 0));
        finish(&mut sources, S, 7, 1);
        sources.expire(7 * S);
        assert_eq!(sources.len(), 0);
        for later_s in [7, 60, 3_000] {
            assert!(!deliver(&mut sources, later_s * S, 7, 0), "after {later_s} s");
            let again = admit(&mut sources, later_s * S, &header(Kind::Fin, 7, 1, 1));
            assert_eq!(stated(again, 7).len(), 1);
        }
        // No sender waits for an answer by then.
        assert_eq!(sources.lingering_ends().count(), 0);
    }

    /// A crashed run sends no end, and its records would stay until its silence is long enough.
    #[test]
    fn free_memory__evicts_a_crashed_run_of_the_same_job_and_address_only() {
        for (own, neighbor) in [("10.9.9.9", "10.9.9.8"), ("2001:db8::9", "2001:db8::8")] {
            let mut sources = sources();
            let at = |host: &str, port| SocketAddr::new(host.parse().unwrap(), port);
            let data = |job, cookie| header_of_job(job, Kind::Data, cookie, 0, 1);
            let runs = [
                (at(neighbor, 1), data(1, 1)),
                (at(own, 2), data(2, 2)),
                (at(own, 3), data(1, 3)),
                (at(own, 4), data(1, 4)),
            ];
            for (address, header) in &runs {
                assert_eq!(admit_at(&mut sources, 0, *address, header), Ok(()));
            }
            let [_, _, crashed, restarted] = runs.map(|(address, h)| SourceKey::new(address, &h));
            sources.free_memory(S, &restarted);
            assert_eq!(sources.len(), 4, "the crashed run isn't silent for long enough yet");
            let held_bytes = sources.memory_bytes();
            for later_s in [60, 61, 62] {
                sources.free_memory(later_s * S, &restarted);
                assert_eq!((sources.len(), sources.evicted()), (3, 1), "after {later_s} s");
            }
            assert_eq!(sources.memory_bytes(), held_bytes / 4 * 3);
            assert!(sources.iter_mut().all(|source| source.key != crashed));
        }
    }

    /// One address with any number of ports and cookies leaves places, and evicts no one else.
    #[test]
    fn admit__one_address_gets_its_share_of_the_places() {
        let mut sources = sources();
        let stranger = |cookie: u32| SocketAddr::from(([10, 9, 9, 9], 1_000 + cookie as u16));
        let data = |cookie| header(Kind::Data, cookie, 0, 1);
        assert!(deliver(&mut sources, 0, 0, 0));
        let mut admitted = 0;
        for cookie in 1..1_000 {
            let now_ns = u64::from(cookie) * S / 1_000;
            admitted +=
                admit_at(&mut sources, now_ns, stranger(cookie), &data(cookie)).is_ok() as u32;
        }
        assert_eq!(admitted, 6);
        // The other sender was silent for long enough to be evicted, but for a small address only.
        for cookie in 1_000..2_000 {
            let _ = admit_at(&mut sources, 100 * S, stranger(cookie), &data(cookie));
        }
        assert!(sources.find(address(0), &data(0)).is_some());
        assert!(deliver(&mut sources, 100 * S, 2_001, 0), "another address");
        assert_eq!(sources.len(), SOURCES_MAX);
    }
}
