//! Looks up the route that the kernel would choose for an address.

use approxlib::ScopedIp;
use atp_datapath::{names_of_carriers, netlink_query::Query};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteMetric},
};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::{io, net::IpAddr};

/// The kernel's route to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The outgoing interface's index.
    pub ifindex: u32,
    /// The outgoing interface's name.
    pub interface: String,
    /// The outgoing interface's name and, if it is a VLAN, those of the interfaces below: a daemon
    /// there sees its packets.
    pub carriers: Vec<String>,
    /// The source address of packets, if the kernel names one.
    pub source: Option<IpAddr>,
    /// The path MTU in bytes that the route states, or that the kernel has learned.
    pub path_mtu_bytes: Option<u32>,
}

/// The route to `address` in the network namespace of this thread. Fails with the kernel's error,
/// such as "Network is unreachable".
pub fn route_to(address: ScopedIp) -> io::Result<Route> {
    let mut question = RouteMessage::default();
    let (family, bits) = match address.ip() {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    question.header.address_family = family;
    question.header.destination_prefix_length = bits;
    question.attributes.push(RouteAttribute::Destination(address.ip().into()));
    if address.scope() != 0 {
        question.attributes.push(RouteAttribute::Oif(address.scope()));
    }
    let answers = Query::open(NETLINK_ROUTE)?.one(RouteNetlinkMessage::GetRoute(question))?;
    let route = answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewRoute(route) => parse(route),
        _ => None,
    });
    let (ifindex, source, path_mtu_bytes) =
        route.ok_or_else(|| io::Error::other("the kernel's answer names no interface"))?;
    let interface = nix::net::if_::if_indextoname(ifindex)?.to_string_lossy().into_owned();
    let carriers = names_of_carriers(ifindex)?;
    Ok(Route { ifindex, interface, carriers, source, path_mtu_bytes })
}

/// The interface's index, the source address and the path MTU.
fn parse(route: &RouteMessage) -> Option<(u32, Option<IpAddr>, Option<u32>)> {
    let (mut ifindex, mut source, mut path_mtu_bytes) = (None, None, None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => ifindex = Some(*index),
            RouteAttribute::PrefSource(RouteAddress::Inet(v4)) => source = Some((*v4).into()),
            RouteAttribute::PrefSource(RouteAddress::Inet6(v6)) => source = Some((*v6).into()),
            RouteAttribute::Metrics(metrics) => {
                path_mtu_bytes = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(bytes) if *bytes > 0 => Some(*bytes),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    Some((ifindex?, source, path_mtu_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_to__loopback() {
        let route = route_to("127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!((route.interface.as_str(), route.ifindex), ("lo", 1));
        assert_eq!(route.source, Some("127.0.0.1".parse().unwrap()));
        let mapped = route_to("::ffff:127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(mapped, route);
    }

    #[test]
    fn parse__a_learned_path_mtu() {
        let mut message = RouteMessage::default();
        assert_eq!(parse(&message), None);
        message.attributes = vec![
            RouteAttribute::Oif(7),
            RouteAttribute::Metrics(vec![RouteMetric::Hoplimit(64), RouteMetric::Mtu(1_400)]),
        ];
        assert_eq!(parse(&message), Some((7, None, Some(1_400))));
        message.attributes[1] = RouteAttribute::Metrics(vec![RouteMetric::Mtu(0)]);
        assert_eq!(parse(&message), Some((7, None, None)));
    }
}
