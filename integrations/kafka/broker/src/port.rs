//! Free ports that stay free for a broker, also while it is stopped.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};

/// A port that the kernel gives to no other program, neither to a server nor to a client, until
/// this value is dropped. A server that sets SO_REUSEADDR, as a JVM does, can still listen on it.
#[derive(Debug)]
pub struct ReservedPort {
    /// Bound, and never listening.
    _socket: Socket,
    pub address: SocketAddr,
}

impl ReservedPort {
    /// A free port of this machine's address `ip`.
    ///
    /// # Errors
    /// `ip` is no address of this network namespace.
    pub fn new(ip: IpAddr) -> Result<ReservedPort> {
        let reserve = || {
            let socket = Socket::new(Domain::for_address((ip, 0).into()), Type::STREAM, None)?;
            // Without SO_REUSEADDR until here, the kernel doesn't choose another's reserved port.
            socket.bind(&SocketAddr::new(ip, 0).into())?;
            socket.set_reuse_address(true)?;
            let address = socket.local_addr()?.as_socket();
            let address = address.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
            Ok::<_, std::io::Error>(ReservedPort { _socket: socket, address })
        };
        reserve().with_context(|| {
            format!("no port of {ip} can be reserved here; give one if it is in another network")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn new__a_server_can_listen_again_and_again() {
        let reserved = ReservedPort::new(LOOPBACK).unwrap();
        for _ in 0..3 {
            // The standard library sets SO_REUSEADDR, as a JVM does.
            let server = TcpListener::bind(reserved.address).unwrap();
            let client = TcpStream::connect(reserved.address).unwrap();
            let (accepted, _) = server.accept().unwrap();
            // The server closes first, which leaves its port in TIME-WAIT.
            drop((accepted, server));
            drop(client);
        }
        assert!(TcpStream::connect(reserved.address).is_err(), "nothing listens");
    }

    #[test]
    fn new__nothing_else_gets_the_port() {
        let reserved = ReservedPort::new(LOOPBACK).unwrap();
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let refused = other.bind(&reserved.address.into()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
        let more: Vec<_> = (0..50).map(|_| ReservedPort::new(LOOPBACK).unwrap()).collect();
        let mut ports: Vec<u16> = more.iter().map(|port| port.address.port()).collect();
        ports.push(reserved.address.port());
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 51);
    }

    #[test]
    fn new__says_that_an_address_is_not_of_this_network() {
        let error = ReservedPort::new("192.0.2.1".parse().unwrap()).unwrap_err();
        assert!(format!("{error:#}").starts_with("no port of 192.0.2.1 can be reserved here"));
    }
}
