//! The peers of connections for metrics: users of this host, or other hosts.

use crate::daemon::subordinate_ids::{Range, SubordinateIds};
use atp_datapath::netlink_query::Query;
use atp_metrics::Peer;
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED},
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::net::SocketAddr;

/// The index of the loopback interface in every network namespace.
const LOOPBACK_INDEX: u32 = 1;

/// Finds the users of local connections, and their owners.
pub struct PeerLookup {
    sockets: Option<Query>,
    subordinate: SubordinateIds,
}

impl PeerLookup {
    /// Without netlink all users of this host are one peer.
    pub fn open() -> Self {
        let query = Query::open(NETLINK_SOCK_DIAG);
        if let Err(error) = &query {
            tracing::debug!(%error, "can't tell the users of local scrapes");
        }
        Self { sockets: query.ok(), subordinate: SubordinateIds::of_this_host() }
    }

    /// The peer of a connection between these addresses.
    pub fn peer(&mut self, remote: SocketAddr, local: SocketAddr) -> Peer {
        match self.sockets.as_ref().and_then(|query| user(query, remote, local)) {
            Some(uid) => Peer::User { owner: self.owner(uid), uid },
            None => Peer::host(remote.ip()),
        }
    }

    /// Containers of root must not have root's share: each of their ranges has its own.
    fn owner(&mut self, uid: u32) -> u32 {
        let owner = |range: Range| range.uid.filter(|user| *user != 0).unwrap_or(range.first);
        self.subordinate.range_of(uid).map_or(uid, owner)
    }
}

/// The user of the socket at the other end, if it is one of this host.
fn user(query: &Query, remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    let socket_id = SocketId {
        source_port: remote.port(),
        destination_port: local.port(),
        source_address: remote.ip().to_canonical(),
        destination_address: local.ip().to_canonical(),
        // Also finds sockets that are bound to the interface.
        interface_id: LOOPBACK_INDEX,
        cookie: [0xff; 8],
    };
    let request = SockDiagMessage::InetRequest(InetRequest {
        family: if socket_id.source_address.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    });
    let answers = query.one(request).ok()?;
    let header = answers.into_iter().find_map(|answer| match answer {
        SockDiagMessage::InetResponse(response) => Some(response.header),
        _ => None,
    })?;
    // The kernel may name a listener instead, and has no user of a socket that was closed.
    (header.state == TCP_ESTABLISHED).then_some(header.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::geteuid;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn peer__is_the_user_of_a_local_connection() {
        let mut lookup = PeerLookup::open();
        let uid = geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            let to = if address.starts_with("127") { "127.0.0.1" } else { "::1" };
            for to in [to, if address == "[::]:0" { "127.0.0.1" } else { to }] {
                let _client = TcpStream::connect((to, port)).unwrap();
                let (stream, remote) = listener.accept().unwrap();
                let peer = lookup.peer(remote, stream.local_addr().unwrap());
                assert_eq!(peer, Peer::User { owner: uid, uid }, "{address}, {to}");
            }
        }
    }

    #[test]
    fn peer__is_a_host_if_no_socket_of_this_one_has_the_address() {
        let mut lookup = PeerLookup::open();
        // The kernel finds this listener for the port.
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let at = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
        for (remote, network, host) in [
            ("192.0.2.7", "192.0.2.0", "192.0.2.7"),
            ("127.8.0.1", "127.0.0.1", "127.0.0.1"),
            ("::ffff:192.0.2.7", "192.0.2.0", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::", "2001:db8:1:2::"),
        ] {
            let peer = lookup.peer(at(remote, port), at("127.0.0.1", 9));
            let (network, host) = (network.parse().unwrap(), host.parse().unwrap());
            assert_eq!(peer, Peer::Host { network, host }, "{remote}");
        }
    }
}
