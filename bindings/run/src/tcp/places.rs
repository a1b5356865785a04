//! Limits of the connections that other hosts open: shares of the process's descriptors.
//!
//! A carried connection has two descriptors of the library and one of the program, and three
//! threads. One that hasn't agreed yet has a descriptor. With these limits the library takes less
//! than half of the descriptors, and the program's own calls find others.

use crate::{limit, shared::lock};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Connections that are carried at once. The receiver beside has places for as many senders.
const CARRIED_MAX: usize = 256;
/// Connections that haven't agreed, of all ports together.
const WAITING_MAX: usize = 64;
/// The number of parts into which the process's descriptors are divided.
const PARTS: usize = 16;
/// Parts for which both limits are lower, if the process may have few descriptors.
const CARRIED_PARTS: usize = 3;

/// The places of a process's connections.
#[derive(Default)]
pub struct Places {
    /// Carried connections, by the share of the client's address.
    taken: Mutex<HashMap<IpAddr, usize>>,
    /// Ports at which other libraries connect.
    doors: AtomicUsize,
}

/// The place of a carried connection, until it ends.
pub struct Place {
    places: &'static Places,
    share: IpAddr,
}

impl Places {
    /// Takes a place for a client of this share, unless all are taken or its share is. One address
    /// has three quarters at most, as at receivers.
    pub fn take(&'static self, share: IpAddr) -> Option<Place> {
        let max = carried_max(limit::descriptors());
        let mut taken = lock(&self.taken);
        let all: usize = taken.values().sum();
        let own = taken.entry(share).or_default();
        let is_free = all < max && *own < (max * 3 / 4).max(1);
        *own += usize::from(is_free);
        taken.retain(|_, own| *own > 0);
        is_free.then(|| Place { places: self, share })
    }

    /// Another port divides the places of connections that haven't agreed.
    pub fn add_door(&self) {
        self.doors.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove_door(&self) {
        self.doors.fetch_sub(1, Ordering::Relaxed);
    }

    /// Connections that may wait at each port.
    pub fn waiting_max(&self) -> usize {
        let all = WAITING_MAX.min(limit::descriptors() / PARTS);
        (all / self.doors.load(Ordering::Relaxed).max(1)).max(1)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        if let Some(own) = taken.get_mut(&self.share) {
            *own -= 1;
        }
        taken.retain(|_, own| *own > 0);
    }
}

fn carried_max(descriptors: usize) -> usize {
    (descriptors / PARTS * CARRIED_PARTS).clamp(1, CARRIED_MAX)
}

/// The addresses that share a limit: one of IPv4, or a /64 of IPv6, which is one host's.
pub fn share_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}
