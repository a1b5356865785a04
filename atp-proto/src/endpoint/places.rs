//! The receiver's places and memory, by the network address that holds them. `sources` evicts.
//!
//! Both follow the dynamic threshold of [`Budget`]. An address may take a place while it
//! holds at most three times as many as are free. One address alone gets about three quarters of
//! the places, and always leaves some. A sender that sends is never evicted for another, so room
//! must be kept, not taken back.

use super::PeerIp;
use crate::{Budget, Share};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

/// Places that an address may hold for each free one.
const PLACES_PER_FREE: usize = 3;

/// An IPv4 address, or the /64 of an IPv6 address: a host chooses the other bits at will
/// (RFC 8981). All link-local addresses of a link are one network, and those of another link
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    /// The link of a link-local address; 0 for others.
    scope: u32,
}

impl Network {
    pub fn of(address: SocketAddr) -> Self {
        let host = PeerIp::from(address);
        let address = match host.ip() {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        };
        Self { address, scope: host.scope() }
    }
}

/// The places of all addresses.
pub struct Places {
    places_max: usize,
    taken: usize,
    budget: Arc<Budget>,
    by_network: HashMap<Network, (usize, Arc<Share>)>,
}

impl Places {
    pub fn new(places_max: usize, budget: Arc<Budget>) -> Self {
        Self { places_max, taken: 0, budget, by_network: HashMap::new() }
    }

    /// The bytes that all senders hold.
    pub fn memory_bytes(&self) -> u64 {
        self.budget.bytes()
    }

    fn of(&self, network: Network) -> usize {
        self.by_network.get(&network).map_or(0, |(places, _)| *places)
    }

    /// Whether an address may take a free place.
    pub fn has_room(&self, network: Network) -> bool {
        let free = self.places_max.saturating_sub(self.taken);
        free > 0 && self.of(network) <= PLACES_PER_FREE.saturating_mul(free)
    }

    /// Whether an address holds more than a quarter of all places.
    pub fn is_large(&self, network: Network) -> bool {
        self.of(network) > self.places_max.div_ceil(4)
    }

    /// Takes a place, and returns the address's share of the memory.
    pub fn take(&mut self, network: Network) -> Arc<Share> {
        self.taken += 1;
        let new = || (0, self.budget.share());
        let (places, share) = self.by_network.entry(network).or_insert_with(new);
        *places += 1;
        share.clone()
    }

    /// Gives a place back. Drop the sender's state first.
    pub fn give_back(&mut self, network: Network) {
        self.taken = self.taken.saturating_sub(1);
        if let Some((places, _)) = self.by_network.get_mut(&network) {
            *places -= 1;
            if *places == 0 {
                self.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(address: &str) -> Network {
        Network::of(SocketAddr::new(address.parse().unwrap(), 1))
    }

    #[test]
    fn network__is_an_ipv4_address_or_a_64() {
        assert_eq!(network("10.0.0.1"), network("::ffff:10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
        assert_eq!(network("fd00:1:2:3::1"), network("fd00:1:2:3:ffff::2"));
        assert_ne!(network("fd00:1:2:3::1"), network("fd00:1:2:4::1"));
    }

    #[test]
    fn network__is_a_link_for_link_local_addresses() {
        let on_link = |ip: &str, scope| {
            let ip = ip.parse().unwrap();
            Network::of(std::net::SocketAddrV6::new(ip, 1, 0, scope).into())
        };
        assert_eq!(on_link("fe80::1", 2), on_link("fe80::2", 2));
        assert_ne!(on_link("fe80::1", 2), on_link("fe80::1", 3));
    }

    proptest! {
        // A few addresses that take all they can leave a place for the next.
        #[test]
        fn has_room__a_few_addresses_leave_some(places_max in 1usize..400, strangers in 0usize..4) {
            let mut places = Places::new(places_max, Budget::new(1_000));
            let mut taken = 0;
            for stranger in 0..strangers {
                let network = network(&format!("10.0.0.{stranger}"));
                while places.has_room(network) {
                    places.take(network);
                    taken += 1;
                }
            }
            prop_assert!(taken <= places_max);
            // Four addresses in a row leave 1 of 4^4.
            let other = network("10.0.1.1");
            prop_assert!(places_max < 256 || places.has_room(other), "{taken} of {places_max}");
            prop_assert!(places_max < 5 || strangers != 1 || places.has_room(other));
        }
    }
}
