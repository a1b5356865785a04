//! Which addresses are this host's own.
//!
//! A list of the interfaces would tell too, but the kernel makes it under its lock of the network
//! configuration. Others hold that for seconds, and a receiver that waits for it answers nobody.
//! Routes are read without it.

use crate::address::{ScopedIp, canonical};
use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

/// The most addresses that are remembered.
const KNOWN_MAX: usize = 4_096;

/// Remembers the kernel's answers until they are forgotten.
#[derive(Debug, Default)]
pub struct OwnAddresses(RefCell<HashMap<ScopedIp, Option<bool>>>);

impl OwnAddresses {
    /// Whether `address` is one of this host's; `None` if the kernel doesn't tell.
    pub fn contains(&self, address: SocketAddr) -> Option<bool> {
        let mut known = self.0.borrow_mut();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        *known.entry(address.into()).or_insert_with(|| is_own(address).ok())
    }

    /// Forgets all answers: addresses come and go.
    pub fn forget(&mut self) {
        self.0.get_mut().clear();
    }
}

/// Packets to an address of this host come from that address. `connect` sends none.
fn is_own(address: SocketAddr) -> io::Result<bool> {
    let address = canonical(address);
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    Ok(socket.local_addr()?.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains__addresses_of_this_host_only() {
        let own = OwnAddresses::default();
        let of = |address: &str| own.contains(address.parse().unwrap());
        assert_eq!((of("127.0.0.1:9"), of("[::ffff:127.0.0.1]:9")), (Some(true), Some(true)));
        // Addresses of documentation, which nobody has. Without a route the kernel doesn't tell.
        for address in ["192.0.2.1:9", "[2001:db8::1]:9"] {
            assert_ne!(of(address), Some(true), "{address}");
        }
        for interface in nix::ifaddrs::getifaddrs().unwrap() {
            let Some(v4) = interface.address.as_ref().and_then(|a| a.as_sockaddr_in()) else {
                continue;
            };
            assert_eq!(own.contains(SocketAddr::from((v4.ip(), 9))), Some(true), "{v4}");
        }
    }

    #[test]
    fn contains__forgets() {
        let mut own = OwnAddresses::default();
        let address = "127.0.0.1:9".parse().unwrap();
        own.0.borrow_mut().insert(ScopedIp::from(address), Some(false));
        assert_eq!(own.contains(address), Some(false));
        own.forget();
        assert_eq!(own.contains(address), Some(true));
    }
}
