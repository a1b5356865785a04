//! The switch. It forwards packets between ports; each port has the profile's queues towards its
//! host.
//!
//! It routes IP packets and is not a bridge. A packet that crosses a bridge stays charged to its
//! sender's socket until it arrives. TCP's small queues and UDP's send buffer would then limit
//! senders before the port's buffer is full, as no real switch does. Routing uncharges the socket
//! on arrival, as a cable does.
//!
//! A host's NIC is at the switch's end of its cable too. Packets from the host pass a second veth
//! pair, whose near end limits them to the link's rate in FIFO order. The host's own interface
//! keeps the kernel's defaults, and a daemon can attach to it, so packets meet the same NIC with
//! and without a daemon. A packet in the NIC is still charged to its sender's socket, as on a real
//! host. An ifb device would need no second pair, but loading its module adds two links to the
//! machine's own namespace.

use anyhow::{Context, Result};
use serde::Deserialize;
use switch_profiles::{PortRole, QueueNote, TcKernel, render_tc, render_tc_limits};

use super::Options;
use super::port::{GATEWAY_IPV4, GATEWAY_IPV6, Port};
use crate::host::{DEVICE, Host};
use crate::iproute;
use crate::namespace::Namespace;

/// The packets that a NIC's driver and qdisc buffer together on a common Linux host.
const NIC_PACKETS: u32 = 1_000;
const NIC_BURST_BYTES_MIN: u64 = 3_028;
/// Above 242 Mbit/s a burst lasts 100 us: with shorter bursts the kernel's timers would cost rate.
const NIC_BURSTS_PER_S: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Switch {
    namespace: Namespace,
}

/// The counters of one queue of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub dropped_packets: u64,
}

impl Switch {
    pub fn new() -> Result<Switch> {
        let switch = Switch { namespace: Namespace::empty()? };
        let namespace = &switch.namespace;
        namespace.set("net/ipv4/ip_forward", "1")?;
        // Replies to packets from a NIC leave through the port.
        namespace.set("net/ipv4/conf/all/rp_filter", "0")?;
        namespace.set("net/ipv4/conf/default/rp_filter", "0")?;
        namespace.set("net/ipv6/conf/all/forwarding", "1")?;
        let lines = [
            "link set dev lo up".to_owned(),
            format!("addr add {GATEWAY_IPV4}/32 dev lo"),
            format!("addr add {GATEWAY_IPV6}/128 dev lo nodad"),
        ];
        switch.batch("ip", &lines)?;
        Ok(switch)
    }

    /// Connects each host by a cable, a veth pair. Both ends split packets to the MTU, so that a
    /// queue's limit counts the same packets as a real switch's.
    pub fn plug_in(&self, hosts: &[&Host]) -> Result<()> {
        let mut lines = Vec::new();
        for host in hosts {
            let inside = host.namespace.path();
            let port = Port::of(host);
            let (nic, nic_end) = (port.nic(), port.nic_end());
            let (mac, port_mac, port) = (port.host_mac(), port.mac(), port.name());
            lines.push(format!(
                "link add {port} address {port_mac} type veth peer name {DEVICE} address {mac} \
                 netns {inside}"
            ));
            lines.push(format!("link set dev {port} gso_max_segs 1 addrgenmode none up"));
            // Frames that leave the NIC are addressed to the port.
            lines.push(format!("link add {nic} type veth peer name {nic_end} address {port_mac}"));
            for end in [nic, nic_end] {
                lines.push(format!("link set dev {end} gso_max_segs 1 addrgenmode none up"));
            }
            for address in [format!("{}/32", host.ipv4), format!("{}/128", host.ipv6)] {
                lines.push(format!("route add {address} dev {port}"));
            }
            for address in [host.ipv4.to_string(), host.ipv6.to_string()] {
                lines
                    .push(format!("neigh replace {address} lladdr {mac} dev {port} nud permanent"));
            }
        }
        self.batch("ip", &lines)
    }

    /// Gives every port the profile's queues, and every NIC its rate. Returns a note per queue
    /// about this kernel's fidelity to the profile.
    pub fn apply(
        &self,
        senders: &[Host],
        receiver: &Host,
        options: &Options,
    ) -> Result<Vec<QueueNote>> {
        let kernel = probe();
        let mut lines = Vec::new();
        let mut notes = Vec::new();
        let senders = senders.iter().map(|host| (host, options.rates(false)));
        for (host, (port_rate, nic_rate)) in senders.chain([(receiver, options.rates(true))]) {
            let port = Port::of(host).name();
            let rendering =
                render_tc(&options.profile, &port, PortRole::ToHost, port_rate / 8, kernel);
            lines.extend(rendering.commands);
            notes = rendering.notes;
            lines.extend(nic(host, nic_rate));
        }
        self.batch("tc", &lines)?;
        Ok(notes)
    }

    /// Gives every port the queue limits of `options`, which are of another profile.
    pub fn limit(&self, senders: &[Host], receiver: &Host, options: &Options) -> Result<()> {
        let kernel = probe();
        let senders = senders.iter().map(|host| (host, options.rates(false).0));
        let ports = senders.chain([(receiver, options.rates(true).0)]);
        let lines: Vec<String> = ports
            .flat_map(|(host, rate)| {
                let port = Port::of(host).name();
                let role = PortRole::ToHost;
                render_tc_limits(&options.profile, &port, role, rate / 8, kernel)
            })
            .collect();
        self.batch("tc", &lines)
    }

    pub fn wait_until_links_are_up(&self) -> Result<()> {
        iproute::wait_until_links_are_up(&self.namespace)
    }

    /// The counters of the port towards `host`, which has as many `queues`.
    pub fn counters(&self, host: &Host, queues: usize) -> Result<Vec<PortCounters>> {
        let port = Port::of(host).name();
        let json =
            iproute::output("tc", &self.namespace, &["-s", "-j", "qdisc", "show", "dev", &port])?;
        queue_counters(&json, queues).with_context(|| format!("counters of {port}"))
    }

    fn batch(&self, program: &str, lines: &[String]) -> Result<()> {
        iproute::batch(program, &self.namespace, lines).context("the switch can't be built")
    }
}

/// The `tc` lines that send a host's packets through its NIC.
fn nic(host: &Host, rate_bits_per_s: u64) -> [String; 5] {
    let (nic, port) = (Port::of(host).nic(), Port::of(host).name());
    let burst = (rate_bits_per_s / 8 / NIC_BURSTS_PER_S).max(NIC_BURST_BYTES_MIN);
    [
        format!("qdisc add dev {nic} root handle 1: htb default 1"),
        format!(
            "class add dev {nic} parent 1: classid 1:1 htb rate {rate_bits_per_s}bit \
             ceil {rate_bits_per_s}bit burst {burst} cburst {burst} quantum 1514"
        ),
        format!("qdisc add dev {nic} parent 1:1 pfifo limit {NIC_PACKETS}"),
        format!("qdisc add dev {port} handle ffff: ingress"),
        // u32 with an empty match takes every packet, even on kernels without matchall.
        format!(
            "filter add dev {port} parent ffff: protocol all prio 1 u32 match u32 0 0 \
             action mirred egress redirect dev {nic}"
        ),
    ]
}

/// Tries the RED qdisc in an empty namespace, because modules load on demand.
fn probe() -> TcKernel {
    let red = "qdisc add dev lo root red limit 400000 min 97500 max 97501 avpkt 1500 burst 65 \
               probability 1 bandwidth 200mbit ecn nodrop";
    let has_red =
        Namespace::empty().and_then(|ns| iproute::batch("tc", &ns, &[red.to_owned()])).is_ok();
    TcKernel { has_red }
}

/// Reads `tc -s -j qdisc show`: the queues are the qdiscs under the classes from 1:10 on.
fn queue_counters(json: &str, queues: usize) -> Result<Vec<PortCounters>> {
    #[derive(Deserialize)]
    struct Qdisc {
        parent: Option<String>,
        packets: u64,
        bytes: u64,
        drops: u64,
    }
    let qdiscs: Vec<Qdisc> = serde_json::from_str(json)?;
    let mut queues = vec![PortCounters::default(); queues];
    for qdisc in qdiscs {
        let Some(class) = qdisc.parent.as_deref().and_then(|p| p.strip_prefix("1:")) else {
            continue;
        };
        let Ok(class) = usize::from_str_radix(class, 16) else { continue };
        let Some(queue) = class.checked_sub(0x10).and_then(|queue| queues.get_mut(queue)) else {
            continue;
        };
        *queue = PortCounters {
            sent_packets: qdisc.packets,
            sent_bytes: qdisc.bytes,
            dropped_packets: qdisc.drops,
        };
    }
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_counters__finds_the_leaves() {
        let json = r#"[
            {"kind":"htb","handle":"1:","root":true,"bytes":9,"packets":9,"drops":1,"qlen":0},
            {"kind":"pfifo","handle":"10:","parent":"1:10","options":{"limit":257},"bytes":300,"packets":3,"drops":0},
            {"kind":"pfifo","handle":"17:","parent":"1:17","options":{"limit":2},"bytes":600,"packets":6,"drops":4}
        ]"#;
        let queues = queue_counters(json, 8).unwrap();
        assert_eq!(queues.len(), 8);
        assert_eq!((queues[0].sent_packets, queues[0].dropped_packets), (3, 0));
        assert_eq!((queues[7].sent_bytes, queues[7].dropped_packets), (600, 4));
        assert_eq!(queues[3], PortCounters::default());
        assert_eq!(queue_counters(json, 1).unwrap(), queues[..1]);
        assert!(queue_counters("nonsense", 8).is_err());
    }
}
