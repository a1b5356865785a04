//! Captures the packets of a host's interface: incoming ones before the datapath's programs,
//! outgoing ones after them.

use super::link;
use crate::{
    host::{DEVICE, Host},
    namespace::Namespace,
};
use anyhow::{Context, Result};
use atp_common::wire::{Header, Kind};
use etherparse::{NetSlice, SlicedPacket, TransportSlice, UdpSlice};
use socket2::Socket;
use std::{
    io::{ErrorKind, Read},
    net::SocketAddr,
    time::Duration,
};

const BUFFER_BYTES: libc::c_int = 32 << 20;
/// More than the longest frame without offloads.
const FRAME_BYTES_MAX: usize = 1 << 16;

/// A tap: a socket that captures from its creation on.
#[derive(Debug)]
pub struct Capture(Socket);

/// The state of a UDP checksum. Only meaningful if the sender's interface doesn't offload
/// checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Zero.
    Absent,
    /// Equal to the checksum computed here.
    Right,
    /// Any other value.
    Wrong,
}

/// A captured UDP packet of ATP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The source address.
    pub source: SocketAddr,
    /// The destination address.
    pub destination: SocketAddr,
    /// The upper six bits of the traffic class.
    pub dscp: u8,
    /// The lower two bits of the traffic class.
    pub ecn: u8,
    /// The state of the UDP checksum.
    pub checksum: Checksum,
    /// The kind of packet.
    pub kind: Kind,
    /// The ATP header.
    pub header: Header,
}

impl Capture {
    /// Taps the interface of a host.
    pub fn start(host: &Host) -> Result<Self> {
        Self::start_at(&host.namespace, DEVICE)
    }

    /// Taps an interface.
    pub fn start_at(namespace: &Namespace, interface: &str) -> Result<Self> {
        namespace.enter(|| {
            let socket = link::listen(interface)?;
            enlarge(&socket)?;
            socket.set_read_timeout(Some(Duration::from_millis(200)))?;
            Ok(Self(socket))
        })
    }

    /// The next `number` ATP packets with all their bytes, or fewer once no packet has passed for a
    /// moment.
    pub fn take_whole(&mut self, number: usize) -> Result<Vec<(Frame, Vec<u8>)>> {
        let mut frames = Vec::new();
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        while frames.len() < number {
            match self.0.read(&mut buffer) {
                Ok(len) => {
                    let bytes = &buffer[..len];
                    frames.extend(Frame::parse(bytes).map(|frame| (frame, bytes.to_vec())));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("reading a tap"),
            }
        }
        Ok(frames)
    }

    /// All ATP packets so far, once no packet has passed for a moment.
    pub fn finish(mut self) -> Result<Vec<Frame>> {
        Ok(self.take_whole(usize::MAX)?.into_iter().map(|(frame, _)| frame).collect())
    }
}

/// Exceeds the kernel's limit on buffers, which is too low for a whole transfer.
fn enlarge(socket: &Socket) -> Result<()> {
    nix::sys::socket::setsockopt(
        socket,
        nix::sys::socket::sockopt::RcvBufForce,
        &(BUFFER_BYTES as usize),
    )
    .context("enlarging the buffer of a tap")
}

impl Frame {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let packet = SlicedPacket::from_ethernet(bytes).ok()?;
        let Some(TransportSlice::Udp(udp)) = packet.transport else { return None };
        let (header, kind) = Header::parse(udp.payload()).ok()?;
        match packet.net? {
            NetSlice::Ipv4(ip) => {
                let ip = ip.header();
                let addresses = (ip.source(), ip.destination());
                Some(Self {
                    source: (ip.source(), udp.source_port()).into(),
                    destination: (ip.destination(), udp.destination_port()).into(),
                    dscp: ip.dcp().value(),
                    ecn: ip.ecn().value(),
                    checksum: checksum(&udp, |udp| {
                        udp.to_header()
                            .calc_checksum_ipv4_raw(addresses.0, addresses.1, udp.payload())
                            .ok()
                    }),
                    kind,
                    header,
                })
            }
            NetSlice::Ipv6(ip) => {
                let ip = ip.header();
                let addresses = (ip.source(), ip.destination());
                Some(Self {
                    source: (ip.source(), udp.source_port()).into(),
                    destination: (ip.destination(), udp.destination_port()).into(),
                    dscp: ip.traffic_class() >> 2,
                    ecn: ip.traffic_class() & 3,
                    checksum: checksum(&udp, |udp| {
                        udp.to_header()
                            .calc_checksum_ipv6_raw(addresses.0, addresses.1, udp.payload())
                            .ok()
                    }),
                    kind,
                    header,
                })
            }
            NetSlice::Arp(_) => None,
        }
    }
}

fn checksum(udp: &UdpSlice<'_>, calculate: impl Fn(&UdpSlice<'_>) -> Option<u16>) -> Checksum {
    match udp.checksum() {
        0 => Checksum::Absent,
        found if calculate(udp) == Some(found) => Checksum::Right,
        _ => Checksum::Wrong,
    }
}
