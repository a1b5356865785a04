//! The lane's queue as a DSCP in the IP header (NetApprox §5.2). ECN bits stay as they are.

use crate::{
    packet::{load_u16, store_u16},
    parse::Datagram,
};
use atp_common::{checksum, dscp};

/// Where the checksum stands in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;

/// Rewrites the DSCP.
#[inline(always)]
pub fn rewrite(datagram: &Datagram, dscp: u8) {
    // SAFETY: the first two bytes of a header that was checked.
    let old = u16::from_be(unsafe { load_u16(datagram.ip) });
    let new = if datagram.ipv6 { in_ipv6(old, dscp) } else { in_ipv4(old, dscp) };
    if new == old {
        return;
    }
    // SAFETY: as above.
    unsafe { store_u16(datagram.ip, new.to_be()) };
    if !datagram.ipv6 {
        // SAFETY: inside the fixed part of a header that was checked.
        let sum = u16::from_be(unsafe { load_u16(datagram.ip + IPV4_CHECKSUM) });
        let sum = checksum::replace_word(sum, old, new);
        // SAFETY: as above.
        unsafe { store_u16(datagram.ip + IPV4_CHECKSUM, sum.to_be()) };
    }
}

/// Version and length, then the traffic class (RFC 791, as RFC 2474 has it).
#[inline(always)]
const fn in_ipv4(word: u16, dscp: u8) -> u16 {
    word & 0xff00 | dscp::replace(word as u8, dscp) as u16
}

/// Version, traffic class, upper bits of the flow label (RFC 8200 §3).
#[inline(always)]
const fn in_ipv6(word: u16, dscp: u8) -> u16 {
    word & 0xf00f | (dscp::replace((word >> 4) as u8, dscp) as u16) << 4
}
