//! Swaps the source and destination of a packet in place, so that it goes back to its source.

use crate::{
    ack,
    packet::{load_u16, load_u64, store_u16, store_u64},
    parse::Datagram,
    stamp::UDP_CHECKSUM,
};
use atp_common::checksum;

const TTL: u8 = 64;
/// Offsets in an IPv4 header without options.
const IPV4_TTL: usize = 8;
const IPV4_CHECKSUM: usize = 10;
const IPV4_SOURCE: usize = 12;
/// Offsets in an IPv6 header.
const IPV6_NEXT: usize = 6;
const IPV6_SOURCE: usize = 8;

/// Swaps source and destination on every layer, clears the traffic class, and renews the time to
/// live. Swapped addresses and ports don't change any checksum.
#[inline(always)]
pub fn swap_endpoints(datagram: &Datagram) {
    let [e0, e1, e2] = ack::swapped_ethernet(datagram);
    let ethernet = datagram.ip - datagram.ip_offset;
    // SAFETY: every offset is inside headers that were checked.
    unsafe {
        store_u64(ethernet, u64::from(e0) | u64::from(e1) << 32);
        store_u16(ethernet + 8, e2 as u16);
        store_u16(ethernet + 10, (e2 >> 16) as u16);
        if datagram.ipv6 {
            swap_ipv6(datagram.ip);
        } else {
            swap_ipv4(datagram.ip);
        }
        let (source, destination) = (load_u16(datagram.udp), load_u16(datagram.udp + 2));
        store_u16(datagram.udp, destination);
        store_u16(datagram.udp + 2, source);
    }
}

/// Whether the datagram has a UDP checksum.
#[inline(always)]
pub fn has_checksum(datagram: &Datagram) -> bool {
    // SAFETY: inside the UDP header, which was checked.
    datagram.ipv6 || unsafe { load_u16(datagram.udp + UDP_CHECKSUM) } != 0
}

/// # Safety
/// 20 bytes of IPv4 header are there.
#[inline(always)]
unsafe fn swap_ipv4(ip: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let addresses = load_u64(ip + IPV4_SOURCE);
        store_u64(ip + IPV4_SOURCE, addresses.rotate_left(32));
        let sum = u16::from_be(load_u16(ip + IPV4_CHECKSUM));
        let class = u16::from_be(load_u16(ip));
        let sum = checksum::replace_word(sum, class, class & 0xff00);
        let life = u16::from_be(load_u16(ip + IPV4_TTL));
        let renewed = life & 0xff | (TTL as u16) << 8;
        let sum = checksum::replace_word(sum, life, renewed);
        store_u16(ip, (class & 0xff00).to_be());
        store_u16(ip + IPV4_TTL, renewed.to_be());
        store_u16(ip + IPV4_CHECKSUM, sum.to_be());
    }
}

/// # Safety
/// 40 bytes of IPv6 header are there.
#[inline(always)]
unsafe fn swap_ipv6(ip: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        for i in 0..2 {
            let (source, destination) = (ip + IPV6_SOURCE + 8 * i, ip + IPV6_SOURCE + 16 + 8 * i);
            let (a, b) = (load_u64(source), load_u64(destination));
            store_u64(source, b);
            store_u64(destination, a);
        }
        // Version and flow label stay; the traffic class is cleared.
        let first = u16::from_be(load_u16(ip));
        store_u16(ip, (first & 0xf00f).to_be());
        let next = u16::from_be(load_u16(ip + IPV6_NEXT));
        store_u16(ip + IPV6_NEXT, (next & 0xff00 | TTL as u16).to_be());
    }
}
