//! The addresses that share a limit, and the part of the places that one host may take.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

/// The host of an address: all of an IPv4 address, or the /64 of an IPv6 address.
pub fn of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

/// The most places of one host: three quarters, as at receivers.
pub const fn share(places: usize) -> usize {
    let share = places * 3 / 4;
    if share == 0 { 1 } else { share }
}

/// The host that has to give up a place for the newcomer: the newcomer's own one, if it has its
/// share, or the one with most places, if all are taken. `None`: a place is free.
pub fn crowded(
    held: impl Iterator<Item = IpAddr>,
    newcomer: IpAddr,
    places: usize,
) -> Option<IpAddr> {
    let (own, mut counts, mut taken) = (of(newcomer), HashMap::<IpAddr, usize>::new(), 0);
    for address in held {
        *counts.entry(of(address)).or_default() += 1;
        taken += 1;
    }
    if counts.get(&own).is_some_and(|count| *count >= share(places)) {
        Some(own)
    } else if taken < places {
        None
    } else {
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(host, _)| host)
    }
}
