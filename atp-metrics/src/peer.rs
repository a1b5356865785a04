//! The peer of a connection, by which the places are shared out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// By whom connections are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A user of this host, by number.
    User {
        /// The user itself, or the one whose subordinate id it is. Of ranges that belong to root or
        /// to no account, the first id.
        owner: u32,
        /// The user.
        uid: u32,
    },
    /// Another host, or one without a socket on this host.
    Host {
        /// The /24 of an IPv4 address, or the /48 of an IPv6 address.
        network: IpAddr,
        /// The IPv4 address, or the /64 of an IPv6 address.
        host: IpAddr,
    },
}

impl Peer {
    /// The host of an address, and its network. A host may have all addresses of a /64, and all of
    /// 127.0.0.0/8.
    pub fn host(address: IpAddr) -> Self {
        let (network, host) = match address.to_canonical() {
            IpAddr::V4(address) if address.is_loopback() => {
                (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into())
            }
            IpAddr::V4(address) => {
                (Ipv4Addr::from_bits(address.to_bits() >> 8 << 8).into(), address.into())
            }
            IpAddr::V6(address) => {
                let begin = |bits: u32| {
                    let shift = u128::BITS - bits;
                    Ipv6Addr::from_bits(address.to_bits() >> shift << shift).into()
                };
                (begin(48), begin(64))
            }
        };
        Self::Host { network, host }
    }

    /// Whether both may be one attacker with several users or hosts.
    pub(crate) fn is_akin(self, other: Self) -> bool {
        match (self, other) {
            (Self::User { owner: one, .. }, Self::User { owner: other, .. }) => one == other,
            (Self::Host { network: one, .. }, Self::Host { network: other, .. }) => one == other,
            _ => false,
        }
    }
}
