//! The addresses that share a limit, and the part of the places that one host may take.

use std::net::{IpAddr, Ipv6Addr};

/// What one host has: an address of IPv4, or a /64 of IPv6.
pub fn of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

/// The part of so many places for one host: three quarters, as at receivers.
pub const fn share(places: usize) -> usize {
    let share = places * 3 / 4;
    if share == 0 { 1 } else { share }
}
