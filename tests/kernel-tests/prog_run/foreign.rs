//! Tests that packets of other protocols, and ATP packets in unsupported encapsulations, pass
//! untouched.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::wire::{Fields, Header, Kind};
use atp_tests::{
    capability::Suite,
    packets::{Shape, data_fields},
    prog_run::{Rig, TC_PASS, XDP_PASS},
};

pub fn add(suite: &mut Suite) {
    suite.add("foreign__other_protocols_pass", NEEDS, other_protocols_pass);
    suite.add("foreign__fragments_pass", NEEDS, fragments_pass);
    suite.add("foreign__extension_headers_pass", NEEDS, extension_headers_pass);
    suite.add("foreign__wrong_lengths_pass", NEEDS, wrong_lengths_pass);
    suite.add("foreign__two_tags_pass", NEEDS, two_tags_pass);
}

/// Checks that every program passes the packet unchanged and counts nothing.
fn untouched(rig: &Rig, packet: &[u8], what: &str) -> Result<()> {
    for (name, outcome) in [
        ("egress", rig.egress(packet)?),
        ("ingress", rig.ingress(packet)?),
        ("xdp", rig.xdp(packet)?),
    ] {
        let pass = if name == "xdp" { XDP_PASS } else { TC_PASS };
        ensure!(outcome.verdict == pass, "{what}: {name} returned {}", outcome.verdict);
        ensure!(outcome.packet == packet, "{what}: {name} changed it");
    }
    let counted: Vec<_> = rig.datapath.counters()?.into_iter().filter(|(_, n)| *n > 0).collect();
    ensure!(counted.is_empty(), "{what}: counted {counted:?}");
    Ok(())
}

/// DATA on the flow, and its ACK.
fn both_ways(shape: &Shape) -> [Vec<u8>; 2] {
    let ack = Fields { kind: Kind::Ack, ..data_fields(1) };
    [shape.data(&Header::new(&data_fields(1))), shape.answer(&Header::new(&ack))]
}

/// Changes bytes of DATA and ACK, and expects them to pass.
fn changed(rig: &Rig, shape: &Shape, changes: &[(usize, u8)], what: &str) -> Result<()> {
    rig.use_flow(shape.ipv6)?;
    for mut packet in both_ways(shape) {
        for (at, value) in changes {
            packet[*at] = *value;
        }
        untouched(rig, &packet, what)?;
    }
    Ok(())
}

const IPV4: Shape =
    Shape { ipv6: false, vlan: false, options: 0, checksum: false, ecn: 0, dscp: 0, body: 50 };
const IPV6: Shape = Shape { ipv6: true, ..IPV4 };

fn other_protocols_pass() -> Result<()> {
    let rig = Rig::new()?;
    for protocol in (0..=255).filter(|protocol| *protocol != 17) {
        changed(&rig, &IPV4, &[(14 + 9, protocol)], "protocol over IPv4")?;
        changed(&rig, &IPV6, &[(14 + 6, protocol)], "protocol over IPv6")?;
    }
    changed(&rig, &IPV4, &[(12, 0x08), (13, 0x06)], "ARP")?;
    changed(&rig, &IPV4, &[(12, 0x00), (13, 0x2e)], "802.3")?;
    changed(&rig, &IPV4, &[(14, 0x55)], "version 5")?;
    changed(&rig, &IPV6, &[(14, 0x45)], "version 4 as IPv6")
}

fn fragments_pass() -> Result<()> {
    let rig = Rig::new()?;
    changed(&rig, &IPV4, &[(14 + 6, 0x20)], "the first fragment")?;
    changed(&rig, &IPV4, &[(14 + 7, 0x01)], "a later fragment")?;
    changed(&rig, &IPV4, &[(14 + 6, 0x1f), (14 + 7, 0xff)], "the last fragment")
}

fn extension_headers_pass() -> Result<()> {
    let rig = Rig::new()?;
    for next in [0, 43, 44, 50, 51, 60, 135, 139, 140] {
        changed(&rig, &IPV6, &[(14 + 6, next)], "extension header")?;
    }
    Ok(())
}

fn wrong_lengths_pass() -> Result<()> {
    let rig = Rig::new()?;
    for words in 0..5 {
        changed(&rig, &IPV4, &[(14, 0x40 | words)], "a header shorter than any")?;
    }
    changed(&rig, &IPV4, &[(14 + 2, 0), (14 + 3, 19)], "total length below the header's")?;
    changed(&rig, &IPV4, &[(14 + 2, 0), (14 + 3, 60)], "UDP longer than IPv4's payload")?;
    changed(&rig, &IPV6, &[(14 + 4, 0), (14 + 5, 30)], "UDP longer than IPv6's payload")?;
    let udp = IPV4.udp_offset();
    changed(&rig, &IPV4, &[(udp + 4, 0), (udp + 5, 7)], "UDP shorter than its header")?;
    changed(&rig, &IPV4, &[(udp + 4, 0xff), (udp + 5, 0xff)], "UDP longer than everything")
}

fn two_tags_pass() -> Result<()> {
    let rig = Rig::new()?;
    for mut packet in both_ways(&Shape { vlan: true, ..IPV4 }) {
        // A second tag in front of the first.
        packet.splice(12..12, [0x88, 0xa8, 0, 5]);
        untouched(&rig, &packet, "two tags")?;
    }
    Ok(())
}
