//! Writes the DSCP of the lane's queue into the IP header (NetApprox §5.2), with the ECN bits
//! unchanged. Packets of exact lanes become ECN-capable instead.

use crate::{
    packet::{load_u16, store_u16},
    parse::Datagram,
};
use atp_common::{checksum, dscp, maps::LaneControl};

/// The offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;

/// Marks a packet with the DSCP of its lane. An exact lane keeps its application's DSCP. Switches
/// may mark its packets instead of dropping them, because its law reacts to marks (RFC 8257).
#[inline(always)]
pub fn of_lane(datagram: &Datagram, dscp: u32) {
    match dscp {
        LaneControl::DSCP_KEEP => replace(datagram, dscp::ecn_capable),
        dscp => replace(datagram, |class| dscp::replace(class, dscp as u8 & 0x3f)),
    }
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

/// Version and length, then the traffic class (RFC 791 and RFC 2474).
#[inline(always)]
fn in_ipv4(word: u16, class: impl Fn(u8) -> u8) -> u16 {
    word & 0xff00 | u16::from(class(word as u8))
}

/// Version, traffic class, upper bits of the flow label (RFC 8200 §3).
#[inline(always)]
fn in_ipv6(word: u16, class: impl Fn(u8) -> u8) -> u16 {
    word & 0xf00f | u16::from(class((word >> 4) as u8)) << 4
}
