//! Tombstones: a few bytes about each sender that left the table, kept while its packets may still
//! come.
//!
//! Without a tombstone, a repeated FIN would look like a job of which no message arrived, and a
//! retransmitted packet like a message that the application doesn't have.

use super::source::SourceKey;
use crate::StatedEnd;
use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
};

/// The answer to the packets of a sender that left the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tombstone {
    /// The sender's job has ended so. `local`: the local address of its packets.
    Ended { end: StatedEnd, local: Option<IpAddr> },
    /// The sender fell silent before its job's end. The record of its delivered messages is gone,
    /// so the job can't continue.
    Forgotten,
}

/// The tombstones of the last senders that left the table.
pub struct Tombstones {
    by_key: HashMap<SourceKey, (u64, Tombstone)>,
    /// Keys in the order of the times that lifetimes begin.
    order: VecDeque<SourceKey>,
    number_max: usize,
    lifetime_ns: u64,
}

impl Tombstones {
    /// Keeps at most `number_max` tombstones, each for `lifetime_ns`.
    pub fn new(number_max: usize, lifetime_ns: u64) -> Self {
        Self { by_key: HashMap::new(), order: VecDeque::new(), number_max, lifetime_ns }
    }

    /// Adds the tombstone of a sender that has none, for its lifetime from now on.
    pub fn insert(&mut self, now_ns: u64, key: SourceKey, tombstone: Tombstone) {
        self.insert_since(now_ns, now_ns, key, tombstone);
    }

    /// Adds the tombstone of a sender that has none, for its lifetime from `since_ns` on.
    pub fn insert_since(
        &mut self,
        now_ns: u64,
        since_ns: u64,
        key: SourceKey,
        tombstone: Tombstone,
    ) {
        self.expire(now_ns);
        if self.order.len() >= self.number_max {
            self.drop_oldest();
        }
        // Nearly always the last place.
        let is_earlier = |other: &SourceKey| self.by_key[other].0 <= since_ns;
        let place = self.order.iter().rposition(is_earlier).map_or(0, |last| last + 1);
        self.order.insert(place, key);
        self.by_key.insert(key, (since_ns, tombstone));
    }

    pub fn find(&self, now_ns: u64, key: &SourceKey) -> Option<&Tombstone> {
        let (since_ns, tombstone) = self.by_key.get(key)?;
        (now_ns.saturating_sub(*since_ns) < self.lifetime_ns).then_some(tombstone)
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&SourceKey, &Tombstone)> {
        self.order.iter().filter_map(|key| Some((key, &self.by_key.get(key)?.1)))
    }

    /// Removes a sender's tombstone.
    pub fn remove(&mut self, key: &SourceKey) -> Option<Tombstone> {
        let (_, tombstone) = self.by_key.remove(key)?;
        self.order.retain(|kept| kept != key);
        Some(tombstone)
    }

    /// Keeps a sender's tombstone, if there is one, for its lifetime from now on.
    pub fn renew(&mut self, now_ns: u64, key: &SourceKey) {
        if let Some(tombstone) = self.remove(key) {
            self.insert(now_ns, *key, tombstone);
        }
    }

    /// The age of the newest tombstone.
    pub fn newest_age_ns(&self, now_ns: u64) -> Option<u64> {
        let (since_ns, _) = self.by_key.get(self.order.back()?)?;
        Some(now_ns.saturating_sub(*since_ns))
    }

    /// Removes tombstones that are older than their lifetime.
    pub fn expire(&mut self, now_ns: u64) {
        while let Some(oldest) = self.order.front()
            && self.find(now_ns, oldest).is_none()
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(key) = self.order.pop_front() {
            self.by_key.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Receiver, ReceiverConfig};
    use atp_common::wire::{Fields, FinBody, FinGroup, Header, Kind};

    fn key(cookie: u32) -> SourceKey {
        SourceKey { address: "10.0.0.1:1000".parse().unwrap(), job: 1, cookie }
    }

    /// The tombstone of a job without messages.
    fn ended(cookie: u32) -> Tombstone {
        let fin =
            Header::new(&Fields { job: 1, cookie, index: 1, count: 1, ..Fields::of(Kind::Fin) });
        let mut body = [0; 20];
        FinBody::write(&mut body, 0, &[FinGroup::default()]).unwrap();
        let mut receiver = Receiver::new(ReceiverConfig::default(), 0, &fin);
        receiver.on_fin(0, &fin, &FinBody::parse(&body).unwrap(), &mut [0; 52]);
        let end = receiver.stated_end().expect("it needs nothing").clone();
        Tombstone::Ended { end, local: None }
    }

    #[test]
    fn renew__begins_a_lifetime_anew() {
        let mut tombstones = Tombstones::new(3, 100);
        for cookie in 0..2 {
            tombstones.insert(0, key(cookie), Tombstone::Forgotten);
        }
        tombstones.renew(60, &key(0));
        tombstones.renew(60, &key(9));
        assert_eq!(tombstones.newest_age_ns(70), Some(10));
        tombstones.expire(120);
        assert_eq!((tombstones.find(120, &key(0)).is_some(), tombstones.iter().count()), (true, 1));
        assert_eq!(tombstones.remove(&key(0)), Some(Tombstone::Forgotten));
        assert_eq!((tombstones.newest_age_ns(120), tombstones.order.len()), (None, 0));
    }

    #[test]
    fn insert_since__keeps_the_order_of_times() {
        let mut tombstones = Tombstones::new(3, 100);
        for (cookie, since_ns) in [(0, 50), (1, 20), (2, 70), (3, 60)] {
            tombstones.insert_since(70, since_ns, key(cookie), Tombstone::Forgotten);
        }
        // The fourth replaced the oldest.
        assert_eq!(tombstones.find(75, &key(1)), None);
        assert_eq!(tombstones.newest_age_ns(80), Some(10));
        tombstones.expire(155);
        let mut left: Vec<u32> = tombstones.iter().map(|(key, _)| key.cookie).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3]);
    }

    #[test]
    fn find__until_its_lifetime_is_over_or_newer_ones_replace_it() {
        let mut tombstones = Tombstones::new(3, 100);
        for cookie in 0..4 {
            tombstones.insert(cookie.into(), key(cookie), ended(cookie));
        }
        assert_eq!(tombstones.find(50, &key(0)), None);
        assert_eq!(tombstones.find(100, &key(1)), Some(&ended(1)));
        assert_eq!(tombstones.find(101, &key(1)), None);
        tombstones.expire(102);
        assert_eq!(tombstones.iter().count(), 1);
        // A sender that came back and left again.
        tombstones.insert(103, key(1), Tombstone::Forgotten);
        tombstones.insert(104, key(5), Tombstone::Forgotten);
        assert_eq!(tombstones.find(105, &key(1)), Some(&Tombstone::Forgotten));
        assert_eq!((tombstones.by_key.len(), tombstones.order.len()), (2, 2));
    }
}
