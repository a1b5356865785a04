//! Looks up the interface by which packets leave this host.

use super::pacing::netlink::Netlink;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage},
    route::{RouteAttribute, RouteMessage},
};
use std::{io, net::SocketAddr};

/// The most interfaces below each other: VLANs inside VLANs.
const DEPTH_MAX: usize = 4;

/// The packets of a connected UDP socket, as far as routing rules distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    /// The socket's address. Neither address is an IPv4-mapped one.
    pub local: SocketAddr,
    /// The address of its peer.
    pub remote: SocketAddr,
    /// The interface that the socket is bound to; 0 for none.
    pub interface: u32,
    /// The socket's mark; 0 for none.
    pub mark: u32,
    /// The socket's owner.
    pub uid: u32,
}

/// The way out of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The name of the interface to which the route leads.
    pub name: String,
    /// The interface's index. If it is a VLAN, the interfaces below follow: the programs there see
    /// its packets with their tags.
    pub interfaces: Vec<u32>,
}

impl RouteQuery {
    /// The interface of a link-local address, the peer's or the socket's; 0 if neither is one.
    pub const fn scope(&self) -> u32 {
        match (scope_of(self.remote), scope_of(self.local)) {
            (0, local) => local,
            (remote, _) => remote,
        }
    }

    /// Asks the kernel. The calling thread must be in the socket's network namespace.
    ///
    /// # Errors
    /// The kernel's error, for example ENETUNREACH without a route.
    pub fn look_up(&self) -> io::Result<Route> {
        let mut netlink = Netlink::open()?;
        let answer = netlink.get(RouteNetlinkMessage::GetRoute(self.message()))?;
        let RouteNetlinkMessage::NewRoute(route) = answer else { return Err(unexpected()) };
        let outgoing = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        });
        let carriers = carriers(&mut netlink, outgoing.ok_or_else(unexpected)?)?;
        let name = carriers.first().map(|(_, name)| name.clone()).unwrap_or_default();
        Ok(Route { name, interfaces: carriers.into_iter().map(|(index, _)| index).collect() })
    }

    fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        let (family, bits) = match self.remote {
            SocketAddr::V4(_) => (AddressFamily::Inet, 32),
            SocketAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message.header.address_family = family;
        message.header.destination_prefix_length = bits;
        message.header.source_prefix_length = bits;
        message.attributes = vec![
            RouteAttribute::Destination(self.remote.ip().into()),
            RouteAttribute::Source(self.local.ip().into()),
            RouteAttribute::IpProto(libc::IPPROTO_UDP as u8),
            RouteAttribute::Sport(self.local.port()),
            RouteAttribute::Dport(self.remote.port()),
            RouteAttribute::Uid(self.uid),
        ];
        if self.interface != 0 {
            message.attributes.push(RouteAttribute::Oif(self.interface));
        }
        if self.mark != 0 {
            message.attributes.push(RouteAttribute::Mark(self.mark));
        }
        message
    }
}

/// An interface and, if it is a VLAN, those below it: indices and names.
fn carriers(netlink: &mut Netlink, index: u32) -> io::Result<Vec<(u32, String)>> {
    let (mut found, mut next) = (Vec::new(), Some(index));
    while let Some(index) = next
        && found.len() < DEPTH_MAX
    {
        let link = Link::look_up(netlink, index)?;
        found.push((index, link.name));
        next = link.below;
    }
    Ok(found)
}

/// The names of an interface and, if it is a VLAN, of those below it: the programs there see its
/// packets too.
pub fn names_of_carriers(index: u32) -> io::Result<Vec<String>> {
    let carriers = carriers(&mut Netlink::open()?, index)?;
    Ok(carriers.into_iter().map(|(_, name)| name).collect())
}

struct Link {
    name: String,
    /// The interface that carries it, if it is a VLAN of this namespace.
    below: Option<u32>,
}

impl Link {
    fn look_up(netlink: &mut Netlink, index: u32) -> io::Result<Self> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let answer = netlink.get(RouteNetlinkMessage::GetLink(message))?;
        let RouteNetlinkMessage::NewLink(link) = answer else { return Err(unexpected()) };
        let (mut name, mut below) = (String::new(), None);
        let (mut is_vlan, mut is_elsewhere) = (false, false);
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = text,
                LinkAttribute::Link(index) => below = Some(index),
                LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
                LinkAttribute::LinkInfo(infos) => {
                    is_vlan = infos.contains(&LinkInfo::Kind(InfoKind::Vlan));
                }
                _ => {}
            }
        }
        Ok(Self { name, below: below.filter(|_| is_vlan && !is_elsewhere) })
    }
}

const fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel answered something else than a route")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope__either_address_may_be_link_local() {
        let query = |local: &str, remote: &str| {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            RouteQuery { local, remote, interface: 0, mark: 0, uid: 0 }.scope()
        };
        assert_eq!(query("[fe80::1%3]:1", "[fe80::2%3]:2"), 3);
        assert_eq!(query("[fd00::1]:1", "[fe80::2%3]:2"), 3);
        assert_eq!(query("[fe80::1%3]:1", "[fd00::2]:2"), 3);
        assert_eq!(query("[fd00::1]:1", "[fd00::2]:2"), 0);
        assert_eq!(query("10.0.0.1:1", "10.0.0.2:2"), 0);
    }

    #[test]
    fn look_up__an_own_address_is_reached_over_the_loopback() {
        for address in ["127.0.0.1", "::1"] {
            let at = |port| SocketAddr::new(address.parse().unwrap(), port);
            let (local, remote) = (at(5_000), at(5_001));
            let query = RouteQuery { local, remote, interface: 0, mark: 0, uid: 0 };
            let route = query.look_up();
            // This machine may have no IPv6.
            if remote.is_ipv6() && route.is_err() {
                continue;
            }
            let index = nix::net::if_::if_nametoindex("lo").unwrap();
            assert_eq!(route.unwrap(), Route { name: "lo".into(), interfaces: vec![index] });
        }
    }
}
