//! Finds the UDP datagram in a packet. Supported are Ethernet, at most one VLAN tag in the data,
//! and IPv4 (options allowed) or IPv6. Fragments and IPv6 extension headers make a packet foreign.

use crate::packet::{keep, load_u8, load_u16, load_u32, load_u64};
use atp_common::{
    maps::Flow,
    wire::{ACK_LEN, EpochArrivals, HEADER_LEN, Header, Kind, PROBE_LEN, PROBE_WORDS, ParseError},
};
use aya_ebpf::programs::{TcContext, XdpContext};

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// Bytes of a UDP header.
pub const UDP_LEN: usize = 8;
/// The greatest length of all headers. As many bytes are pulled into the linear area.
const HEADERS_LEN: usize = ETHERNET_LEN + VLAN_LEN + 60 + UDP_LEN + PROBE_LEN;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
const PROTOCOL_UDP: u8 = 17;
/// The fragment offset and "more fragments" in an IPv4 header's seventh and eighth byte.
const FRAGMENT: u16 = 0x3fff;

/// A UDP datagram inside a packet. Addresses in memory are valid until a helper moves the packet.
#[derive(Clone, Copy)]
pub struct Datagram {
    /// The address of the IP header.
    pub ip: usize,
    /// The IP header's offset from the packet's start.
    pub ip_offset: usize,
    /// Bytes of the IP header.
    pub ip_len: usize,
    /// Whether it is IPv6.
    pub ipv6: bool,
    /// The address of the UDP header.
    pub udp: usize,
    /// Source port, host byte order.
    pub source_port: u16,
    /// Destination port, host byte order.
    pub destination_port: u16,
    /// Bytes of the payload; in a GSO or GRO buffer, of all segments together.
    pub payload_len: usize,
    end: usize,
}

/// The reason why a packet has no datagram.
enum Fault {
    /// It isn't UDP, or not in a supported form.
    Foreign,
    /// The headers are incomplete.
    Short,
}

/// The datagram of an skb. If its headers aren't in the linear area, they are pulled there.
#[inline(always)]
pub fn of_skb(ctx: &TcContext) -> Option<Datagram> {
    let (data, end) = (ctx.data(), ctx.data_end());
    match locate(data, end) {
        Ok(datagram) if datagram.is_linear() => return Some(datagram),
        Err(Fault::Foreign) => return None,
        Ok(_) | Err(Fault::Short) => {}
    }
    let len = ctx.len() as usize;
    if end - data < len {
        let wanted = if len < HEADERS_LEN { len } else { HEADERS_LEN };
        ctx.pull_data(wanted as u32).ok()?;
    }
    locate(ctx.data(), ctx.data_end()).ok()
}

/// The datagram between two addresses, which another call has found in the packet before.
#[inline(always)]
pub fn again(data: usize, end: usize) -> Option<Datagram> {
    locate(data, end).ok()
}

/// The datagram of an XDP frame.
#[inline(always)]
pub fn of_frame(ctx: &XdpContext) -> Option<Datagram> {
    locate(ctx.data(), ctx.data_end()).ok()
}

/// The traffic-class byte of an IP packet; 0 of any other.
#[inline(always)]
pub fn traffic_class(data: usize, end: usize) -> u8 {
    let Ok((ethertype, ip_offset)) = ethertype(data, end) else { return 0 };
    let ip = keep(data + ip_offset);
    if ip + size_of::<u32>() > end {
        return 0;
    }
    // SAFETY: the header's first word was just checked.
    let first = unsafe { load_u32(ip) };
    match ethertype {
        ETHERTYPE_IPV4 => traffic_class_in(first, false),
        ETHERTYPE_IPV6 => traffic_class_in(first, true),
        _ => 0,
    }
}

/// The traffic-class byte in the first word of an IP header.
#[inline(always)]
const fn traffic_class_in(first: u32, ipv6: bool) -> u8 {
    let [a, b, ..] = first.to_ne_bytes();
    if ipv6 { a << 4 | b >> 4 } else { b }
}

#[inline(always)]
fn locate(data: usize, end: usize) -> Result<Datagram, Fault> {
    let (ethertype, ip_offset) = ethertype(data, end)?;
    let ip = keep(data + ip_offset);
    let (ip_len, payload_len, ipv6) = match ethertype {
        ETHERTYPE_IPV4 => ipv4(ip, end)?,
        ETHERTYPE_IPV6 => ipv6(ip, end)?,
        _ => return Err(Fault::Foreign),
    };
    let udp = keep(ip + ip_len);
    if udp + UDP_LEN > end {
        return Err(Fault::Short);
    }
    // SAFETY: the eight bytes of the UDP header were just checked.
    let word = unsafe { load_u64(udp) };
    let [s0, s1, d0, d1, l0, l1, ..] = word.to_ne_bytes();
    let udp_len = u16::from_be_bytes([l0, l1]) as usize;
    if udp_len < UDP_LEN || udp_len > payload_len {
        return Err(Fault::Foreign);
    }
    Ok(Datagram {
        ip,
        ip_offset,
        ip_len,
        ipv6,
        udp,
        source_port: u16::from_be_bytes([s0, s1]),
        destination_port: u16::from_be_bytes([d0, d1]),
        payload_len: udp_len - UDP_LEN,
        end,
    })
}

#[inline(always)]
fn ethertype(data: usize, end: usize) -> Result<(u16, usize), Fault> {
    if data + ETHERNET_LEN > end {
        return Err(Fault::Short);
    }
    // SAFETY: the Ethernet header was just checked.
    let ethertype = u16::from_be(unsafe { load_u16(data + 12) });
    if ethertype != ETHERTYPE_VLAN && ethertype != ETHERTYPE_SERVICE_VLAN {
        return Ok((ethertype, ETHERNET_LEN));
    }
    if data + ETHERNET_LEN + VLAN_LEN > end {
        return Err(Fault::Short);
    }
    // SAFETY: the tag was just checked.
    let ethertype = u16::from_be(unsafe { load_u16(data + 16) });
    Ok((ethertype, ETHERNET_LEN + VLAN_LEN))
}

/// The header's length, the payload's length, and `false`: not IPv6.
#[inline(always)]
fn ipv4(ip: usize, end: usize) -> Result<(usize, usize, bool), Fault> {
    if ip + IPV4_LEN > end {
        return Err(Fault::Short);
    }
    // SAFETY: the fixed part of the header was just checked.
    let (version_ihl, protocol, total_len, fragment) =
        unsafe { (load_u8(ip), load_u8(ip + 9), load_u16(ip + 2), load_u16(ip + 6)) };
    if protocol != PROTOCOL_UDP || version_ihl >> 4 != 4 {
        return Err(Fault::Foreign);
    }
    let ip_len = ((version_ihl & 0xf) as usize) * 4;
    let total_len = u16::from_be(total_len) as usize;
    if u16::from_be(fragment) & FRAGMENT != 0 || ip_len < IPV4_LEN || total_len < ip_len {
        return Err(Fault::Foreign);
    }
    Ok((ip_len, total_len - ip_len, false))
}

/// The header's length, the payload's length, and `true`: IPv6.
#[inline(always)]
fn ipv6(ip: usize, end: usize) -> Result<(usize, usize, bool), Fault> {
    if ip + IPV6_LEN > end {
        return Err(Fault::Short);
    }
    // SAFETY: the header was just checked.
    let (version, payload_len, next) =
        unsafe { (load_u8(ip) >> 4, load_u16(ip + 4), load_u8(ip + 6)) };
    if next != PROTOCOL_UDP || version != 6 {
        return Err(Fault::Foreign);
    }
    Ok((IPV6_LEN, u16::from_be(payload_len) as usize, true))
}

impl Datagram {
    /// The traffic-class byte.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        // SAFETY: the first word of a header that was checked.
        traffic_class_in(unsafe { load_u32(self.ip) }, self.ipv6)
    }

    /// Whether all bytes that programs read are in the linear area: all of a PROBE, else the
    /// header. A payload too short for a header needs none.
    #[inline(always)]
    fn is_linear(&self) -> bool {
        self.payload_len < HEADER_LEN
            || self.udp + UDP_LEN + HEADER_LEN <= self.end
                && (self.payload_len != PROBE_LEN || self.udp + UDP_LEN + PROBE_LEN <= self.end)
    }

    /// The ATP header, if the payload begins with one.
    #[inline(always)]
    pub fn header(&self) -> Result<(Header, Kind), ParseError> {
        let words = self.header_words().ok_or(ParseError::Short)?;
        // SAFETY: `Header` is 32 bytes of plain data, without padding and of alignment 1.
        let header: Header = unsafe { core::mem::transmute(words) };
        header.kind().map(|kind| (header, kind))
    }

    /// The first 32 bytes of the payload.
    #[inline(always)]
    pub fn header_words(&self) -> Option<[u64; HEADER_LEN / 8]> {
        let at = self.udp + UDP_LEN;
        if self.payload_len < HEADER_LEN || at + HEADER_LEN > self.end {
            return None;
        }
        // SAFETY: the 32 bytes were just checked.
        Some(unsafe { [load_u64(at), load_u64(at + 8), load_u64(at + 16), load_u64(at + 24)] })
    }

    /// When an ACK's packet arrived, if the receiver said so and the word is in the linear area.
    #[inline(always)]
    pub fn ack_arrival(&self) -> Option<u32> {
        let at = keep(self.udp + UDP_LEN);
        if self.payload_len < ACK_LEN || at + ACK_LEN > self.end {
            return None;
        }
        // SAFETY: the word behind the header was just checked.
        Some(u32::from_be(unsafe { load_u32(at + HEADER_LEN) }))
    }

    /// Whether a PROBE in this datagram can be answered in place: it has the right length and no IP
    /// options, which an answer must not repeat.
    #[inline(always)]
    pub const fn is_plain_probe(&self) -> bool {
        self.payload_len == PROBE_LEN && (self.ipv6 || self.ip_len == IPV4_LEN)
    }

    /// The body of a PROBE or of its answer, if all of it is in the linear area.
    #[inline(always)]
    pub fn probe_body(&self) -> Option<PacketBody> {
        let at = keep(self.udp + UDP_LEN);
        let is_here = self.payload_len == PROBE_LEN && at + PROBE_LEN <= self.end;
        is_here.then_some(PacketBody { at: at + HEADER_LEN })
    }

    /// How many packets a GSO or GRO buffer holds whose segments have `segment_len` bytes of
    /// payload. Any other packet has a segment length of 0 and counts as one.
    #[inline(always)]
    pub const fn segments(&self, segment_len: u32) -> u32 {
        self.payload().segments(segment_len)
    }

    /// The payload's offset and length, which stay valid when the packet moves.
    #[inline(always)]
    pub const fn payload(&self) -> Payload {
        Payload { offset: (self.udp_offset() + UDP_LEN) as u32, len: self.payload_len as u32 }
    }

    /// The UDP header's offset from the packet's start.
    #[inline(always)]
    pub const fn udp_offset(&self) -> usize {
        self.ip_offset + self.ip_len
    }

    /// Source and destination, IPv4 as `::ffff:a.b.c.d`, in words as they are in memory.
    #[inline(always)]
    pub fn addresses(&self) -> ([u32; 4], [u32; 4]) {
        if self.ipv6 {
            (self.address_ipv6(8), self.address_ipv6(24))
        } else {
            (self.address_ipv4(12), self.address_ipv4(16))
        }
    }

    #[inline(always)]
    fn address_ipv4(&self, at: usize) -> [u32; 4] {
        // SAFETY: inside the IP header, which was checked.
        let address = unsafe { load_u32(self.ip + at) };
        // SAFETY: both are 16 bytes of plain data.
        unsafe { core::mem::transmute(Flow::mapped(address.to_ne_bytes())) }
    }

    #[inline(always)]
    fn address_ipv6(&self, at: usize) -> [u32; 4] {
        let at = self.ip + at;
        // SAFETY: inside the IP header, which was checked.
        unsafe { [load_u32(at), load_u32(at + 4), load_u32(at + 8), load_u32(at + 12)] }
    }
}

/// A [`atp_common::wire::ProbeBody`] in its packet, read word by word: the stack has no room for a
/// copy.
#[derive(Clone, Copy)]
pub struct PacketBody {
    at: usize,
}

impl PacketBody {
    /// The address of the body.
    #[inline(always)]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// The delivery bits of the `index`-th 32 slots.
    #[inline(always)]
    pub fn bits(&self, index: usize) -> u32 {
        self.word(index)
    }

    /// The `index`-th count.
    #[inline(always)]
    pub fn epoch(&self, index: usize) -> EpochArrivals {
        let at = PROBE_WORDS + 3 * index;
        EpochArrivals {
            epoch: (self.word(at) >> 16) as u16,
            arrived: self.word(at + 1),
            marked: self.word(at + 2),
        }
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u32 {
        // SAFETY: the complete body was checked.
        u32::from_be(unsafe { load_u32(self.at + 4 * index) })
    }
}

/// A datagram's payload: its offset from the packet's start, and its length.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Payload {
    pub offset: u32,
    pub len: u32,
}

impl Payload {
    /// How many packets it holds: see [`Datagram::segments`].
    #[inline(always)]
    pub const fn segments(&self, segment_len: u32) -> u32 {
        if segment_len == 0 { 1 } else { self.len.div_ceil(segment_len) }
    }

    /// The header of a segment of a GSO or GRO buffer, if the segment is DATA.
    #[inline(always)]
    pub fn header_of_segment(&self, ctx: &TcContext, segment: u32, len: u32) -> Option<Header> {
        let (header, kind) = self.header_at(ctx, segment * len)?;
        matches!(kind, Kind::Data).then_some(header)
    }

    /// The header at this position of the payload, if it is one of ATP.
    #[inline(always)]
    pub fn header_at(&self, ctx: &TcContext, at: u32) -> Option<(Header, Kind)> {
        if at + HEADER_LEN as u32 > self.len {
            return None;
        }
        let words: [u64; 4] = ctx.load((self.offset + at) as usize).ok()?;
        // SAFETY: `Header` is 32 bytes of plain data, without padding and of alignment 1.
        let header: Header = unsafe { core::mem::transmute(words) };
        header.kind().ok().map(|kind| (header, kind))
    }
}
