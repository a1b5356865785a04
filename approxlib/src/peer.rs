//! Addresses given as text or as values, and host names.

use crate::error::Error;
use std::{
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
};

/// The addresses of `name`, in the resolver's order, each once. Blocks while a host name is
/// resolved.
pub fn resolve(name: &(impl ToSocketAddrs + fmt::Debug)) -> Result<Vec<SocketAddr>, Error> {
    resolved(format!("{name:?}"), name.to_socket_addrs())
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
        assert_eq!(resolve(&"127.0.0.1:4747").unwrap(), [address]);
        assert_eq!(resolve(&("127.0.0.1", 4747)).unwrap(), [address]);
        assert!(resolve(&"localhost:4747").unwrap().iter().all(|one| one.ip().is_loopback()));
        assert_eq!(resolve(&&[address, address][..]).unwrap(), [address]);
        for name in ["[fe80::1%1]:4747", "fe80::1%lo:4747"] {
            let SocketAddr::V6(found) = resolve(&name).unwrap()[0] else { panic!("{name}") };
            assert_eq!((found.scope_id(), found.port()), (1, 4747), "{name}");
        }
    }

    #[test]
    fn resolve__names_the_cause() {
        for name in ["localhost", "127.0.0.1", "no such host:4747", "", ":1", "localhost:70000"] {
            let error = resolve(&name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")) && error.contains("host:port"), "{error}");
        }
        assert!(resolve(&&[][..]).is_err(), "an empty list");
        for name in ["localhost", "127.0.0.1", "", "localhost:70000"] {
            let error = resolve(&name).unwrap_err().to_string();
            assert!(error.contains("has no port from 0 to 65535; give"), "{error}");
        }
        for name in ["\0:1", ":1"] {
            let error = resolve(&name).unwrap_err().to_string();
            assert!(error.contains("has no address: "), "{error}");
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
