//! Which addresses are this host's own.
//!
//! A list of the interfaces would tell too, but the kernel makes it under its lock of the network
//! configuration. Others hold that for seconds, and a receiver that waits for it answers nobody.
//! `bind` and `connect` look at the routes, without that lock.

use crate::address::{ScopedIp, canonical};
use std::{
    cell::RefCell,
    collections::HashMap,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

/// The most addresses that are remembered.
const KNOWN_MAX: usize = 4_096;

/// Tells over which interface packets arrive.
#[derive(Debug)]
pub struct ArrivalLines {
    /// The index of the loopback interface; 0 if this host has none.
    loopback: u32,
    own: OwnAddresses,
}

impl ArrivalLines {
    /// The interfaces of the calling thread's network namespace.
    pub fn new() -> Self {
        let loopback = nix::net::if_::if_nametoindex("lo").unwrap_or(0);
        Self { loopback, own: OwnAddresses::default() }
    }

    /// The interfaces of a host that has only the loopback, as if it led to others.
    #[cfg(test)]
    pub fn over_loopback() -> Self {
        Self { loopback: 0, own: OwnAddresses::default() }
    }

    /// The interface over which a packet of `source` arrived, if the kernel names `interface`;
    /// `None` in doubt. The kernel names the interface of the destination address for packets of
    /// this host to itself, but they travel over the loopback.
    pub fn over(&self, interface: u32, source: SocketAddr) -> Option<u32> {
        let is_own = self.own.contains(source)?;
        Some(if is_own { self.loopback } else { interface }).filter(|index| *index != 0)
    }

    /// The index of the loopback interface; 0 if this host has none.
    pub const fn loopback(&self) -> u32 {
        self.loopback
    }

    /// Looks at this host's addresses again: they come and go.
    pub fn forget(&mut self) {
        self.own.forget();
    }
}

/// Remembers the kernel's answers until they are forgotten.
#[derive(Debug, Default)]
struct OwnAddresses(RefCell<HashMap<ScopedIp, bool>>);

impl OwnAddresses {
    /// Whether `address` is one of this host's; `None` if the kernel doesn't tell.
    fn contains(&self, address: SocketAddr) -> Option<bool> {
        let mut known = self.0.borrow_mut();
        let host = ScopedIp::from(address);
        if let Some(is_own) = known.get(&host) {
            return Some(*is_own);
        }
        let is_own = is_own(address).ok()?;
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(host, is_own);
        Some(is_own)
    }

    fn forget(&mut self) {
        self.0.get_mut().clear();
    }
}

/// The kernel binds sockets to addresses of this host only, as long as `ip_nonlocal_bind` is off.
fn is_own(address: SocketAddr) -> io::Result<bool> {
    let mut address = canonical(address);
    address.set_port(0);
    match UdpSocket::bind(address) {
        Ok(_) if !binds_any(address.ip()) => Ok(true),
        Ok(_) => Ok(leaves_from(address)?),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether sockets may have addresses that this host doesn't have.
fn binds_any(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let setting = fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
    setting.is_ok_and(|setting| setting.trim() != "0")
}

/// Whether packets to an address leave from it, as those to a host's first addresses do. `connect`
/// sends none.
fn leaves_from(mut address: SocketAddr) -> io::Result<bool> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    address.set_port(9);
    let socket = UdpSocket::bind((any, 0))?;
    match socket.connect(address) {
        Ok(()) => Ok(socket.local_addr()?.ip() == address.ip()),
        // Each address of this host has a route.
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains__addresses_of_this_host_only() {
        let own = OwnAddresses::default();
        let of = |address: &str| own.contains(address.parse().unwrap());
        assert_eq!((of("127.0.0.1:9"), of("[::ffff:127.0.0.1]:9")), (Some(true), Some(true)));
        // Addresses of documentation, which nobody has.
        for address in ["192.0.2.1:9", "[2001:db8::1]:9"] {
            assert_ne!(of(address), Some(true), "{address}");
        }
        let leaves_from = |address: &str| leaves_from(address.parse().unwrap()).unwrap();
        assert!(leaves_from("127.0.0.1:0") && !leaves_from("192.0.2.1:0"));
        for interface in nix::ifaddrs::getifaddrs().unwrap() {
            let Some(v4) = interface.address.as_ref().and_then(|a| a.as_sockaddr_in()) else {
                continue;
            };
            assert_eq!(own.contains(SocketAddr::from((v4.ip(), 9))), Some(true), "{v4}");
        }
    }

    #[test]
    fn contains__keeps_no_more_than_its_limit() {
        let own = OwnAddresses::default();
        for number in 0..2 * KNOWN_MAX as u32 {
            let address = Ipv4Addr::from_bits(0x7f01_0000 + number);
            assert_eq!(own.contains((address, 9).into()), Some(true));
            assert!(own.0.borrow().len() <= KNOWN_MAX);
        }
    }

    #[test]
    fn contains__forgets() {
        let mut own = OwnAddresses::default();
        let address = "127.0.0.1:9".parse().unwrap();
        own.0.borrow_mut().insert(ScopedIp::from(address), false);
        assert_eq!(own.contains(address), Some(false));
        own.forget();
        assert_eq!(own.contains(address), Some(true));
    }
}
