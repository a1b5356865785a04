//! The places of connections, shared out by peer.

use crate::peer::Peer;
use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// The most connections at once. Another one takes the place of one of them.
pub const PLACES: usize = 64;

/// The time in which a connection isn't closed for a later one of an equal peer. A request comes
/// right behind its connection, or after the retransmission of a lost packet.
pub const YOUTH: Duration = Duration::from_millis(250);

/// The open connections, the oldest first.
#[derive(Default)]
pub struct Places {
    taken: Vec<Place>,
    next: u64,
}

struct Place {
    number: u64,
    since: Instant,
    peer: Peer,
    /// The head of its request is complete.
    has_asked: bool,
    task: JoinHandle<()>,
}

impl Places {
    /// Closes a connection if there is one too many, and says whether it did.
    ///
    /// The owner or network with the most connections loses one, and in it the user or host with
    /// the most: the others keep theirs, however often it comes back. If all connections of that
    /// peer are young, it loses the newest: a flood doesn't replace those that wait for their
    /// request.
    pub fn evict_surplus(&mut self, now: Instant) -> bool {
        if self.taken.len() <= PLACES {
            return false;
        }
        let count = |is_counted: &dyn Fn(Peer) -> bool| {
            self.taken.iter().filter(|place| is_counted(place.peer)).count()
        };
        let rank = |place: &Place| {
            let akin = count(&|peer| peer.is_akin(place.peer));
            let own = count(&|peer| peer == place.peer);
            let old = now.saturating_duration_since(place.since) >= YOUTH;
            let order = old.then_some((!place.has_asked, Reverse(place.number)));
            (akin, own, order, place.number)
        };
        let last = (0..self.taken.len()).max_by_key(|at| rank(&self.taken[*at]));
        if let Some(at) = last {
            self.taken.remove(at).task.abort();
        }
        last.is_some()
    }

    /// The number of the connection that is added next.
    pub const fn next_number(&self) -> u64 {
        self.next
    }

    /// Adds a connection, served by `task`.
    pub fn add(&mut self, peer: Peer, since: Instant, task: JoinHandle<()>) {
        let number = self.next;
        self.next += 1;
        self.taken.push(Place { number, since, peer, has_asked: false, task });
    }

    /// The head of a connection's request is complete.
    pub fn set_asked(&mut self, number: u64) {
        let place = self.taken.iter_mut().find(|place| place.number == number);
        if let Some(place) = place {
            place.has_asked = true;
        }
    }

    /// A connection has ended.
    pub fn remove(&mut self, number: u64) {
        self.taken.retain(|place| place.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::pending, net::IpAddr};

    /// Places that are filled at times counted from a begin.
    struct Filling {
        places: Places,
        begin: Instant,
    }

    impl Filling {
        fn new() -> Self {
            Self { places: Places::default(), begin: Instant::now() }
        }

        fn add(&mut self, peer: Peer, at: Duration) {
            let now = self.begin + at;
            self.places.add(peer, now, tokio::spawn(pending()));
            self.places.evict_surplus(now);
            assert!(self.places.taken.len() <= PLACES);
        }

        fn numbers(&self) -> Vec<u64> {
            self.places.taken.iter().map(|place| place.number).collect()
        }
    }

    const fn user(uid: u32) -> Peer {
        Peer::User { owner: uid, uid }
    }

    fn host(network: &str, host: &str) -> Peer {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        Peer::Host { network: address(network), host: address(host) }
    }

    const NOW: Duration = Duration::ZERO;
    const FULL: u64 = PLACES as u64;

    #[tokio::test(flavor = "current_thread")]
    async fn evict_surplus__one_peer_evicts_no_other() {
        for interval in [NOW, Duration::from_millis(5)] {
            let mut filling = Filling::new();
            filling.add(user(0), NOW);
            for number in 0..300 {
                filling.add(user(1_001), interval * number);
            }
            assert_eq!(filling.numbers()[0], 0, "{interval:?}");
        }
    }

    /// A user with as many ids as connections, and a host with as many addresses.
    #[tokio::test(flavor = "current_thread")]
    async fn evict_surplus__one_owner_or_network_evicts_no_other() {
        let id = |number: u32| Peer::User { owner: 1_000, uid: 100_000 + number };
        let address = |number: u32| {
            let [.., low] = number.to_be_bytes();
            host("192.0.2.0", &format!("192.0.2.{low}"))
        };
        for (victim, attacker) in [
            (user(0), &id as &dyn Fn(u32) -> Peer),
            (host("198.51.100.0", "198.51.100.7"), &address),
        ] {
            let mut filling = Filling::new();
            filling.add(victim, NOW);
            for number in 0..300 {
                filling.add(attacker(number), Duration::from_millis(5) * number);
            }
            assert_eq!(filling.numbers()[0], 0, "{victim:?}");
        }
    }

    /// A neighbor of the monitor, in its network.
    #[tokio::test(flavor = "current_thread")]
    async fn evict_surplus__one_host_evicts_no_other_of_its_network() {
        let mut filling = Filling::new();
        filling.add(host("192.0.2.0", "192.0.2.1"), NOW);
        for number in 0..300 {
            filling.add(host("192.0.2.0", "192.0.2.2"), Duration::from_millis(5) * number);
        }
        assert_eq!(filling.numbers()[0], 0);
    }

    /// Peers of which none has more than another.
    #[tokio::test(flavor = "current_thread")]
    async fn evict_surplus__a_flood_of_peers_evicts_no_young_connection() {
        let mut filling = Filling::new();
        let mut users = 0..;
        let mut next = || user(users.next().unwrap());
        for _ in 0..PLACES {
            filling.add(next(), NOW);
        }
        // The monitor takes the place of the oldest, and its request takes some time.
        filling.add(next(), YOUTH);
        for _ in 0..300 {
            filling.add(next(), YOUTH * 2 - Duration::from_millis(1));
        }
        assert_eq!(filling.numbers()[0], FULL);
        filling.add(next(), YOUTH * 2);
        assert!(!filling.numbers().contains(&FULL));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn evict_surplus__requests_that_are_complete_stay_longer() {
        let mut filling = Filling::new();
        for uid in 0..PLACES as u32 {
            filling.add(user(uid), NOW);
        }
        filling.places.set_asked(0);
        filling.add(user(1_000), YOUTH);
        assert_eq!(filling.numbers()[..2], [0, 2]);
        for number in 2..FULL {
            filling.places.set_asked(number);
        }
        filling.add(user(1_001), YOUTH);
        assert_eq!(filling.numbers()[..2], [2, 3]);
    }
}
