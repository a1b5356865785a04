//! Asks the kernel whether UDP sockets are still open (sock_diag(7)).

use super::netlink_query::Query;
use netlink_packet_sock_diag::{
    AF_INET, AF_INET6, IPPROTO_UDP, SockDiagMessage,
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::{io, net::SocketAddr};

/// A bound UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSocketId {
    /// The kernel's cookie of the socket; never 0.
    pub cookie: u64,
    /// The address to which it is bound, not an IPv4-mapped one.
    pub local: SocketAddr,
    /// The address of its peer, if it is connected.
    pub remote: Option<SocketAddr>,
    /// The interface to which it is bound; 0 for none.
    pub interface: u32,
}

/// The UDP sockets in the network namespace of the thread that opened this.
pub struct UdpSockets(Query);

impl UdpSockets {
    /// Opens a netlink socket.
    pub fn open() -> io::Result<Self> {
        Query::open(NETLINK_SOCK_DIAG).map(Self)
    }

    /// Whether the kernel delivers packets of the socket's peer to this very socket. Costs as much
    /// as the lookup for a packet.
    ///
    /// `false` doesn't mean that the socket is closed: others may share its port, or its owner may
    /// have connected it to another peer. [`Self::are_on_port`] tells.
    pub fn gets_packets(&self, socket: &UdpSocketId) -> io::Result<bool> {
        let family = if socket.local.is_ipv4() { AF_INET } else { AF_INET6 };
        let any = if socket.local.is_ipv4() { SocketId::new_v4() } else { SocketId::new_v6() };
        let remote = socket.remote.filter(|remote| remote.is_ipv4() == socket.local.is_ipv4());
        // For UDP, the kernel takes the source for the peer's address: the question is about a
        // packet that arrives.
        let id = SocketId {
            source_port: remote.map_or(0, |remote| remote.port()),
            source_address: remote.map_or(any.source_address, |remote| remote.ip()),
            destination_port: socket.local.port(),
            destination_address: socket.local.ip(),
            interface_id: socket.interface,
            cookie: bytes_of(socket.cookie),
        };
        match self.0.one(request(family, id)) {
            Ok(answers) => Ok(!answers.is_empty()),
            // No socket, or one with another cookie.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESTALE)) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the socket is open, and bound to its port. Takes the kernel a pass through the table
    /// of all UDP sockets.
    ///
    /// # Errors
    /// Also if the kernel lacks `udp_diag` (CONFIG_INET_UDP_DIAG).
    pub fn are_on_port(&self, socket: &UdpSocketId) -> io::Result<bool> {
        // A socket of IPv6 may have IPv4 addresses.
        let families = if socket.local.is_ipv4() { &[AF_INET, AF_INET6][..] } else { &[AF_INET6] };
        for &family in families {
            let any = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
            let id = SocketId { source_port: socket.local.port(), ..any };
            let listed = self.0.all(request(family, id))?;
            if listed.iter().any(|entry| cookie_in(entry) == Some(bytes_of(socket.cookie))) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn request(family: u8, socket_id: SocketId) -> SockDiagMessage {
    SockDiagMessage::InetRequest(InetRequest {
        family,
        protocol: IPPROTO_UDP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::from_bits_retain(u32::MAX),
        socket_id,
    })
}

fn cookie_in(entry: &SockDiagMessage) -> Option<[u8; 8]> {
    match entry {
        SockDiagMessage::InetResponse(response) => Some(response.header.socket_id.cookie),
        _ => None,
    }
}

/// A cookie as the kernel writes it: two words, the lower one first.
fn bytes_of(cookie: u64) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) =
        ((cookie as u32).to_ne_bytes(), ((cookie >> 32) as u32).to_ne_bytes());
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{getsockopt_impl, sockopt_impl, sys::socket::getsockopt};
    use socket2::{Domain, Socket, Type};
    use std::net::UdpSocket;

    sockopt_impl!(Cookie, GetOnly, libc::SOL_SOCKET, libc::SO_COOKIE, u64);

    fn id_of(socket: &UdpSocket) -> UdpSocketId {
        let cookie = getsockopt(socket, Cookie).unwrap();
        let plain =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (local, remote) = (socket.local_addr().unwrap(), socket.peer_addr().ok());
        UdpSocketId { cookie, local: plain(local), remote: remote.map(plain), interface: 0 }
    }

    fn seen(socket: &UdpSocketId) -> (bool, bool) {
        let sockets = UdpSockets::open().unwrap();
        (sockets.gets_packets(socket).unwrap(), sockets.are_on_port(socket).unwrap())
    }

    #[test]
    fn seen__until_the_last_descriptor_is_closed() {
        for (address, peer) in [
            ("127.0.0.1:0", Some("127.0.0.1:9")),
            ("0.0.0.0:0", None),
            ("[::1]:0", Some("[::1]:9")),
            ("[::]:0", None),
            // An IPv6 socket with IPv4 addresses.
            ("[::]:0", Some("[::ffff:127.0.0.1]:9")),
        ] {
            let socket = UdpSocket::bind(address).unwrap();
            if let Some(peer) = peer {
                socket.connect(peer).unwrap();
            }
            let id = id_of(&socket);
            assert_eq!(seen(&id), (true, true), "{id:?}");
            let held_elsewhere = socket.try_clone().unwrap();
            drop(socket);
            assert_eq!(seen(&id), (true, true), "{id:?}");
            drop(held_elsewhere);
            assert_eq!(seen(&id), (false, false), "{id:?}");
            // Another socket has its port now.
            let next = UdpSocket::bind(SocketAddr::new(id.local.ip(), id.local.port()));
            assert_eq!(seen(&id), (false, false), "{id:?}");
            drop(next);
        }
    }

    #[test]
    fn seen__beside_others_that_share_the_port() {
        let shared = |address: SocketAddr| -> UdpSocket {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            socket.set_reuse_port(true).unwrap();
            socket.bind(&address.into()).unwrap();
            socket.into()
        };
        let first = shared("127.0.0.1:0".parse().unwrap());
        let all: Vec<_> = (0..8).map(|_| shared(first.local_addr().unwrap())).collect();
        // Packets of one peer go to one of them.
        let sockets = UdpSockets::open().unwrap();
        let getting = all.iter().chain([&first]).filter(|socket| {
            assert!(sockets.are_on_port(&id_of(socket)).unwrap());
            sockets.gets_packets(&id_of(socket)).unwrap()
        });
        assert_eq!(getting.count(), 1);
        let id = id_of(&first);
        drop(first);
        assert_eq!(seen(&id), (false, false));
    }

    #[test]
    fn seen__not_on_a_port_that_its_owner_gave_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let elsewhere =
            UdpSocketId { local: SocketAddr::new(id_of(&socket).local.ip(), 9), ..id_of(&socket) };
        assert_eq!(seen(&elsewhere), (false, false));
    }
}
