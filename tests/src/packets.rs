//! Builds and checks packets for the eBPF programs with etherparse, an independent implementation.

use anyhow::{Context, Result, ensure};
use atp_common::wire::{Fields, HEADER_LEN, Header, Kind};
use etherparse::{
    IpDscp, IpEcn, IpHeaders, Ipv4Header, Ipv6FlowLabel, Ipv6Header, NetHeaders, PacketBuilder,
    PacketHeaders, TransportHeader, VlanId, ip_number,
};

/// The sender's end of the test flow.
pub const SENDER: End = End { port: 7001, ipv4: [10, 0, 0, 1], mac: [2, 0, 0, 0, 0, 1] };
/// The receiver's end.
pub const RECEIVER: End = End { port: 7000, ipv4: [10, 0, 0, 2], mac: [2, 0, 0, 0, 0, 2] };
/// The receiver's end in test runs: their device is a loopback interface, whose address is zero.
pub const LOCAL_RECEIVER: End = End { mac: [0; 6], ..RECEIVER };
/// The flow's job.
pub const JOB: u32 = 42;
/// The job's cookie.
pub const COOKIE: u32 = 0xc00c_1e55;
/// The group with a lane.
pub const GROUP: u8 = 5;

const FLOW_LABEL: u32 = 0xbeef5;

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// UDP port.
    pub port: u16,
    /// IPv4 address; the IPv6 address is derived from it.
    pub ipv4: [u8; 4],
    /// Ethernet address.
    pub mac: [u8; 6],
}

impl End {
    /// `fd00::a.b.c.d`
    pub const fn ipv6(&self) -> [u8; 16] {
        let [a, b, c, d] = self.ipv4;
        [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
    }
}

/// The encapsulation of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// A VLAN tag in the packet's bytes, not in its metadata.
    pub vlan: bool,
    /// IPv4 options, 32-bit words.
    pub options: usize,
    /// A UDP checksum (IPv6 always has one).
    pub checksum: bool,
    /// ECN bits.
    pub ecn: u8,
    /// DSCP.
    pub dscp: u8,
    /// Bytes after the ATP header.
    pub body: usize,
}

impl Shape {
    /// A selection that covers every option.
    pub fn all() -> Vec<Self> {
        let plain = Self { body: 100, dscp: 46, ..Self::default() };
        vec![
            plain,
            Self { checksum: true, ecn: 1, ..plain },
            Self { checksum: true, body: 1399, ecn: 2, ..plain },
            Self { options: 1, ..plain },
            Self { options: 10, checksum: true, ecn: 3, ..plain },
            Self { vlan: true, body: 0, ..plain },
            Self { vlan: true, checksum: true, options: 3, ..plain },
            Self { ipv6: true, ecn: 3, ..plain },
            Self { ipv6: true, body: 1, ..plain },
            Self { ipv6: true, vlan: true, body: 1401, ..plain },
        ]
    }

    /// Bytes before the UDP header.
    pub const fn udp_offset(&self) -> usize {
        let ip = if self.ipv6 { 40 } else { 20 + 4 * self.options };
        14 + if self.vlan { 4 } else { 0 } + ip
    }

    /// Bytes before the payload.
    pub const fn payload_offset(&self) -> usize {
        self.udp_offset() + 8
    }

    /// Builds a UDP packet with this payload.
    pub fn udp(&self, from: &End, to: &End, payload: &[u8]) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2(from.mac, to.mac);
        let ip = self.ip(from, to);
        let step = if self.vlan {
            ethernet.single_vlan(VlanId::try_new(7).expect("below 4096")).ip(ip)
        } else {
            ethernet.ip(ip)
        };
        let step = step.udp(from.port, to.port);
        let mut packet = Vec::with_capacity(step.size(payload.len()));
        step.write(&mut packet, payload).expect("a vector takes everything");
        if !self.ipv6 && !self.checksum {
            packet[self.udp_offset() + 6..][..2].fill(0);
        }
        packet
    }

    /// Builds an ATP packet: the header and a body.
    pub fn atp(&self, from: &End, to: &End, header: &Header) -> Vec<u8> {
        let mut payload = header.as_bytes().to_vec();
        payload.extend((0..self.body).map(|i| (i * 7 + 3) as u8));
        self.udp(from, to, &payload)
    }

    /// Builds a packet from the sender to the receiver.
    pub fn data(&self, header: &Header) -> Vec<u8> {
        self.atp(&SENDER, &RECEIVER, header)
    }

    /// Builds a packet from the receiver to the sender.
    pub fn answer(&self, header: &Header) -> Vec<u8> {
        self.atp(&RECEIVER, &SENDER, header)
    }

    fn ip(&self, from: &End, to: &End) -> IpHeaders {
        let dscp = IpDscp::try_new(self.dscp).expect("below 64");
        let ecn = IpEcn::try_new(self.ecn).expect("below 4");
        if self.ipv6 {
            let mut ip = Ipv6Header {
                flow_label: Ipv6FlowLabel::try_new(FLOW_LABEL).expect("20 bits"),
                hop_limit: 9,
                source: from.ipv6(),
                destination: to.ipv6(),
                ..Ipv6Header::default()
            };
            ip.set_dscp(dscp);
            ip.set_ecn(ecn);
            return IpHeaders::Ipv6(ip, Default::default());
        }
        let mut ip = Ipv4Header::new(0, 9, ip_number::UDP, from.ipv4, to.ipv4).expect("fits");
        (ip.dscp, ip.ecn, ip.identification) = (dscp, ecn, 4711);
        // No-operations, which every host accepts.
        ip.options = vec![1; 4 * self.options].as_slice().try_into().expect("at most 40 bytes");
        IpHeaders::Ipv4(ip, Default::default())
    }
}

/// The fields of a DATA header on the test flow.
pub const fn data_fields(slot: u32) -> Fields {
    Fields {
        group: GROUP,
        job: JOB,
        cookie: COOKIE,
        message: 12,
        index: 3,
        count: 9,
        epoch: 0xffff,
        slot,
        time: 0xffff_ffff,
        ..Fields::of(Kind::Data)
    }
}

/// A parsed packet. Parsing checks every length and checksum.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// Source and destination.
    pub macs: ([u8; 6], [u8; 6]),
    /// VLAN id.
    pub vlan: Option<u16>,
    /// DSCP and ECN.
    pub traffic_class: (u8, u8),
    /// Time to live or hop limit.
    pub ttl: u8,
    /// IPv6 flow label.
    pub flow_label: Option<u32>,
    /// IPv4 options.
    pub options: Vec<u8>,
    /// Source and destination, 4 or 16 bytes each.
    pub addresses: (Vec<u8>, Vec<u8>),
    /// Source and destination.
    pub ports: (u16, u16),
    /// Whether the datagram has a UDP checksum.
    pub checksum: bool,
    /// The ATP header.
    pub header: Header,
    /// The bytes after it.
    pub body: Vec<u8>,
}

impl Parsed {
    /// Parses an ATP packet; fails on a wrong length or checksum.
    pub fn of(packet: &[u8]) -> Result<Self> {
        let parts = PacketHeaders::from_ethernet_slice(packet)?;
        let ethernet =
            parts.link.clone().and_then(|link| link.ethernet2()).context("no Ethernet")?;
        let Some(TransportHeader::Udp(udp)) = parts.transport.clone() else {
            anyhow::bail!("no UDP")
        };
        let payload = parts.payload.slice();
        ensure!(usize::from(udp.length) == payload.len() + 8, "UDP length {}", udp.length);
        let (header, _) = Header::parse(payload).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let vlan = parts.vlan_ids().first().map(|id| id.value());
        let body = payload[HEADER_LEN..].to_vec();
        let common = |ip: Ip| Self {
            macs: (ethernet.source, ethernet.destination),
            vlan,
            traffic_class: ip.traffic_class,
            ttl: ip.ttl,
            flow_label: ip.flow_label,
            options: ip.options,
            addresses: ip.addresses,
            ports: (udp.source_port, udp.destination_port),
            checksum: udp.checksum != 0,
            header,
            body,
        };
        match parts.net.context("no IP")? {
            NetHeaders::Ipv4(ip, _) => {
                ensure!(ip.header_checksum == ip.calc_header_checksum(), "IPv4 header checksum");
                ensure!(
                    usize::from(ip.total_len) == ip.header_len() + usize::from(udp.length),
                    "IPv4 total length {}",
                    ip.total_len
                );
                let expected = udp.calc_checksum_ipv4(&ip, payload)?;
                ensure!(udp.checksum == 0 || udp.checksum == expected, "UDP checksum over IPv4");
                Ok(common(Ip {
                    traffic_class: (ip.dscp.value(), ip.ecn.value()),
                    ttl: ip.time_to_live,
                    flow_label: None,
                    options: ip.options.to_vec(),
                    addresses: (ip.source.to_vec(), ip.destination.to_vec()),
                }))
            }
            NetHeaders::Ipv6(ip, _) => {
                ensure!(ip.payload_length == udp.length, "IPv6 length {}", ip.payload_length);
                let expected = udp.calc_checksum_ipv6(&ip, payload)?;
                ensure!(udp.checksum == expected, "UDP checksum over IPv6");
                Ok(common(Ip {
                    traffic_class: (ip.dscp().value(), ip.ecn().value()),
                    ttl: ip.hop_limit,
                    flow_label: Some(ip.flow_label.value()),
                    options: Vec::new(),
                    addresses: (ip.source.to_vec(), ip.destination.to_vec()),
                }))
            }
            NetHeaders::Arp(_) => anyhow::bail!("ARP"),
        }
    }
}

struct Ip {
    traffic_class: (u8, u8),
    ttl: u8,
    flow_label: Option<u32>,
    options: Vec<u8>,
    addresses: (Vec<u8>, Vec<u8>),
}
