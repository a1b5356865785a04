//! What a UDP socket handed over by a client is bound and connected to. The daemon reads it from
//! the socket itself: holding the descriptor is the proof that the port is the client's.

use anyhow::{Result, ensure};
use atp_common::maps::Flow;
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getpeername, getsockname, getsockopt,
    sockopt,
};
use std::{
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
};

/// An address and port as the datapath compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// IPv6, or IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
    /// Host byte order.
    pub port: u16,
}

/// The local port of a bound UDP socket.
pub fn bound_port(socket: &OwnedFd) -> Result<u16> {
    Ok(local(socket)?.port)
}

/// Both ends of a connected UDP socket.
pub fn connected(socket: &OwnedFd) -> Result<(Endpoint, Endpoint)> {
    let local = local(socket)?;
    let peer =
        getpeername::<SockaddrStorage>(socket.as_raw_fd()).ok().and_then(|peer| endpoint(&peer));
    let Some(peer) = peer.filter(|peer| peer.port != 0) else {
        anyhow::bail!("the socket handed over is not connected");
    };
    Ok((local, peer))
}

fn local(socket: &OwnedFd) -> Result<Endpoint> {
    ensure!(
        getsockopt(socket, sockopt::SockType).ok() == Some(SockType::Datagram),
        "the descriptor handed over is not a UDP socket"
    );
    let local = getsockname::<SockaddrStorage>(socket.as_raw_fd()).ok();
    let Some(local) = local.as_ref().and_then(endpoint) else {
        anyhow::bail!("the descriptor handed over is not a UDP socket");
    };
    ensure!(local.port != 0, "the socket handed over is not bound to a port");
    Ok(local)
}

fn endpoint(storage: &SockaddrStorage) -> Option<Endpoint> {
    let address: SocketAddr = match storage.family()? {
        AddressFamily::Inet => SocketAddr::V4((*storage.as_sockaddr_in()?).into()),
        AddressFamily::Inet6 => SocketAddr::V6((*storage.as_sockaddr_in6()?).into()),
        _ => return None,
    };
    Some(Endpoint::from(address))
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let bytes = match address.ip() {
            std::net::IpAddr::V4(v4) => Flow::mapped(v4.octets()),
            std::net::IpAddr::V6(v6) => v6.octets(),
        };
        Self { address: bytes, port: address.port() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn connected__reads_both_ends() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect("127.0.0.1:4747").unwrap();
        let port = socket.local_addr().unwrap().port();
        let (local, peer) = connected(&OwnedFd::from(socket)).unwrap();
        assert_eq!(local, Endpoint { address: Flow::mapped([127, 0, 0, 1]), port });
        assert_eq!(peer, Endpoint { address: Flow::mapped([127, 0, 0, 1]), port: 4747 });
    }

    #[test]
    fn connected__refuses_what_is_not_a_connected_udp_socket() {
        let unconnected = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(connected(&OwnedFd::from(unconnected)).is_err());
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(connected(&OwnedFd::from(tcp)).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(bound_port(&OwnedFd::from(file)).is_err());
    }
}
