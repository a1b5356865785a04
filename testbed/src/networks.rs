//! Hosts and cables.

use crate::{
    host::{DEVICE, Family, Host},
    namespace::Namespace,
    wait::wait_for,
};
use anyhow::Result;
use std::{
    net::{Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

/// Two hosts on one cable.
#[derive(Debug)]
pub struct Pair {
    /// The host 10.99.0.1.
    pub a: Host,
    /// The host 10.99.0.2.
    pub b: Host,
    queues: u16,
}

impl Pair {
    /// Makes both hosts, and waits until packets pass between them.
    pub fn new() -> Result<Self> {
        Self::with_queues(1)
    }

    /// Makes both hosts, with this number of queues in both directions.
    pub fn with_queues(queues: u16) -> Result<Self> {
        let pair = Self { a: host(0, 1)?, b: host(0, 2)?, queues };
        pair.connect()?;
        Ok(pair)
    }

    /// Makes the cable, which must not be there, and waits until packets pass.
    pub fn connect(&self) -> Result<()> {
        let queues = format!("numtxqueues {0} numrxqueues {0}", self.queues);
        let there = self.b.namespace.path();
        self.a.namespace.run(&format!(
            "ip link add {DEVICE} {queues} type veth peer name {DEVICE} {queues} netns {there}"
        ))?;
        configure(&self.a)?;
        configure(&self.b)?;
        wait_until_connected(&self.a, &self.b)
    }
}

/// Hosts around a router, each in its own subnet.
#[derive(Debug)]
pub struct Star {
    /// The router; its port to host `i` is `port<i>`.
    pub router: Namespace,
    /// The hosts.
    pub hosts: Vec<Host>,
}

impl Star {
    /// Makes the hosts, and waits until packets pass between them. The router forwards packets
    /// unchanged: it merges none, and it doesn't check source addresses.
    pub fn new(hosts: u8) -> Result<Self> {
        let router = Namespace::new()?;
        router.set("net/ipv4/ip_forward", "1")?;
        router.set("net/ipv6/conf/all/forwarding", "1")?;
        router.set("net/ipv4/conf/all/rp_filter", "0")?;
        router.set("net/ipv4/conf/default/rp_filter", "0")?;
        let hosts: Vec<_> =
            (0..hosts).map(|index| Self::connect(&router, index)).collect::<Result<_>>()?;
        if let [first, others @ ..] = &hosts[..] {
            others.iter().try_for_each(|other| wait_until_connected(first, other))?;
        }
        Ok(Self { router, hosts })
    }

    fn connect(router: &Namespace, index: u8) -> Result<Host> {
        let host = host(index, 2)?;
        let (port, there) = (format!("port{index}"), host.namespace.path());
        router.run(&format!("ip link add {port} type veth peer name {DEVICE} netns {}", there))?;
        router.run(&format!("ip address add 10.99.{index}.1/24 dev {port}"))?;
        router.run(&format!("ip address add fd99:{index}::1/64 dev {port}"))?;
        router.run(&format!("ip link set {port} up"))?;
        router.run(&format!("ethtool -K {port} tso off gso off gro off"))?;
        host.namespace.set("net/ipv4/conf/all/rp_filter", "0")?;
        host.namespace.set("net/ipv4/conf/default/rp_filter", "0")?;
        configure(&host)?;
        host.namespace.run(&format!("ip route add default via 10.99.{index}.1"))?;
        host.namespace.run(&format!("ip -6 route add default via fd99:{index}::1"))?;
        Ok(host)
    }

    /// Gives the router's port to host `index` a rate (`20mbit`) and a queue of `packets` packets.
    pub fn shape(&self, index: u8, rate: &str, packets: u32) -> Result<()> {
        let port = format!("port{index}");
        for line in [
            format!("tc qdisc add dev {port} root handle 1: htb default 1"),
            format!(
                "tc class add dev {port} parent 1: classid 1:1 htb rate {rate} burst 3028 cburst 3028"
            ),
            format!("tc qdisc add dev {port} parent 1:1 pfifo limit {packets}"),
        ] {
            self.router.run(&line)?;
        }
        Ok(())
    }
}

/// Gives the interface its addresses (prefix lengths 24 and 64) and brings it up.
fn configure(Host { namespace, ipv4, ipv6, .. }: &Host) -> Result<()> {
    namespace.run(&format!("ip address add {ipv4}/24 dev {DEVICE}"))?;
    namespace.run(&format!("ip address add {ipv6}/64 dev {DEVICE}"))?;
    namespace.run(&format!("ip link set {DEVICE} up"))?;
    Ok(())
}

/// Waits until packets pass in both directions, over both families, and the interfaces are up.
/// IPv6 has no routes for a moment.
fn wait_until_connected(a: &Host, b: &Host) -> Result<()> {
    for family in [Family::V4, Family::V6] {
        let (here, there) = (listen(a, family)?, listen(b, family)?);
        let arrives = |from: &UdpSocket, to: &UdpSocket| -> Result<Option<()>> {
            // Sending fails too while there are no routes.
            from.send_to(b"there?", to.local_addr()?).ok();
            Ok(to.recv(&mut [0; 16]).ok().map(drop))
        };
        wait_for("packets to arrive", || arrives(&here, &there))?;
        wait_for("packets to come back", || arrives(&there, &here))?;
    }
    for host in [a, b] {
        wait_for("the interface to be up", || {
            let link = host.namespace.run(&format!("ip link show dev {DEVICE}"))?;
            Ok(link.contains(" state UP ").then_some(()))
        })?;
    }
    Ok(())
}

fn listen(host: &Host, family: Family) -> Result<UdpSocket> {
    let address = host.endpoint(family, 0);
    // The address may not be ready either.
    let socket =
        wait_for("an address", || host.namespace.enter(|| Ok(UdpSocket::bind(address).ok())))?;
    socket.set_read_timeout(Some(Duration::from_millis(10)))?;
    Ok(socket)
}

fn host(subnet: u8, number: u8) -> Result<Host> {
    let v6 = Ipv6Addr::new(0xfd99, u16::from(subnet), 0, 0, 0, 0, 0, u16::from(number));
    let name = format!("host {subnet}.{number}");
    Host::new(&name, Namespace::new()?, Ipv4Addr::new(10, 99, subnet, number), v6)
}
