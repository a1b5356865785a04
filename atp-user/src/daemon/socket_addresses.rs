//! Reads the addresses and the cookie of a UDP socket that a client passes to the daemon.
//!
//! The daemon asks the socket itself: the descriptor proves that the client owns the port, as long
//! as the socket is open.

use super::{internal, refuse};
use approxlib::control::{Refusal, RefusalKind};
use atp_common::maps::{Flow, PortEntry};
use atp_datapath::UdpSocketId;
use nix::{
    getsockopt_impl, libc, sockopt_impl,
    sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, getpeername, getsockname,
        getsockopt, socket, sockopt,
    },
};
use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
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

sockopt_impl!(
    /// The index of the interface that a socket is bound to; 0 for none.
    BoundInterface,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_BINDTOIFINDEX,
    u32
);

sockopt_impl!(
    /// The kernel's name of a socket, which no other one gets until the host restarts.
    SocketCookie,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_COOKIE,
    u64
);

/// A network namespace, by the kernel's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkNamespace(u64);

impl NetworkNamespace {
    /// The namespace of this thread.
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
    /// The interface of a link-local address; 0 for others.
    pub scope: u32,
}

/// The local and remote endpoint of a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpEndpoints {
    /// The local endpoint; its port is not 0.
    pub local: Endpoint,
    /// The remote endpoint, if the socket is connected.
    pub remote: Option<Endpoint>,
    /// The interface that the socket is bound to, or that its peer's address names; 0 for none.
    pub interface: u32,
    /// The socket's mark; 0 for none.
    pub mark: u32,
    /// The socket's cookie; not 0.
    pub cookie: u64,
}

impl UdpEndpoints {
    /// The socket, for questions to the kernel.
    pub fn id(&self) -> UdpSocketId {
        UdpSocketId {
            cookie: self.cookie,
            local: self.local.socket_address(),
            remote: self.remote.map(|remote| remote.socket_address()),
            interface: self.interface,
        }
    }
}

/// The endpoints of the bound UDP socket in `fds`, which must hold nothing else.
///
/// The socket must be in `namespace`: in another one its owner chooses addresses freely and can
/// change packets on their way. A client can make any of these calls block.
pub fn inspect(fds: &[OwnedFd], namespace: NetworkNamespace) -> Result<UdpEndpoints, Refusal> {
    let bad = |words: &str| refuse(RefusalKind::BadRequest, words);
    let [socket] = fds else { return refuse_missing_socket() };
    let is_udp = getsockopt(socket, sockopt::SockType) == Ok(SockType::Datagram)
        && getsockopt(socket, SocketProtocol) == Ok(libc::IPPROTO_UDP);
    let local = if is_udp { local(socket) } else { None };
    let Some(local) = local else {
        return bad("the descriptor in this request is not a UDP socket: send a bound UDP socket");
    };
    if local.port == 0 {
        return bad("the socket in this request is not bound to a port: bind it first");
    }
    if getsockopt(socket, NamespaceCookie) != Ok(namespace.0) {
        return refuse(
            RefusalKind::OtherNamespace,
            "the socket in this request is in another network namespace than the daemon: run a daemon there, or go on without one",
        );
    }
    let cookie = getsockopt(socket, SocketCookie).map_err(internal)?;
    if matches!(cookie, 0 | PortEntry::ANY_SOCKET) {
        return Err(internal("the kernel gave the socket no cookie"));
    }
    let bound = getsockopt(socket, BoundInterface).unwrap_or(0);
    let remote = remote(socket).filter(|remote| remote.port != 0);
    Ok(UdpEndpoints {
        local,
        remote,
        interface: if bound != 0 { bound } else { remote.map_or(0, |remote| remote.scope) },
        mark: getsockopt(socket, sockopt::Mark).unwrap_or(0),
        cookie,
    })
}

/// Refuses a request that needs a socket and has none, or several.
pub fn refuse_missing_socket() -> Result<UdpEndpoints, Refusal> {
    refuse(
        RefusalKind::BadRequest,
        "this request needs exactly one descriptor: send one UDP socket",
    )
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

impl Endpoint {
    /// The address with IPv4-mapped IPv6 as IPv4.
    pub fn socket_address(&self) -> SocketAddr {
        match Ipv6Addr::from(self.address).to_canonical() {
            IpAddr::V4(v4) => (v4, self.port).into(),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, self.port, 0, self.scope).into(),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let (bytes, scope) = match address {
            SocketAddr::V4(v4) => (Flow::mapped(v4.ip().octets()), 0),
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.scope_id()),
        };
        Self { address: bytes, port: address.port(), scope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::SockProtocol;
    use std::net::UdpSocket;

    fn inspect_here(socket: impl Into<OwnedFd>) -> Result<UdpEndpoints, Refusal> {
        inspect(&[socket.into()], NetworkNamespace::own().unwrap())
    }

    #[test]
    fn inspect__reads_both_endpoints() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let unconnected = inspect_here(socket.try_clone().unwrap()).unwrap();
        let local = Endpoint { address: Flow::mapped([127, 0, 0, 1]), port, scope: 0 };
        let cookie = getsockopt(&socket, SocketCookie).unwrap();
        let expected = UdpEndpoints { local, remote: None, interface: 0, mark: 0, cookie };
        assert_eq!(unconnected, expected);
        socket.connect("127.0.0.1:4747").unwrap();
        let remote = Endpoint { port: 4747, ..local };
        let expected = UdpEndpoints { remote: Some(remote), ..expected };
        assert_eq!(inspect_here(socket).unwrap(), expected);
    }

    #[test]
    fn inspect__refuses_all_but_one_bound_udp_socket() {
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
        // A ping socket is a datagram socket with a port too. Not every user may open one.
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
