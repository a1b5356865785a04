//! Changes of a host's network under load, and their reversal.

use std::net::Ipv4Addr;

use anyhow::Result;
use testbed::{DEVICE, Host, Pair};

/// A change of the sending host's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Packets leave over an interface without programs.
    RouteElsewhere,
    /// Someone removes the root qdisc.
    QdiscRemoved,
    /// Someone replaces the root qdisc by another one.
    QdiscReplaced,
    /// The interface is down for a while.
    InterfaceDown,
    /// The interface disappears, and returns under its name.
    InterfaceGone,
    /// The MTU is smaller for a while.
    SmallMtu,
}

impl Change {
    /// All changes.
    pub const ALL: [Self; 6] = [
        Self::RouteElsewhere,
        Self::QdiscRemoved,
        Self::QdiscReplaced,
        Self::InterfaceDown,
        Self::InterfaceGone,
        Self::SmallMtu,
    ];

    /// Makes the change.
    pub fn make(self, pair: &Pair, cable: &SecondCable) -> Result<()> {
        let a = &pair.a.namespace;
        match self {
            Self::RouteElsewhere => {
                a.run(&format!("ip route add {} via {} dev {SECOND}", pair.b.ipv4, cable.there))
            }
            Self::QdiscRemoved => a.run(&format!("tc qdisc del dev {DEVICE} root")),
            Self::QdiscReplaced => {
                a.run(&format!("tc qdisc replace dev {DEVICE} root handle 77: pfifo limit 1000"))
            }
            Self::InterfaceDown => a.run(&format!("ip link set {DEVICE} down")),
            Self::InterfaceGone => a.run(&format!("ip link del {DEVICE}")),
            Self::SmallMtu => a.run(&format!("ip link set {DEVICE} mtu 1400")),
        }
        .map(drop)
    }

    /// Undoes it.
    pub fn undo(self, pair: &Pair, cable: &SecondCable) -> Result<()> {
        let a = &pair.a.namespace;
        match self {
            Self::RouteElsewhere => {
                a.run(&format!("ip route del {} via {} dev {SECOND}", pair.b.ipv4, cable.there))
            }
            // The daemon has put its own back.
            Self::QdiscRemoved => return Ok(()),
            Self::QdiscReplaced => a.run(&format!("tc qdisc del dev {DEVICE} root")),
            Self::InterfaceDown => {
                a.run(&format!("ip link set {DEVICE} up"))?;
                // The kernel forgot the address when the interface went down.
                a.run(&format!("ip address replace {}/64 dev {DEVICE}", pair.a.ipv6))
            }
            Self::InterfaceGone => return pair.connect(),
            Self::SmallMtu => a.run(&format!("ip link set {DEVICE} mtu 1500")),
        }
        .map(drop)
    }
}

/// The interface of the second cable, on both hosts.
pub const SECOND: &str = "eth1";

/// A cable that no daemon is attached to.
pub struct SecondCable {
    there: Ipv4Addr,
}

impl SecondCable {
    /// Lays the cable. Either host takes packets for any of its addresses from both.
    pub fn new(pair: &Pair) -> Result<Self> {
        let peer = pair.b.namespace.path();
        pair.a
            .namespace
            .run(&format!("ip link add {SECOND} type veth peer name {SECOND} netns {peer}"))?;
        let [here, there] = [Ipv4Addr::new(10, 98, 0, 1), Ipv4Addr::new(10, 98, 0, 2)];
        configure(&pair.a, here)?;
        configure(&pair.b, there)?;
        Ok(Self { there })
    }
}

fn configure(host: &Host, address: Ipv4Addr) -> Result<()> {
    for interface in ["all", "default", DEVICE, SECOND] {
        host.namespace.set(&format!("net/ipv4/conf/{interface}/rp_filter"), "0")?;
    }
    host.namespace.run(&format!("ip address add {address}/24 dev {SECOND}"))?;
    host.namespace.run(&format!("ip link set {SECOND} up"))?;
    Ok(())
}
