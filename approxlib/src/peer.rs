//! The addresses that an application gives: as values, as text, or as host names.

use crate::{
    address::{AddressError, ScopedIp, complete, parse_port, socket_address},
    error::Error,
};
use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs},
};

/// An address with a port, several of them, or a host name with a port: `10.0.0.2:4747`,
/// `[fe80::2%eth0]:4747`, `db7:4747`.
///
/// The types are those of the standard library's [`ToSocketAddrs`]. Its texts have no place for the
/// interface of a link-local address but as a number.
pub trait ToAddresses: fmt::Debug {
    /// The addresses, or the host name to look up.
    ///
    /// # Errors
    /// [`Error::Name`] if the text has no port, or an address that can't be.
    fn to_addresses(&self) -> Result<Addresses, Error>;
}

/// The text or address that an application gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Addresses.
    Known(Vec<SocketAddr>),
    /// A name for the resolver, and a port.
    Name(String, u16),
}

macro_rules! values {
    ($($value:ty),*) => {$(
        impl ToAddresses for $value {
            fn to_addresses(&self) -> Result<Addresses, Error> {
                Ok(Addresses::Known(vec![SocketAddr::from(*self)]))
            }
        }
    )*};
}

values!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToAddresses for [SocketAddr] {
    fn to_addresses(&self) -> Result<Addresses, Error> {
        Ok(Addresses::Known(self.to_vec()))
    }
}

impl ToAddresses for str {
    fn to_addresses(&self) -> Result<Addresses, Error> {
        let failed = |source| Error::Name { name: format!("{self:?}"), source };
        let of_address = |error| failed(io::Error::new(io::ErrorKind::InvalidInput, error));
        if self.starts_with('[') {
            return socket_address(self).map(|one| vec![one].into()).map_err(of_address);
        }
        let parts = self.rsplit_once(':').and_then(|(host, port)| Some((host, parse_port(port)?)));
        let (host, port) = parts.ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        match host_and_port(host, port) {
            Ok(found) => Ok(found),
            Err(error) => Err(of_address(error)),
        }
    }
}

impl ToAddresses for String {
    fn to_addresses(&self) -> Result<Addresses, Error> {
        self.as_str().to_addresses()
    }
}

impl ToAddresses for (&str, u16) {
    fn to_addresses(&self) -> Result<Addresses, Error> {
        host_and_port(self.0, self.1).map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, error);
            Error::Name { name: format!("{self:?}"), source }
        })
    }
}

impl ToAddresses for (String, u16) {
    fn to_addresses(&self) -> Result<Addresses, Error> {
        (self.0.as_str(), self.1).to_addresses()
    }
}

impl<T: ToAddresses + ?Sized> ToAddresses for &T {
    fn to_addresses(&self) -> Result<Addresses, Error> {
        (**self).to_addresses()
    }
}

impl From<Vec<SocketAddr>> for Addresses {
    fn from(known: Vec<SocketAddr>) -> Self {
        Self::Known(known)
    }
}

/// An address without brackets, or a host name.
fn host_and_port(host: &str, port: u16) -> Result<Addresses, AddressError> {
    match host.parse::<ScopedIp>() {
        Ok(ip) => Ok(vec![complete(ip.at(port))?].into()),
        Err(AddressError::NoIp(_)) => Ok(Addresses::Name(host.to_owned(), port)),
        Err(error) => Err(error),
    }
}

/// The addresses of `name`, in the resolver's order, each once. Blocks while a host name is
/// resolved.
pub fn resolve(name: &(impl ToAddresses + ?Sized)) -> Result<Vec<SocketAddr>, Error> {
    let shown = format!("{name:?}");
    match name.to_addresses()? {
        Addresses::Known(known) => resolved(shown, Ok(known.into_iter())),
        Addresses::Name(host, port) => resolved(shown, (host, port).to_socket_addrs()),
    }
}

/// The addresses that a resolver gave for `name`, each once.
pub fn resolved(
    name: String,
    found: io::Result<impl Iterator<Item = SocketAddr>>,
) -> Result<Vec<SocketAddr>, Error> {
    let failed = |source| Error::Name { name, source };
    let found = match found {
        Ok(found) => found,
        Err(error) => return Err(failed(error)),
    };
    let mut addresses = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(failed(io::Error::other("the list is empty"))),
        false => Ok(addresses),
    }
}

/// Opens the first of `addresses` that can be opened. A host may have addresses of a family that
/// this one can't reach, as with TCP.
///
/// # Errors
/// The error of the last address that can't be reached, or the first other error.
pub fn first_reachable<T>(
    addresses: &[SocketAddr],
    open: impl Fn(SocketAddr) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut unreachable = Error::NoPeers;
    for address in addresses {
        match open(*address) {
            Err(error @ (Error::Socket { .. } | Error::PathTooNarrow { .. })) => {
                unreachable = error;
            }
            done => return done,
        }
    }
    Err(unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve__takes_addresses_and_names() {
        let address: SocketAddr = "127.0.0.1:4747".parse().unwrap();
        assert_eq!(resolve(&address).unwrap(), [address]);
        assert_eq!(resolve("127.0.0.1:4747").unwrap(), [address]);
        assert_eq!(resolve(&"127.0.0.1:4747".to_owned()).unwrap(), [address]);
        assert_eq!(resolve(&("127.0.0.1", 4747)).unwrap(), [address]);
        assert_eq!(resolve(&("127.0.0.1".to_owned(), 4747)).unwrap(), [address]);
        assert_eq!(resolve(&(address.ip(), 4747)).unwrap(), [address]);
        assert!(resolve("localhost:4747").unwrap().iter().all(|one| one.ip().is_loopback()));
        assert_eq!(resolve(&[address, address][..]).unwrap(), [address]);
    }

    #[test]
    fn resolve__keeps_the_interface_of_a_link_local_address() {
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        let by_index = [format!("[fe80::1%{lo}]:4747"), format!("fe80::1%{lo}:4747")];
        let by_name = ["[fe80::1%lo]:4747", "fe80::1%lo:4747"].map(str::to_owned);
        let expected = SocketAddrV6::new("fe80::1".parse().unwrap(), 4747, 0, lo).into();
        for name in by_index.iter().chain(&by_name) {
            assert_eq!(resolve(name).unwrap(), [expected], "{name}");
        }
        assert_eq!(resolve(&("fe80::1%lo", 4747)).unwrap(), [expected]);
    }

    #[test]
    fn resolve__names_the_cause() {
        for name in ["localhost", "127.0.0.1", "no such host:4747", "", ":1", "localhost:70000"] {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")) && error.contains("host:port"), "{error}");
        }
        assert!(resolve(&[][..]).is_err(), "an empty list");
        for name in ["localhost", "127.0.0.1", "", "localhost:70000"] {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.contains("has no port from 0 to 65535; give"), "{error}");
        }
        for name in ["\0:1", ":1"] {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.contains("has no address: "), "{error}");
        }
        for (name, words) in [
            ("[fe80::1%nowhere7]:4747", "`ip link` lists them"),
            ("fe80::1%nowhere7:4747", "`ip link` lists them"),
            ("[fe80::1]:4747", "needs its interface, as in [fe80::1%eth0]:4747"),
            ("[fd00::1%lo]:4747", "leave out \"%lo\""),
            ("[db7]:4747", "no IP address with a port"),
        ] {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("host:port"), "{error}");
        }
    }

    #[test]
    fn first_reachable__skips_addresses_that_this_host_cannot_reach() {
        let addresses = ["[::1]:1", "127.0.0.1:1", "127.0.0.1:2"].map(|text| text.parse().unwrap());
        let open = |address: SocketAddr| match address {
            SocketAddr::V6(_) => Err(Error::Socket {
                doing: "connecting to",
                address,
                source: io::Error::from(io::ErrorKind::NetworkUnreachable),
            }),
            SocketAddr::V4(_) => Ok(address),
        };
        assert_eq!(first_reachable(&addresses, open).unwrap(), addresses[1]);
        assert!(matches!(first_reachable(&addresses[..1], open), Err(Error::Socket { .. })));
        let wrong = |_| Err::<(), _>(Error::NoMessages);
        assert!(matches!(first_reachable(&addresses, wrong), Err(Error::NoMessages)));
    }
}
