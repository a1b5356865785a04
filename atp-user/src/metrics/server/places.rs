//! The places of connections, shared out by peer.

use super::peer::Peer;
use std::cmp::Reverse;
use tokio::task::JoinHandle;

/// The most connections at once. Another one takes the place of one of them.
pub const PLACES: usize = 64;

/// The open connections, the oldest first.
#[derive(Default)]
pub struct Places {
    taken: Vec<Place>,
    next: u64,
}

struct Place {
    number: u64,
    peer: Peer,
    /// The head of its request is complete.
    has_asked: bool,
    task: JoinHandle<()>,
}

impl Places {
    /// Closes a connection if no place is free, and says whether it did.
    ///
    /// The peer with the most connections loses one, so that the others keep theirs however often
    /// it comes back. `newcomer` is the peer that needs the place.
    pub fn make_room(&mut self, newcomer: Peer) -> bool {
        if self.taken.len() < PLACES {
            return false;
        }
        let held = |peer| {
            let of_peer = self.taken.iter().filter(|place| place.peer == peer);
            of_peer.count() + usize::from(peer == newcomer)
        };
        let rank = |place: &Place| (held(place.peer), !place.has_asked, Reverse(place.number));
        let last = (0..PLACES).max_by_key(|at| rank(&self.taken[*at]));
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
    pub fn add(&mut self, peer: Peer, task: JoinHandle<()>) {
        let number = self.next;
        self.next += 1;
        self.taken.push(Place { number, peer, has_asked: false, task });
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
    use std::future::pending;

    fn numbers(places: &Places) -> Vec<u64> {
        places.taken.iter().map(|place| place.number).collect()
    }

    fn add(places: &mut Places, user: u32) {
        places.make_room(Peer::User(user));
        places.add(Peer::User(user), tokio::spawn(pending()));
        assert!(places.taken.len() <= PLACES);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn make_room__one_peer_evicts_no_other() {
        let mut places = Places::default();
        add(&mut places, 0);
        for _ in 0..5_000 {
            add(&mut places, 1_001);
        }
        assert_eq!(numbers(&places)[..2], [0, 5_001 - PLACES as u64 + 1]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn make_room__requests_that_are_complete_stay_longer() {
        let mut places = Places::default();
        for user in 0..PLACES as u32 {
            add(&mut places, user);
        }
        places.set_asked(0);
        add(&mut places, 1_000);
        assert_eq!(numbers(&places)[..2], [0, 2]);
        for number in 2..=PLACES as u64 {
            places.set_asked(number);
        }
        add(&mut places, 1_001);
        assert_eq!(numbers(&places)[..2], [2, 3]);
    }
}
