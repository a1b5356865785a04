//! Turns a marked clone of a DATA packet into the ACK that answers it: addresses and ports are
//! swapped, the header is echoed, and the time takes the place of the rest.

use crate::{
    counters::note,
    packet::{load_u16, load_u32},
    parse::{self, Datagram, UDP_LEN},
    verdict::Verdict,
};
use atp_common::{
    checksum, dscp,
    maps::Event,
    wire::{self, ACK_LEN, HEADER_LEN, Header, Kind},
};
use aya_ebpf::{
    bindings::{BPF_F_MARK_MANGLED_0, BPF_F_RECOMPUTE_CSUM},
    helpers::generated::{bpf_ktime_get_ns, bpf_skb_change_tail},
    programs::TcContext,
};

/// UDP's header and ATP's.
const DATAGRAM_LEN: usize = UDP_LEN + HEADER_LEN;
const TTL: u8 = 64;
const PROTOCOL_UDP: u8 = 17;
const IPV4_LEN: usize = 20;
const UDP_CHECKSUM: usize = 6;

const FAILED: Verdict = Verdict::Drop(Event::AckNotMade);

/// Turns the clone into an ACK. A clone that can't become one is dropped, because it is not meant
/// to leave. For a GRO buffer, the clone's priority is the index of the segment to answer.
#[inline(always)]
pub fn write(ctx: &TcContext) -> Result<(), Verdict> {
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
    // A malformed packet may name more bytes than it has.
    let present_len = (ctx.len() as usize).saturating_sub(datagram.udp_offset() + UDP_LEN);
    let named_len = datagram.payload_len;
    let mut data_len = if named_len < present_len { named_len } else { present_len };
    if segment_len != 0 {
        if segment != 0 {
            let payload = datagram.payload();
            header = payload.header_of_segment(ctx, segment, segment_len).ok_or(FAILED)?;
        }
        let rest_len = data_len.saturating_sub((segment * segment_len) as usize);
        data_len = if rest_len < segment_len as usize { rest_len } else { segment_len as usize };
    }
    let ack = Ack::answering(&datagram, header, data_len);
    let len = datagram.udp_offset() + ack.datagram_len as usize;
    // SAFETY: the program's context. The call truncates the clone, makes it writable, and drops its
    // offloads.
    if unsafe { bpf_skb_change_tail(ctx.skb.skb, len as u32, 0) } != 0 {
        return Err(FAILED);
    }
    ack.store(ctx, &datagram)?;
    note(ctx, Event::AckSent);
    Ok(())
}

/// Whether the packet has the ECN mark "congestion experienced".
#[inline(always)]
pub fn is_marked(datagram: &Datagram) -> bool {
    dscp::is_congestion_experienced(datagram.traffic_class())
}

/// All parts of the ACK that differ from the packet it answers, as words in memory order.
struct Ack {
    ethernet: [u32; 3],
    source: [u32; 4],
    destination: [u32; 4],
    /// The first word of the IPv6 header, or version and length of the IPv4 header.
    first: u32,
    udp: [u32; 2],
    /// The payload. Without the time of arrival its last word is 0 and not sent.
    atp: [u32; ACK_LEN / 4],
    /// Bytes of the UDP header and the payload.
    datagram_len: u16,
    /// The difference from the pseudo header's sum to the checksum; `None` if there is no checksum.
    completion: Option<u64>,
}

impl Ack {
    #[inline(always)]
    fn answering(datagram: &Datagram, data: Header, data_len: usize) -> Self {
        let (source, destination) = datagram.addresses();
        // SAFETY: inside headers that were checked.
        let (first, ports, sum) = unsafe {
            (load_u32(datagram.ip), load_u32(datagram.udp), load_u16(datagram.udp + UDP_CHECKSUM))
        };
        let congestion = is_marked(datagram);
        // SAFETY: no arguments; CLOCK_MONOTONIC.
        let now_ns = unsafe { bpf_ktime_get_ns() };
        // SAFETY: it is 36 bytes of plain data, and the words need no other alignment.
        let mut atp: [u32; ACK_LEN / 4] =
            unsafe { core::mem::transmute(wire::Ack::answering(data, congestion, now_ns)) };
        let ack_len = wire::Ack::len(data_len);
        if ack_len < ACK_LEN {
            atp[HEADER_LEN / 4] = 0;
        }
        let datagram_len = (UDP_LEN + ack_len) as u16;
        let mut ack = Self {
            ethernet: swapped_ethernet(datagram),
            source: destination,
            destination: source,
            first,
            udp: [ports.rotate_left(16), u32::from(datagram_len.to_be())],
            atp,
            datagram_len,
            completion: None,
        };
        // IPv6 needs a checksum. An IPv4 ACK has one if the DATA packet has.
        if datagram.ipv6 || sum != 0 {
            let pseudo = u64::from(ack.pseudo_header_sum(datagram.ipv6));
            ack.completion = Some(u64::from(checksum::fold(2 * pseudo + ack.datagram_sum())));
            ack.udp[1] |= (pseudo as u32) << 16;
        }
        ack
    }

    #[inline(always)]
    fn store(&self, ctx: &TcContext, datagram: &Datagram) -> Result<(), Verdict> {
        // The kernel's own sum over a packet (CHECKSUM_COMPLETE) must stay correct.
        let flags = u64::from(BPF_F_RECOMPUTE_CSUM);
        ctx.store(0, &self.ethernet, flags).map_err(|_| FAILED)?;
        if datagram.ipv6 {
            ctx.store(datagram.ip_offset, &self.ipv6(), flags).map_err(|_| FAILED)?;
        } else {
            ctx.store(datagram.ip_offset, &self.ipv4(datagram.ip_len), flags)
                .map_err(|_| FAILED)?;
            store_no_options(ctx, datagram, flags)?;
        }
        let udp = datagram.udp_offset();
        ctx.store(udp, &self.headers(), flags).map_err(|_| FAILED)?;
        if self.datagram_len as usize > DATAGRAM_LEN {
            ctx.store(udp + DATAGRAM_LEN, &self.atp[HEADER_LEN / 4], flags).map_err(|_| FAILED)?;
        }
        self.complete_checksum(ctx, datagram)
    }

    #[inline(always)]
    const fn headers(&self) -> [u32; DATAGRAM_LEN / 4] {
        let [u0, u1] = self.udp;
        let [h0, h1, h2, h3, h4, h5, h6, h7, _] = self.atp;
        [u0, u1, h0, h1, h2, h3, h4, h5, h6, h7]
    }

    #[inline(always)]
    fn ipv4(&self, ip_len: usize) -> [u32; 5] {
        let [version_ihl, ..] = self.first.to_ne_bytes();
        let [l0, l1] = (ip_len as u16 + self.datagram_len).to_be_bytes();
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
        // Version and flow label stay; the traffic class is cleared.
        let first = self.first & u32::from_be(0xf00f_ffff);
        let [l0, l1] = self.datagram_len.to_be_bytes();
        let second = u32::from_ne_bytes([l0, l1, PROTOCOL_UDP, TTL]);
        let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (self.source, self.destination);
        [first, second, s0, s1, s2, s3, d0, d1, d2, d3]
    }

    /// Addresses, protocol and length, in native order: the sum is the same in either order once it
    /// is stored as it was read (RFC 1071 §2B). It is never zero, because the protocol isn't.
    #[inline(always)]
    fn pseudo_header_sum(&self, ipv6: bool) -> u16 {
        let addresses = if ipv6 {
            sum_of(&self.source) + sum_of(&self.destination)
        } else {
            sum_of(&[self.source[3], self.destination[3]])
        };
        let protocol = u64::from(u16::from(PROTOCOL_UDP).to_be());
        checksum::fold(addresses + protocol + u64::from(self.datagram_len.to_be()))
    }

    /// The sum of the UDP header, with a checksum of 0, and its payload.
    #[inline(always)]
    fn datagram_sum(&self) -> u64 {
        sum_of(&self.udp) + sum_of(&self.atp)
    }

    /// Completes the checksum. The field holds the sum of the pseudo header, as a packet with
    /// checksum offload (CHECKSUM_PARTIAL) must. A program can't see whether the clone is such a
    /// packet, but one call is right for both: without BPF_F_PSEUDO_HDR, `bpf_l4_csum_replace`
    /// leaves such packets alone. For others it computes `~(difference + ~field)`. With twice the
    /// pseudo header plus the datagram as difference that is `~(pseudo + datagram)`, the complete
    /// checksum.
    #[inline(always)]
    fn complete_checksum(&self, ctx: &TcContext, datagram: &Datagram) -> Result<(), Verdict> {
        let Some(difference) = self.completion else { return Ok(()) };
        let at = datagram.udp_offset() + UDP_CHECKSUM;
        ctx.l4_csum_replace(at, 0, difference, u64::from(BPF_F_MARK_MANGLED_0)).map_err(|_| FAILED)
    }
}

/// Overwrites the DATA packet's IPv4 options with "end of options": they don't apply to the reply.
#[inline(always)]
fn store_no_options(ctx: &TcContext, datagram: &Datagram, flags: u64) -> Result<(), Verdict> {
    for word in 0..10 {
        let at = IPV4_LEN + 4 * word;
        if at >= datagram.ip_len {
            break;
        }
        ctx.store(datagram.ip_offset + at, &0u32, flags).map_err(|_| FAILED)?;
    }
    Ok(())
}

/// The packet's first twelve bytes, with the two Ethernet addresses swapped.
#[inline(always)]
pub fn swapped_ethernet(datagram: &Datagram) -> [u32; 3] {
    let at = datagram.ip - datagram.ip_offset;
    // SAFETY: the Ethernet header was checked.
    let halves = |i: usize| unsafe { u32::from(load_u16(at + 2 * i)) };
    [halves(3) | halves(4) << 16, halves(5) | halves(0) << 16, halves(1) | halves(2) << 16]
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
