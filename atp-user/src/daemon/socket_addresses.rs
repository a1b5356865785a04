//! What a UDP socket handed over by a client is bound and connected to. The daemon reads it from
//! the socket itself: holding the descriptor is the proof that the port is the client's.

use super::refuse;
use approxlib::control::{Refusal, RefusalKind};
use atp_common::maps::Flow;
use nix::{
    getsockopt_impl, libc, sockopt_impl,
    sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, getpeername, getsockname,
        getsockopt, socket, sockopt,
    },
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
};

sockopt_impl!(
    /// The transport of a socket, `IPPROTO_UDP` and so on.
    SocketProtocol,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_PROTOCOL,
    i32
);

sockopt_impl!(
    /// The network namespace of a socket.
    NamespaceCookie,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64
);

/// A network namespace, as the kernel tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkNamespace(u64);

impl NetworkNamespace {
    /// That of this thread.
    pub fn own() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let any = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
        Ok(Self(getsockopt(&any, NamespaceCookie)?))
    }
}

/// An address and port as the datapath compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// IPv6, or IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
    /// Host byte order.
    pub port: u16,
}

/// The ends of a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpEnds {
    /// Its own; the port is not 0.
    pub local: Endpoint,
    /// Its peer's, if it is connected.
    pub remote: Option<Endpoint>,
}

/// The ends of the bound UDP socket that `fds` must be, and nothing else, in `namespace`: elsewhere
/// addresses are whatever their owner likes, and nobody knows what becomes of its packets on the way
/// here. Any of these calls can block, if the client wants it to.
pub fn inspect(fds: &[OwnedFd], namespace: NetworkNamespace) -> Result<UdpEnds, Refusal> {
    let bad = |words: &str| refuse(RefusalKind::BadRequest, words);
    let [socket] = fds else { return no_socket() };
    let is_udp = getsockopt(socket, sockopt::SockType) == Ok(SockType::Datagram)
        && getsockopt(socket, SocketProtocol) == Ok(libc::IPPROTO_UDP);
    let local = if is_udp { local(socket) } else { None };
    let Some(local) = local else {
        return bad("the descriptor handed over is not a UDP socket");
    };
    if local.port == 0 {
        return bad("the socket handed over is not bound to a port");
    }
    if getsockopt(socket, NamespaceCookie) != Ok(namespace.0) {
        return refuse(
            RefusalKind::OtherNamespace,
            "the socket handed over is of another network namespace than this daemon's: run a daemon there, or go on without one",
        );
    }
    Ok(UdpEnds { local, remote: remote(socket).filter(|remote| remote.port != 0) })
}

/// The answer to a request that needs a socket and brings none, or more.
pub fn no_socket() -> Result<UdpEnds, Refusal> {
    refuse(RefusalKind::BadRequest, "this request comes with exactly one descriptor, a UDP socket")
}

fn local(socket: &OwnedFd) -> Option<Endpoint> {
    endpoint(&getsockname::<SockaddrStorage>(socket.as_raw_fd()).ok()?)
}

fn remote(socket: &OwnedFd) -> Option<Endpoint> {
    endpoint(&getpeername::<SockaddrStorage>(socket.as_raw_fd()).ok()?)
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
    use nix::sys::socket::SockProtocol;
    use std::net::UdpSocket;

    fn inspect_here(socket: impl Into<OwnedFd>) -> Result<UdpEnds, Refusal> {
        inspect(&[socket.into()], NetworkNamespace::own().unwrap())
    }

    #[test]
    fn inspect__reads_both_ends() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let unconnected = inspect_here(socket.try_clone().unwrap()).unwrap();
        let local = Endpoint { address: Flow::mapped([127, 0, 0, 1]), port };
        assert_eq!(unconnected, UdpEnds { local, remote: None });
        socket.connect("127.0.0.1:4747").unwrap();
        let remote = Endpoint { port: 4747, ..local };
        assert_eq!(inspect_here(socket).unwrap(), UdpEnds { local, remote: Some(remote) });
    }

    #[test]
    fn inspect__refuses_what_is_not_one_bound_udp_socket() {
        let refused = |fds: &[OwnedFd]| {
            inspect(fds, NetworkNamespace::own().unwrap()).unwrap_err().kind
                == RefusalKind::BadRequest
        };
        let udp = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(refused(&[]) && refused(&[udp(), udp()]));
        assert!(refused(&[std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()]));
        assert!(refused(&[std::fs::File::open("/dev/null").unwrap().into()]));
        let datagram =
            |family, protocol| socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, protocol);
        let unbound = datagram(AddressFamily::Inet, None).unwrap();
        assert!(refused(&[unbound]));
        assert!(refused(&[datagram(AddressFamily::Unix, None).unwrap()]));
        // A ping socket is a datagram socket with a port, too; not every user may have one.
        if let Ok(ping) = datagram(AddressFamily::Inet, Some(SockProtocol::Icmp)) {
            let any: SocketAddr = "127.0.0.1:77".parse().unwrap();
            nix::sys::socket::bind(ping.as_raw_fd(), &SockaddrStorage::from(any)).unwrap();
            assert!(refused(&[ping]));
        }
    }

    #[test]
    fn inspect__refuses_a_socket_of_another_namespace() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let NetworkNamespace(cookie) = NetworkNamespace::own().unwrap();
        let elsewhere = NetworkNamespace(cookie ^ 1);
        let refusal = inspect(&[socket.into()], elsewhere).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::OtherNamespace);
    }
}
