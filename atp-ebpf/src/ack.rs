//! A marked clone of a DATA packet, on its way out, becomes the ACK that answers it: addresses and
//! ports swapped, cut down to the header, everything of the header echoed.

use crate::{
    counters::count,
    packet::{load_u16, load_u32},
    parse::{self, Datagram, UDP_LEN},
    verdict::Refusal,
};
use atp_common::{
    checksum, dscp,
    maps::Counter,
    wire::{HEADER_LEN, Header, Kind},
};
use aya_ebpf::{
    bindings::{BPF_F_MARK_MANGLED_0, BPF_F_RECOMPUTE_CSUM},
    helpers::generated::bpf_skb_change_tail,
    programs::TcContext,
};

const DATAGRAM_LEN: usize = UDP_LEN + HEADER_LEN;
const TTL: u8 = 64;
const PROTOCOL_UDP: u8 = 17;
const IPV4_LEN: usize = 20;
const UDP_CHECKSUM: usize = 6;

const FAILED: Refusal = Refusal::Counted;

/// Turns the clone into an ACK; whatever can't become one is dropped, since nobody meant it to leave.
/// Of a packet that the kernel merged from several, the clone's priority says which one it answers.
#[inline(always)]
pub fn write(ctx: &TcContext) -> Result<(), Refusal> {
    ctx.set_mark(0);
    // SAFETY: fields of the program's context, one of which tc programs may write.
    let (segment, segment_len) = unsafe {
        let skb = ctx.skb.skb;
        let segment = (*skb).priority;
        (*skb).priority = 0;
        (segment, (*skb).gso_size)
    };
    let datagram = parse::of_skb(ctx).ok_or(FAILED)?;
    let (mut header, Kind::Data) = datagram.header().map_err(|_| FAILED)? else {
        return Err(FAILED);
    };
    if segment_len != 0 && segment != 0 {
        let payload = datagram.payload();
        header = payload.header_of_segment(ctx, segment, segment_len).ok_or(FAILED)?;
    }
    let ack = Ack::answering(&datagram, header);
    let len = datagram.udp_offset() + DATAGRAM_LEN;
    // SAFETY: the program's context. Cuts, makes writable, and drops offloads of the clone.
    if unsafe { bpf_skb_change_tail(ctx.skb.skb, len as u32, 0) } != 0 {
        return Err(FAILED);
    }
    ack.store(ctx, &datagram)?;
    count(Counter::AckSent);
    Ok(())
}

/// Whether the packet carries the mark "congestion experienced".
#[inline(always)]
pub fn is_marked(datagram: &Datagram) -> bool {
    // SAFETY: the first word of a header that was checked.
    let first = unsafe { load_u32(datagram.ip) };
    dscp::is_congestion_experienced(traffic_class(first, datagram.ipv6))
}

/// Everything of the ACK that differs from the packet it answers, in words as they stand in memory.
struct Ack {
    ethernet: [u32; 3],
    source: [u32; 4],
    destination: [u32; 4],
    /// The first word of the IPv6 header, or version and length of the IPv4 header.
    first: u32,
    udp: [u32; 2],
    header: [u32; HEADER_LEN / 4],
    /// What turns the pseudo header's sum into the checksum; `None` if there is no checksum.
    completion: Option<u64>,
}

impl Ack {
    #[inline(always)]
    fn answering(datagram: &Datagram, data: Header) -> Self {
        let (source, destination) = datagram.addresses();
        // SAFETY: inside headers that were checked.
        let (first, ports, sum) = unsafe {
            (load_u32(datagram.ip), load_u32(datagram.udp), load_u16(datagram.udp + UDP_CHECKSUM))
        };
        let congestion = is_marked(datagram);
        // SAFETY: `Header` is 32 bytes of plain data, and the words need no other alignment.
        let header: [u32; 8] = unsafe { core::mem::transmute(data.into_ack(congestion)) };
        let mut ack = Self {
            ethernet: swapped_ethernet(datagram),
            source: destination,
            destination: source,
            first,
            udp: [ports.rotate_left(16), u32::from((DATAGRAM_LEN as u16).to_be())],
            header,
            completion: None,
        };
        // IPv4 may go without a checksum, and does if the packet did; IPv6 may not.
        if datagram.ipv6 || sum != 0 {
            let pseudo = u64::from(ack.pseudo_header_sum(datagram.ipv6));
            ack.completion = Some(u64::from(checksum::fold(2 * pseudo + ack.datagram_sum())));
            ack.udp[1] |= (pseudo as u32) << 16;
        }
        ack
    }

    #[inline(always)]
    fn store(&self, ctx: &TcContext, datagram: &Datagram) -> Result<(), Refusal> {
        // The kernel's own sum over a packet (CHECKSUM_COMPLETE) must keep agreeing with it.
        let flags = u64::from(BPF_F_RECOMPUTE_CSUM);
        ctx.store(0, &self.ethernet, flags).map_err(|_| FAILED)?;
        if datagram.ipv6 {
            ctx.store(datagram.ip_offset, &self.ipv6(), flags).map_err(|_| FAILED)?;
        } else {
            ctx.store(datagram.ip_offset, &self.ipv4(datagram.ip_len), flags)
                .map_err(|_| FAILED)?;
            store_no_options(ctx, datagram, flags)?;
        }
        ctx.store(datagram.udp_offset(), &self.datagram(), flags).map_err(|_| FAILED)?;
        self.complete_checksum(ctx, datagram)
    }

    #[inline(always)]
    const fn datagram(&self) -> [u32; DATAGRAM_LEN / 4] {
        let [u0, u1] = self.udp;
        let [h0, h1, h2, h3, h4, h5, h6, h7] = self.header;
        [u0, u1, h0, h1, h2, h3, h4, h5, h6, h7]
    }

    #[inline(always)]
    fn ipv4(&self, ip_len: usize) -> [u32; 5] {
        let [version_ihl, ..] = self.first.to_ne_bytes();
        let [l0, l1] = ((ip_len + DATAGRAM_LEN) as u16).to_be_bytes();
        const DONT_FRAGMENT: u8 = 0x40;
        let mut words = [
            u32::from_ne_bytes([version_ihl, 0, l0, l1]),
            u32::from_ne_bytes([0, 0, DONT_FRAGMENT, 0]),
            u32::from_ne_bytes([TTL, PROTOCOL_UDP, 0, 0]),
            self.source[3],
            self.destination[3],
        ];
        let sum = !checksum::fold(sum_of(&words));
        words[2] |= u32::from(sum) << 16;
        words
    }

    #[inline(always)]
    fn ipv6(&self) -> [u32; 10] {
        // Version and flow label stay, the traffic class goes.
        let first = self.first & u32::from_be(0xf00f_ffff);
        let [l0, l1] = (DATAGRAM_LEN as u16).to_be_bytes();
        let second = u32::from_ne_bytes([l0, l1, PROTOCOL_UDP, TTL]);
        let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (self.source, self.destination);
        [first, second, s0, s1, s2, s3, d0, d1, d2, d3]
    }

    /// Addresses, protocol and length, in native order: the sum is the same in either order once it
    /// is stored as it was read (RFC 1071 §2B). Never zero, since the protocol isn't.
    #[inline(always)]
    fn pseudo_header_sum(&self, ipv6: bool) -> u16 {
        let addresses = if ipv6 {
            sum_of(&self.source) + sum_of(&self.destination)
        } else {
            sum_of(&[self.source[3], self.destination[3]])
        };
        let protocol = u64::from(u16::from(PROTOCOL_UDP).to_be());
        checksum::fold(addresses + protocol + u64::from((DATAGRAM_LEN as u16).to_be()))
    }

    /// UDP header (its checksum still 0) and ATP header.
    #[inline(always)]
    fn datagram_sum(&self) -> u64 {
        sum_of(&self.udp) + sum_of(&self.header)
    }

    /// The checksum field holds the sum of the pseudo header, which is what a packet with checksum
    /// offload (CHECKSUM_PARTIAL) must carry. Whether the clone is one a program can't see, but
    /// `bpf_l4_csum_replace` without BPF_F_PSEUDO_HDR leaves such packets alone, and for others
    /// computes `~(difference + ~field)`: with twice the pseudo header and the datagram as difference
    /// that is `~(pseudo + datagram)`, the finished checksum. Right for both, in one call.
    #[inline(always)]
    fn complete_checksum(&self, ctx: &TcContext, datagram: &Datagram) -> Result<(), Refusal> {
        let Some(difference) = self.completion else { return Ok(()) };
        let at = datagram.udp_offset() + UDP_CHECKSUM;
        ctx.l4_csum_replace(at, 0, difference, u64::from(BPF_F_MARK_MANGLED_0)).map_err(|_| FAILED)
    }
}

/// The DATA packet's IPv4 options become "end of options": a reply follows none of them.
#[inline(always)]
fn store_no_options(ctx: &TcContext, datagram: &Datagram, flags: u64) -> Result<(), Refusal> {
    for word in 0..10 {
        let at = IPV4_LEN + 4 * word;
        if at >= datagram.ip_len {
            break;
        }
        ctx.store(datagram.ip_offset + at, &0u32, flags).map_err(|_| FAILED)?;
    }
    Ok(())
}

/// Destination and source swapped; they are the packet's first twelve bytes.
#[inline(always)]
pub fn swapped_ethernet(datagram: &Datagram) -> [u32; 3] {
    let at = datagram.ip - datagram.ip_offset;
    // SAFETY: the Ethernet header was checked.
    let halves = |i: usize| unsafe { u32::from(load_u16(at + 2 * i)) };
    [halves(3) | halves(4) << 16, halves(5) | halves(0) << 16, halves(1) | halves(2) << 16]
}

#[inline(always)]
const fn traffic_class(first: u32, ipv6: bool) -> u8 {
    let [a, b, ..] = first.to_ne_bytes();
    if ipv6 { a << 4 | b >> 4 } else { b }
}

/// The one's-complement sum of 16-bit words in native order.
#[inline(always)]
fn sum_of<const N: usize>(words: &[u32; N]) -> u64 {
    let mut sum = 0;
    for word in words {
        sum += u64::from(word & 0xffff) + u64::from(word >> 16);
    }
    sum
}
