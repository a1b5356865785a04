//! Finds UDP payloads where [`crate::parse`] finds no datagram, because programs can't pace or
//! acknowledge it there: behind several VLAN tags, behind IPv6 extension headers, in a first
//! fragment, or with a UDP length that some receivers ignore.

use atp_common::wire::HEADER_LEN;
use aya_ebpf::{bindings::__sk_buff, programs::TcContext};

/// There is no payload that a receiver could take for one of ATP.
pub const NONE: u32 = 0;
/// The headers go on in another fragment, or are too many. No honest host sends that.
pub const CUT: u32 = u32::MAX;

/// VLANs inside VLANs, and extension headers, that are looked through.
const VLAN_TAGS_MAX: usize = 4;
const EXTENSIONS_MAX: usize = 8;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// The offset of a UDP payload, [`NONE`] or [`CUT`].
///
/// A later fragment has none: a receiver drops it without the first one. Linux drops datagrams
/// whose fragments overlap, so no later fragment replaces a header that was checked.
#[inline(never)]
pub fn payload_offset(skb: *mut __sk_buff) -> u32 {
    let ctx = TcContext::new(skb);
    find(&ctx).unwrap_or(NONE)
}

#[inline(always)]
fn find(ctx: &TcContext) -> Option<u32> {
    let mut at = 12;
    let mut ethertype = word(ctx, at)?;
    for _ in 0..VLAN_TAGS_MAX {
        if ethertype != 0x8100 && ethertype != 0x88a8 {
            break;
        }
        at += 4;
        ethertype = word(ctx, at)?;
    }
    at += 2;
    let (udp, is_fragment) = match ethertype {
        ETHERTYPE_IPV4 => ipv4(ctx, at)?,
        ETHERTYPE_IPV6 => ipv6(ctx, at)?,
        _ => return None,
    };
    if udp == CUT as usize {
        return Some(CUT);
    }
    let payload = udp + 8;
    if ctx.len() as usize >= payload + HEADER_LEN {
        return Some(payload as u32);
    }
    // A complete datagram of this length holds no header of ATP.
    if is_fragment { Some(CUT) } else { None }
}

/// The offset of the UDP header, and whether it is in the first of several fragments.
#[inline(always)]
fn ipv4(ctx: &TcContext, ip: usize) -> Option<(usize, bool)> {
    let fragment = word(ctx, ip + 6)?;
    if byte(ctx, ip + 9)? != UDP || fragment & 0x1fff != 0 {
        return None;
    }
    let len = usize::from(byte(ctx, ip)? & 0xf) * 4;
    Some((ip + len, fragment & 0x2000 != 0))
}

/// As [`ipv4`], or [`CUT`].
#[inline(always)]
fn ipv6(ctx: &TcContext, ip: usize) -> Option<(usize, bool)> {
    let mut next = byte(ctx, ip + 6)?;
    let mut at = ip + 40;
    let mut is_fragment = false;
    for _ in 0..EXTENSIONS_MAX {
        let len = match next {
            UDP => return Some((at, is_fragment)),
            FRAGMENT => {
                let fragment = word(ctx, at + 2)?;
                if fragment & 0xfff8 != 0 {
                    return None;
                }
                is_fragment |= fragment & 1 != 0;
                8
            }
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => usize::from(byte(ctx, at + 1)?) * 8 + 8,
            AUTHENTICATION => usize::from(byte(ctx, at + 1)?) * 4 + 8,
            _ => return None,
        };
        next = byte(ctx, at)?;
        at += len;
    }
    Some((CUT as usize, is_fragment))
}

#[inline(always)]
fn byte(ctx: &TcContext, at: usize) -> Option<u8> {
    ctx.load(at).ok()
}

#[inline(always)]
fn word(ctx: &TcContext, at: usize) -> Option<u16> {
    ctx.load(at).ok().map(u16::from_be)
}
