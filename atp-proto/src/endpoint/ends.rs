//! Addresses, as an endpoint compares them.

use std::net::{IpAddr, SocketAddr};

/// The two ends of a packet. An answer goes back between the same two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The sender's address.
    pub source: SocketAddr,
    /// The address of this host to which the packet was sent. Known only if the socket is bound to
    /// a wildcard: the kernel would choose another one for an answer where a host has several.
    pub local: Option<IpAddr>,
}

/// An IP address, and the link of a link-local one: several links of a host may have the same
/// link-local address (RFC 4007). An IPv4-mapped address is that of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerIp {
    ip: IpAddr,
    /// The link's interface; 0 for none.
    scope: u32,
}

impl PeerIp {
    /// An address of `scope`, the index of an interface; 0 for none.
    pub const fn new(ip: IpAddr, scope: u32) -> Self {
        Self { ip: ip.to_canonical(), scope }
    }

    /// The address without its link.
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The index of the interface to its link; 0 for none.
    pub const fn scope(&self) -> u32 {
        self.scope
    }

    /// Whether addresses of this kind belong to a link: unicast `fe80::/10`, or multicast
    /// `ff02::/16` and what the standard library has no name for, `ff01::/16`.
    pub fn has_scope(ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(_) => false,
            IpAddr::V6(v6) => {
                v6.is_unicast_link_local() || matches!(v6.segments()[0] & 0xff0f, 0xff01 | 0xff02)
            }
        }
    }
}

impl From<IpAddr> for PeerIp {
    fn from(ip: IpAddr) -> Self {
        Self::new(ip, 0)
    }
}

/// The address without its port. An interface is kept only where it means something, as the kernel
/// does: `fd00::1%3` is `fd00::1`.
impl From<SocketAddr> for PeerIp {
    fn from(address: SocketAddr) -> Self {
        match canonical(address) {
            SocketAddr::V6(v6) if Self::has_scope(address.ip()) => {
                Self { ip: (*v6.ip()).into(), scope: v6.scope_id() }
            }
            other => other.ip().into(),
        }
    }
}

/// An IPv4-mapped address as one of IPv4. Others keep their scope.
pub fn canonical(mut address: SocketAddr) -> SocketAddr {
    if let IpAddr::V4(v4) = address.ip().to_canonical() {
        address.set_ip(v4.into());
    }
    address
}
