//! Frames on the wire.

use std::net::IpAddr;

use atp_common::checksum;
use atp_common::wire::{Fields, Header, Kind};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const VLAN: u16 = 7;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const TTL: u8 = 64;
const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;
const TCP_LEN: usize = 20;

/// The two ends of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
}

impl Ends {
    /// The reverse direction.
    pub fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// The Ethernet address of the interface that programs are attached to. An ingress program answers
/// only packets for this address.
pub const HERE: [u8; 6] = [2, 0, 0, 0, 0, 2];
const AWAY: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The form of a UDP datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub vlan: bool,
    /// Whether the UDP checksum is set; IPv4 may omit it.
    pub checksum: bool,
}

/// An ATP header of a test packet.
pub fn header(kind: Kind, job: u32, cookie: u32, slot: u32) -> Header {
    Header::new(&Fields { job, cookie, message: slot, count: 1, slot, ..Fields::of(kind) })
}

/// A UDP datagram in a frame.
pub fn udp(ends: &Ends, form: Form, payload: &[u8]) -> Vec<u8> {
    let len = (UDP_LEN + payload.len()) as u16;
    let mut datagram = Vec::with_capacity(usize::from(len));
    datagram.extend(ends.source.1.to_be_bytes());
    datagram.extend(ends.destination.1.to_be_bytes());
    datagram.extend(len.to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    if form.checksum || ends.source.0.is_ipv6() {
        let pseudo = address_sum(ends.source.0) + address_sum(ends.destination.0);
        let sum = pseudo + u64::from(PROTOCOL_UDP) + u64::from(len) + checksum::sum(&datagram);
        datagram[6..8].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
    }
    frame(ends, PROTOCOL_UDP, form.vlan, &datagram)
}

/// A TCP segment in a frame; the programs read only its IP header.
pub fn tcp(ends: &Ends, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; TCP_LEN];
    segment[..2].copy_from_slice(&ends.source.1.to_be_bytes());
    segment[2..4].copy_from_slice(&ends.destination.1.to_be_bytes());
    segment[12] = (TCP_LEN as u8 / 4) << 4;
    segment.extend(payload);
    frame(ends, PROTOCOL_TCP, false, &segment)
}

fn frame(ends: &Ends, protocol: u8, vlan: bool, transport: &[u8]) -> Vec<u8> {
    let mut frame = [HERE, AWAY].concat();
    if vlan {
        frame.extend(ETHERTYPE_VLAN.to_be_bytes());
        frame.extend(VLAN.to_be_bytes());
    }
    match (ends.source.0, ends.destination.0) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend(ETHERTYPE_IPV4.to_be_bytes());
            frame.extend(ipv4(source.octets(), destination.octets(), protocol, transport.len()));
        }
        (source, destination) => {
            frame.extend(ETHERTYPE_IPV6.to_be_bytes());
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([protocol, TTL]);
            frame.extend(mapped(source));
            frame.extend(mapped(destination));
        }
    }
    frame.extend(transport);
    frame
}

fn ipv4(source: [u8; 4], destination: [u8; 4], protocol: u8, len: usize) -> [u8; IPV4_LEN] {
    let mut header = [0; IPV4_LEN];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((IPV4_LEN + len) as u16).to_be_bytes());
    header[8] = TTL;
    header[9] = protocol;
    header[12..16].copy_from_slice(&source);
    header[16..].copy_from_slice(&destination);
    let sum = !checksum::fold(checksum::sum(&header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// An address as 16 bytes; IPv4 as `::ffff:a.b.c.d`.
pub fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn address_sum(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => checksum::sum(&v4.octets()),
        IpAddr::V6(v6) => checksum::sum(&v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp__checksums_add_up() {
        let ends = Ends {
            source: ("192.0.2.1".parse().unwrap(), 5000),
            destination: ("192.0.2.2".parse().unwrap(), 6000),
        };
        let frame = udp(&ends, Form { vlan: true, checksum: true }, &[1, 2, 3]);
        assert_eq!(frame.len(), 18 + 20 + 8 + 3);
        let (ip, datagram) = (&frame[18..38], &frame[38..]);
        // A sum over bytes that include its own complement is all ones (RFC 1071).
        assert_eq!(checksum::fold(checksum::sum(ip)), 0xffff);
        let pseudo = checksum::sum(&ip[12..20]) + 17 + datagram.len() as u64;
        assert_eq!(checksum::fold(pseudo + checksum::sum(datagram)), 0xffff);
    }
}
