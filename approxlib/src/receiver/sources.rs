//! Who sends: the transport's state per (address, job, cookie), bounded in number.
//!
//! Nothing proves that a source address is true, so whoever asks last must not find all places taken
//! by strangers: when there is no place left, one that has ended goes, or else one that has been
//! silent, and of these the one that has delivered least. Who still sends, stays.

use super::{
    fin_acks::FinAcks,
    tombstones::{Tombstone, Tombstones},
};
use atp_common::{
    maps::arrivals::Arrivals,
    wire::{Header, ResetReason},
};
use atp_proto::{Receiver as Transport, ReceiverConfig};
use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

/// A run of a job at one sender. The cookie is the run's: the same job started anew has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceKey {
    /// The sender.
    pub address: SocketAddr,
    /// The job.
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
    /// Its first header: names the job and its cookie to whoever has to be told something.
    pub first: Header,
    /// The last answers to its FIN, to be repeated.
    pub fin_acks: FinAcks,
    /// What arrived without an ACK and may be asked about, by group; kept while this process
    /// acknowledges.
    pub arrivals: HashMap<u8, Box<Arrivals>>,
}

/// What is accepted.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Senders at once.
    pub sources_max: usize,
    /// These jobs only, if any is named.
    pub jobs: HashSet<u32>,
    /// Limits of each.
    pub transport: ReceiverConfig,
}

/// What the sender of a packet is to this receiver.
pub enum Admitted<'a> {
    /// One of those that are here.
    Here(&'a mut Source),
    /// One that made room for others.
    Gone(Tombstone),
    /// Not to be let in.
    Refused(ResetReason),
}

/// For each place of a sender.
const FAREWELLS: usize = 4;
/// A sender that has something to say repeats it once a second, and one repetition can be lost.
const PATIENCE_NS: u64 = 2_000_000_000;
/// With each doubling of what was delivered, silence is borne for longer: more would be lost with
/// it, and a stranger has to do more to look like it.
const PATIENCE_STEP_NS: u64 = 1_000_000_000;

/// All senders.
pub struct Sources {
    admission: Admission,
    sources: Vec<Source>,
    index: HashMap<SourceKey, usize>,
    /// Most packets come from the sender of the packet before.
    last: usize,
    /// Of jobs that have ended, for as long as their senders may ask again.
    tombstones: Tombstones,
    /// The same once nobody asks any more, for as long as packets of theirs may come back: from a slow
    /// path, or from a stranger who kept them. They must not look like another job.
    ended: Tombstones,
    /// Of senders that were forgotten in the middle, for as long as they may come back.
    forgotten: Tombstones,
    evicted: u64,
}

impl Sources {
    pub fn new(admission: Admission) -> Self {
        let tombstones_max = admission.sources_max.saturating_mul(FAREWELLS);
        let tombstones = Tombstones::new(tombstones_max, admission.transport.linger_ns);
        let forgotten = Tombstones::new(tombstones_max, admission.transport.silence_ns);
        let ended = Tombstones::new(tombstones_max, admission.transport.silence_ns);
        let (sources, index) = (Vec::new(), HashMap::new());
        Self { admission, sources, index, last: 0, tombstones, ended, forgotten, evicted: 0 }
    }

    /// The sender of a packet, if it is here.
    pub fn find(&mut self, address: SocketAddr, header: &Header) -> Option<&mut Source> {
        let at = *self.index.get(&SourceKey::new(address, header))?;
        self.sources.get_mut(at)
    }

    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Senders that were let go before their job's end, to make room for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Source> {
        self.sources.iter_mut()
    }

    /// Where to, and what, of answers to FINs that may have to be repeated for senders let go.
    pub fn last_answers(&self) -> impl Iterator<Item = (SocketAddr, &FinAcks)> {
        self.tombstones.iter().filter_map(|(key, tombstone)| match tombstone {
            Tombstone::Ended(fin_acks) => Some((key.address, fin_acks)),
            Tombstone::Forgotten => None,
        })
    }

    /// The sender of a packet, admitted now if it is new.
    pub fn admit(&mut self, now_ns: u64, address: SocketAddr, header: &Header) -> Admitted<'_> {
        let key = SourceKey::new(address, header);
        if self.sources.get(self.last).is_none_or(|source| source.key != key) {
            self.last = match self.index.get(&key) {
                Some(at) => *at,
                None => match self.tombstone(now_ns, &key) {
                    Some(tombstone) => return Admitted::Gone(tombstone),
                    None => match self.add(now_ns, key, header) {
                        Ok(at) => at,
                        Err(reason) => return Admitted::Refused(reason),
                    },
                },
            };
        }
        Admitted::Here(&mut self.sources[self.last])
    }

    fn tombstone(&self, now_ns: u64, key: &SourceKey) -> Option<Tombstone> {
        let mut lists = [&self.tombstones, &self.ended, &self.forgotten].into_iter();
        lists.find_map(|list| list.find(now_ns, key)).cloned()
    }

    fn add(&mut self, now_ns: u64, key: SourceKey, first: &Header) -> Result<usize, ResetReason> {
        if !self.admission.jobs.is_empty() && !self.admission.jobs.contains(&key.job) {
            return Err(ResetReason::NotWanted);
        }
        if self.sources.len() >= self.admission.sources_max && !self.make_room(now_ns) {
            return Err(ResetReason::NoRoom);
        }
        let transport = Transport::new(self.admission.transport, now_ns, first);
        self.sources.push(Source {
            key,
            transport,
            first: *first,
            fin_acks: FinAcks::default(),
            arrivals: HashMap::new(),
        });
        self.index.insert(key, self.sources.len() - 1);
        Ok(self.sources.len() - 1)
    }

    /// Lets go of the sender that is missed least, if there is one that may go.
    fn make_room(&mut self, now_ns: u64) -> bool {
        let candidates = self.sources.iter().enumerate().filter(|(_, s)| s.may_go(now_ns));
        let Some((at, _)) = candidates.min_by_key(|(_, source)| source.worth()) else {
            return false;
        };
        let source = self.sources.swap_remove(at);
        self.index.remove(&source.key);
        if let Some(moved) = self.sources.get(at) {
            self.index.insert(moved.key, at);
        }
        let delivered = source.delivered();
        if source.transport.is_finished() {
            // One that delivered nothing gets the same answer as if it came for the first time.
            if delivered > 0 {
                let tombstone = Tombstone::Ended(source.fin_acks);
                self.ended.insert(now_ns, source.key, tombstone.clone());
                self.tombstones.insert(now_ns, source.key, tombstone);
            }
            return true;
        }
        self.evicted += 1;
        let job = source.key.job;
        tracing::info!(job, source = %source.key.address, delivered, "a silent sender made room");
        // One that delivered nothing loses nothing, and may come again as if for the first time.
        if delivered > 0 {
            self.forgotten.insert(now_ns, source.key, Tombstone::Forgotten);
        }
        true
    }

    /// Forgets senders that have ended, or are gone.
    pub fn expire(&mut self, now_ns: u64) {
        self.tombstones.expire(now_ns);
        self.ended.expire(now_ns);
        self.forgotten.expire(now_ns);
        let (ended, forgotten) = (&mut self.ended, &mut self.forgotten);
        let before = self.sources.len();
        self.sources.retain_mut(|source| {
            let expired = source.transport.expired(now_ns);
            if expired && source.transport.is_finished() && source.delivered() > 0 {
                let fin_acks = std::mem::take(&mut source.fin_acks);
                ended.insert(now_ns, source.key, Tombstone::Ended(fin_acks));
            }
            if expired && !source.transport.is_finished() {
                if source.delivered() > 0 {
                    forgotten.insert(now_ns, source.key, Tombstone::Forgotten);
                }
                let (job, source) = (source.key.job, source.key.address);
                tracing::info!(job, %source, "a sender fell silent before its job's end");
            }
            !expired
        });
        if self.sources.len() != before {
            self.last = 0;
            self.index.clear();
            self.index.extend(self.sources.iter().enumerate().map(|(at, s)| (s.key, at)));
        }
    }
}

impl Source {
    fn delivered(&self) -> u32 {
        self.transport.stats().messages_delivered
    }

    /// Whether it may make room for another.
    fn may_go(&self, now_ns: u64) -> bool {
        let doublings = u64::from(u32::BITS - self.delivered().leading_zeros());
        let patience_ns = PATIENCE_NS + doublings * PATIENCE_STEP_NS;
        let silence_ns = now_ns.saturating_sub(self.transport.heard_ns());
        self.transport.is_finished() || silence_ns >= patience_ns
    }

    /// The least of all goes first: one that has ended, one that has delivered little, one that has
    /// been silent for long.
    fn worth(&self) -> (bool, u32, u64) {
        (!self.transport.is_finished(), self.delivered(), self.transport.heard_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::wire::{Fields, FinBody, FinGroup, Flags, HEADER_LEN, Kind};

    const S: u64 = 1_000_000_000;
    const PLACES: usize = 8;

    fn sources() -> Sources {
        let transport = ReceiverConfig::default();
        Sources::new(Admission { sources_max: PLACES, jobs: HashSet::new(), transport })
    }

    fn header(kind: Kind, cookie: u32, message: u32, count: u32) -> Header {
        Header::new(&Fields {
            kind,
            flags: Flags::NONE,
            group: 0,
            job: 1,
            cookie,
            message,
            index: 0,
            count,
            epoch: 0,
            slot: 0,
            time: 0,
        })
    }

    fn admit(sources: &mut Sources, now_ns: u64, header: &Header) -> Result<(), Tombstone> {
        match sources.admit(now_ns, "10.0.0.1:1000".parse().unwrap(), header) {
            Admitted::Here(source) => {
                source.transport.on_data(now_ns, header, &[1]);
                Ok(())
            }
            Admitted::Gone(tombstone) => Err(tombstone),
            Admitted::Refused(ResetReason::NoRoom) => Err(Tombstone::Ended(FinAcks::default())),
            Admitted::Refused(reason) => panic!("{reason:?}"),
        }
    }

    /// A packet that is a message by itself.
    fn deliver(sources: &mut Sources, now_ns: u64, cookie: u32, message: u32) -> bool {
        admit(sources, now_ns, &header(Kind::Data, cookie, message, 1)).is_ok()
    }

    fn finish(sources: &mut Sources, now_ns: u64, cookie: u32, messages: u32) {
        let header = header(Kind::Fin, cookie, messages, 1);
        let group = FinGroup { group: 0, messages, needed: messages, delivered: 0 };
        let mut body = [0; 20];
        FinBody::write(&mut body, 0, &[group]).unwrap();
        let address = "10.0.0.1:1000".parse().unwrap();
        let Admitted::Here(source) = sources.admit(now_ns, address, &header) else { panic!() };
        let mut out = [0; HEADER_LEN + 20];
        let len =
            source.transport.on_fin(now_ns, &header, &FinBody::parse(&body).unwrap(), &mut out);
        source.fin_acks.note(&header, &out[..len]);
        assert!(source.transport.is_finished());
    }

    #[test]
    fn admit__a_flood_takes_no_place_from_one_that_sends() {
        let mut sources = sources();
        let mut admitted = 0;
        for step in 0..10_000u32 {
            let now_ns = u64::from(step) * S / 1_000;
            // Sends once a second.
            if step % 1_000 == 0 {
                assert!(deliver(&mut sources, now_ns, 0, step / 1_000), "at step {step}");
            }
            admitted += u32::from(deliver(&mut sources, now_ns, 1 + step, 0));
        }
        assert_eq!(sources.len(), PLACES);
        // Ten seconds; every three all places but one.
        assert_eq!(admitted, 4 * (PLACES as u32 - 1));
    }

    #[test]
    fn admit__strangers_make_room_after_some_silence() {
        let mut sources = sources();
        for cookie in 0..PLACES as u32 {
            assert!(deliver(&mut sources, 0, cookie, 0xff_ffff));
        }
        assert!(!deliver(&mut sources, 3 * S - 1, 100, 0));
        assert!(deliver(&mut sources, 3 * S, 100, 0));
        assert_eq!((sources.len(), sources.evicted()), (PLACES, 1));
    }

    #[test]
    fn admit__who_delivered_most_goes_last() {
        let mut sources = sources();
        for cookie in 0..PLACES as u32 {
            for message in 0..=cookie {
                assert!(deliver(&mut sources, 0, cookie, message));
            }
        }
        for cookie in 0..PLACES as u32 {
            assert!(deliver(&mut sources, 20 * S, 100 + cookie, 0));
            let gone = header(Kind::Data, cookie, 50, 1);
            for later_s in [20, 26, 3_000] {
                assert_eq!(admit(&mut sources, later_s * S, &gone), Err(Tombstone::Forgotten));
            }
        }
    }

    #[test]
    fn admit__one_that_delivered_nothing_may_come_again() {
        let mut sources = sources();
        for cookie in 0..PLACES as u32 {
            assert_eq!(admit(&mut sources, 0, &header(Kind::Data, cookie, 0, 2)), Ok(()));
        }
        assert!(deliver(&mut sources, 2 * S, 100, 0));
        assert!(deliver(&mut sources, 2 * S, 0, 0));
    }

    #[test]
    fn admit__jobs_that_ended_make_room_at_once_and_are_still_answered() {
        let mut sources = sources();
        for cookie in 0..100 {
            let now_ns = S + u64::from(cookie);
            assert!(deliver(&mut sources, now_ns, cookie, 0), "job {cookie}");
            finish(&mut sources, now_ns, cookie, 1);
        }
        assert_eq!((sources.len(), sources.evicted()), (PLACES, 0));
        let again = admit(&mut sources, S, &header(Kind::Fin, 90, 1, 0));
        let Err(Tombstone::Ended(fin_acks)) = again else { panic!("{again:?}") };
        let mut out = [0; 100];
        let len = fin_acks.answer(&header(Kind::Fin, 90, 1, 1), &mut out);
        assert_eq!(FinBody::parse(&out[HEADER_LEN..len]).unwrap().groups().count(), 1);
        assert_eq!(sources.last_answers().count(), FAREWELLS * PLACES);
        // A packet that comes late is no second delivery.
        assert!(!deliver(&mut sources, S, 90, 0));
        sources.expire(60 * S);
        assert!(!deliver(&mut sources, 60 * S, 90, 0));
    }

    /// Also long after its state is gone: replayed, or asked by a sender whose answers got lost.
    #[test]
    fn expire__packets_of_a_job_that_ended_are_no_new_job() {
        let mut sources = sources();
        assert!(deliver(&mut sources, S, 7, 0));
        finish(&mut sources, S, 7, 1);
        sources.expire(7 * S);
        assert_eq!(sources.len(), 0);
        for later_s in [7, 60, 3_000] {
            assert!(!deliver(&mut sources, later_s * S, 7, 0), "after {later_s} s");
            let again = admit(&mut sources, later_s * S, &header(Kind::Fin, 7, 1, 1));
            let Err(Tombstone::Ended(fin_acks)) = again else { panic!("{again:?}") };
            let mut out = [0; 64];
            let len = fin_acks.answer(&header(Kind::Fin, 7, 1, 1), &mut out);
            assert_eq!(FinBody::parse(&out[HEADER_LEN..len]).unwrap().groups().count(), 1);
        }
        // Nobody waits for it any more when the receiver itself ends.
        assert_eq!(sources.last_answers().count(), 0);
    }
}
