//! A port of the switch: the addresses of its host and the names of its interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};

use crate::host::{DEVICE, Host};
use crate::iproute;
use crate::namespace::Namespace;

/// The switch's own address in the hosts' routes.
pub(super) const GATEWAY_IPV4: Ipv4Addr = Ipv4Addr::new(10, 66, 255, 254);
pub(super) const GATEWAY_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 0xffff);

/// A port, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Port(u16);

impl Port {
    pub fn new(number: usize) -> Result<Port> {
        Ok(Port(u16::try_from(number).context("too many hosts")?))
    }

    /// The port of a host: its number is the last two bytes of the IPv4 address.
    pub fn of(host: &Host) -> Port {
        let [.., high, low] = host.ipv4.octets();
        Port(u16::from_be_bytes([high, low]))
    }

    /// Makes the host of this port, without an interface yet.
    pub fn host(self, name: &str) -> Result<Host> {
        Host::new(name, Namespace::empty()?, self.ipv4(), self.ipv6())
    }

    fn ipv4(self) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(10, 66, high, low)
    }

    fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, self.0)
    }

    /// The name of the port's interface.
    pub fn name(self) -> String {
        format!("port{}", self.0)
    }

    /// The name of the host's NIC, at the switch's end of the cable.
    pub fn nic(self) -> String {
        format!("nic{}", self.0)
    }

    /// The name of the interface where packets from the NIC enter the switch.
    pub fn nic_end(self) -> String {
        format!("nic{}out", self.0)
    }

    /// The MAC of the host's interface.
    pub fn host_mac(self) -> String {
        let [high, low] = self.0.to_be_bytes();
        format!("02:a7:90:00:{high:02x}:{low:02x}")
    }

    /// The MAC of the port.
    pub fn mac(self) -> String {
        let [high, low] = self.0.to_be_bytes();
        format!("02:a7:91:00:{high:02x}:{low:02x}")
    }
}

/// Gives a host its addresses and its routes to all other hosts. Static neighbors avoid lookups
/// during a measurement.
pub(super) fn configure(host: &Host) -> Result<()> {
    // A connection must not start from the cached TCP metrics of an earlier run.
    host.namespace.set("net/ipv4/tcp_no_metrics_save", "1")?;
    let mut lines = vec![
        "link set dev lo up".to_owned(),
        format!("link set dev {DEVICE} gso_max_segs 1 addrgenmode none up"),
        format!("addr add {}/32 dev {DEVICE}", host.ipv4),
        format!("addr add {}/128 dev {DEVICE} nodad", host.ipv6),
    ];
    let port_mac = Port::of(host).mac();
    let routes = [("10.66.0.0/16", IpAddr::from(GATEWAY_IPV4)), ("fd66::/64", GATEWAY_IPV6.into())];
    for (network, gateway) in routes {
        lines.push(format!("neigh replace {gateway} lladdr {port_mac} dev {DEVICE} nud permanent"));
        lines.push(format!("route add {network} via {gateway} dev {DEVICE} onlink"));
    }
    iproute::batch("ip", &host.namespace, &lines)
        .with_context(|| format!("can't configure {}", host.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses__differ_and_fit_their_prefix() {
        let (first, far) = (Port(1), Port(258));
        assert_eq!(first.ipv4(), Ipv4Addr::new(10, 66, 0, 1));
        assert_eq!(far.ipv4(), Ipv4Addr::new(10, 66, 1, 2));
        assert_eq!(far.ipv6().to_string(), "fd66::102");
        assert_eq!(far.host_mac(), "02:a7:90:00:01:02");
        assert_eq!((far.name(), far.nic()), ("port258".to_owned(), "nic258".to_owned()));
    }
}
