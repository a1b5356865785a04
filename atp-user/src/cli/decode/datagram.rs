//! Finds the UDP datagram in a captured packet.

use super::capture::Frame;
use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::Linktype;
use std::net::{IpAddr, SocketAddr};

/// Bytes of the header of a Linux cooked capture. Its last two are the EtherType.
const SLL_LEN: usize = 16;
/// Bytes of the header of version 2. Its first two are the EtherType.
const SLL2_LEN: usize = 20;

/// A UDP datagram over IPv4 or IPv6.
pub struct Datagram<'a> {
    /// The time of the capture, nanoseconds since 1970.
    pub time_ns: u64,
    /// The source address.
    pub source: SocketAddr,
    /// The destination address.
    pub destination: SocketAddr,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
    /// The number of payload bytes that the capture lacks.
    pub missing: usize,
}

/// A link type whose packets can't be read, by its number.
pub struct UnsupportedLink(pub i32);

/// The datagram in `frame`, if it is one.
pub fn find<'a>(frame: &Frame<'a>) -> Result<Option<Datagram<'a>>, UnsupportedLink> {
    let bytes = frame.bytes;
    let sliced = match frame.link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        Linktype::LINUX_SLL => after_ether_type(bytes, SLL_LEN - 2, SLL_LEN),
        Linktype::LINUX_SLL2 => after_ether_type(bytes, 0, SLL2_LEN),
        Linktype::RAW | RAW_BSD | Linktype::IPV4 | Linktype::IPV6 => {
            LaxSlicedPacket::from_ip(bytes).ok()
        }
        Linktype(number) => return Err(UnsupportedLink(number)),
    };
    Ok(sliced.and_then(|sliced| datagram(frame.time_ns, &sliced)))
}

/// The UDP datagram in a packet.
fn datagram<'a>(time_ns: u64, sliced: &LaxSlicedPacket<'a>) -> Option<Datagram<'a>> {
    let (source, destination): (IpAddr, IpAddr) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        LaxNetSlice::Ipv6(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Udp(udp)) = &sliced.transport else { return None };
    let sent = usize::from(udp.length()).saturating_sub(etherparse::UdpHeader::LEN);
    Some(Datagram {
        time_ns,
        source: SocketAddr::new(source, udp.source_port()),
        destination: SocketAddr::new(destination, udp.destination_port()),
        payload: udp.payload(),
        missing: sent.saturating_sub(udp.payload().len()),
    })
}

/// Raw IP, as older BSD and Linux tools number it.
const RAW_BSD: Linktype = Linktype(12);

/// The packet after a header of `len` bytes that has its EtherType at `at`.
fn after_ether_type(bytes: &[u8], at: usize, len: usize) -> Option<LaxSlicedPacket<'_>> {
    let ether_type = EtherType(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    Some(LaxSlicedPacket::from_ether_type(ether_type, bytes.get(len..)?))
}
