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
    /// Its source.
    pub source: SocketAddr,
    /// Its destination.
    pub destination: SocketAddr,
    /// Its payload, as far as it was captured.
    pub payload: &'a [u8],
    /// The number of payload bytes that the capture lacks.
    pub missing: usize,
}

/// The datagram in `frame`, if it is one.
pub fn find<'a>(frame: &Frame<'a>) -> Option<Datagram<'a>> {
    let bytes = frame.bytes;
    let sliced = match frame.link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok()?,
        Linktype::LINUX_SLL => of_ether_type(bytes.get(SLL_LEN - 2..)?, bytes.get(SLL_LEN..)?)?,
        Linktype::LINUX_SLL2 => of_ether_type(bytes, bytes.get(SLL2_LEN..)?)?,
        Linktype::RAW | RAW_BSD | Linktype::IPV4 | Linktype::IPV6 => {
            LaxSlicedPacket::from_ip(bytes).ok()?
        }
        _ => return None,
    };
    let (source, destination): (IpAddr, IpAddr) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        LaxNetSlice::Ipv6(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { return None };
    let sent = usize::from(udp.length()).saturating_sub(etherparse::UdpHeader::LEN);
    Some(Datagram {
        time_ns: frame.time_ns,
        source: SocketAddr::new(source, udp.source_port()),
        destination: SocketAddr::new(destination, udp.destination_port()),
        payload: udp.payload(),
        missing: sent.saturating_sub(udp.payload().len()),
    })
}

/// Raw IP, as older BSD and Linux tools number it.
const RAW_BSD: Linktype = Linktype(12);

/// The packet after a header that names its EtherType.
fn of_ether_type<'a>(ether_type: &[u8], packet: &'a [u8]) -> Option<LaxSlicedPacket<'a>> {
    let ether_type = EtherType(u16::from_be_bytes(*ether_type.first_chunk()?));
    Some(LaxSlicedPacket::from_ether_type(ether_type, packet))
}
