//! The lane's queue as a DSCP in the IP header (NetApprox §5.2), with the ECN bits as they are; and
//! what switches may do to an exact lane.

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
    replace(datagram, |class| dscp::replace(class, dscp));
}

/// Lets switches mark packets of a lane whose law heeds marks, instead of dropping them: an exact
/// one's (RFC 8257). The DSCP stays.
#[inline(always)]
pub fn allow_marks(datagram: &Datagram) {
    replace(datagram, dscp::ecn_capable);
}

#[inline(always)]
fn replace(datagram: &Datagram, class: impl Fn(u8) -> u8) {
    // SAFETY: the first two bytes of a header that was checked.
    let old = u16::from_be(unsafe { load_u16(datagram.ip) });
    let new = if datagram.ipv6 { in_ipv6(old, class) } else { in_ipv4(old, class) };
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
fn in_ipv4(word: u16, class: impl Fn(u8) -> u8) -> u16 {
    word & 0xff00 | u16::from(class(word as u8))
}

/// Version, traffic class, upper bits of the flow label (RFC 8200 §3).
#[inline(always)]
fn in_ipv6(word: u16, class: impl Fn(u8) -> u8) -> u16 {
    word & 0xf00f | u16::from(class((word >> 4) as u8)) << 4
}
