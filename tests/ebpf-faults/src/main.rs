//! Injects network faults into UDP packets, as a tc egress program for kernels without netem:
//! losses (independent, in bursts, or of long packets), duplicates, flipped bits, detours, and
//! DSCPs set to 0.
//! All other packets pass, including ARP and neighbor discovery.
//!
//! A detour leads to another interface. The testbed puts a delay line behind it
//! (`testbed/src/faults/delay_line.rs`).

#![no_std]
#![no_main]

mod layout;

use aya_ebpf::{
    bindings::{TC_ACT_OK, TC_ACT_SHOT, TC_ACT_UNSPEC},
    helpers::generated::{bpf_get_prandom_u32, bpf_redirect},
    macros::{classifier, map},
    maps::{Array, PerCpuArray},
    programs::TcContext,
};
use layout::{Count, PASS_MARK, Settings};

const ETHERNET_LEN: usize = 14;
const IPV6_LEN: usize = 40;
/// The offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;
const UDP_LEN: usize = 8;
const PROTOCOL_UDP: u8 = 17;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

#[map]
static SETTINGS: Array<Settings> = Array::with_max_entries(1, 0);

#[map]
static COUNTS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Count::COUNT, 0);

/// Whether the last packet was lost: 1 or 0. Two processors may race to update it, which only
/// changes the lengths of bursts.
#[map]
static LAST_WAS_LOST: Array<u32> = Array::with_max_entries(1, 0);

/// Ends the chain of its hook for every packet, as a foreign program may.
#[classifier]
pub fn end_chain(_: TcContext) -> i32 {
    TC_ACT_OK
}

#[classifier]
pub fn inject_faults(ctx: TcContext) -> i32 {
    let skb = ctx.skb.skb;
    // SAFETY: fields of the program's context.
    let (mark, ifindex) = unsafe { ((*skb).mark, (*skb).ifindex) };
    if mark == PASS_MARK {
        ctx.set_mark(0);
        return TC_ACT_UNSPEC;
    }
    let (Some(payload), Some(settings)) = (udp_payload(&ctx), SETTINGS.get(0)) else {
        return TC_ACT_UNSPEC;
    };
    count(Count::Seen);
    if settings.longest != 0 && ctx.len() as usize - ETHERNET_LEN > settings.longest as usize {
        count(Count::TooLong);
        return TC_ACT_SHOT;
    }
    if is_lost(settings) {
        count(Count::Lost);
        return TC_ACT_SHOT;
    }
    if settings.cleared_dscp != 0 && clear_dscp(&ctx, settings.cleared_dscp).is_some() {
        count(Count::Cleared);
    }
    if happens(settings.duplicate) {
        // The clone comes back to this program, which lets it pass because of its mark.
        ctx.set_mark(PASS_MARK);
        if ctx.clone_redirect(ifindex, 0).is_ok() {
            count(Count::Duplicated);
        }
        ctx.set_mark(mark);
    }
    if happens(settings.corrupt) && flip_a_bit(&ctx, payload).is_some() {
        count(Count::Corrupted);
    }
    if happens(settings.detour) {
        count(Count::Detoured);
        // SAFETY: no memory is involved; a wrong index drops the packet.
        return unsafe { bpf_redirect(settings.detour_ifindex, 0) } as i32;
    }
    TC_ACT_UNSPEC
}

/// The offset of the UDP payload; `None` for other packets. IPv6 extension headers and fragments
/// count as other packets, because none of the tested packets have them.
#[inline(always)]
fn udp_payload(ctx: &TcContext) -> Option<usize> {
    let (protocol, udp) = match u16::from_be(ctx.load(ETHERNET_LEN - 2).ok()?) {
        IPV4 => {
            let words = usize::from(ctx.load::<u8>(ETHERNET_LEN).ok()? & 0xf);
            (ctx.load::<u8>(ETHERNET_LEN + 9).ok()?, ETHERNET_LEN + 4 * words)
        }
        IPV6 => (ctx.load::<u8>(ETHERNET_LEN + 6).ok()?, ETHERNET_LEN + IPV6_LEN),
        _ => return None,
    };
    (protocol == PROTOCOL_UDP).then_some(udp + UDP_LEN)
}

/// Gilbert's loss model: the probability depends on the fate of the previous packet.
#[inline(always)]
fn is_lost(settings: &Settings) -> bool {
    let Some(last) = LAST_WAS_LOST.get_ptr_mut(0) else { return false };
    // SAFETY: an aligned element of a map.
    let was_lost = unsafe { last.read_volatile() } != 0;
    let lost = happens(if was_lost { settings.loss_after_loss } else { settings.loss });
    // SAFETY: as above.
    unsafe { last.write_volatile(u32::from(lost)) };
    lost
}

#[inline(always)]
fn flip_a_bit(ctx: &TcContext, payload: usize) -> Option<()> {
    let len = (ctx.len() as usize).checked_sub(payload).filter(|len| *len > 0)?;
    let random = random();
    let at = payload + (random >> 3) as usize % len;
    let byte: u8 = ctx.load(at).ok()?;
    ctx.store(at, &(byte ^ 1 << (random & 7)), 0).ok()
}

/// Sets the DSCP of a packet to 0 if it is `dscp`, and keeps the ECN bits. `None` for other
/// packets.
#[inline(always)]
fn clear_dscp(ctx: &TcContext, dscp: u32) -> Option<()> {
    // The traffic class follows the four bits of the version in IPv6, and a byte in IPv4.
    let is_v4 = u16::from_be(ctx.load(ETHERNET_LEN - 2).ok()?) == IPV4;
    let shift = if is_v4 { 0 } else { 4 };
    let old = u16::from_be(ctx.load(ETHERNET_LEN).ok()?);
    if u32::from(old >> (shift + 2) & 0x3f) != dscp {
        return None;
    }
    let new = old & !(0xfc << shift);
    if is_v4 {
        let (old, new) = (u64::from(old.to_be()), u64::from(new.to_be()));
        ctx.l3_csum_replace(ETHERNET_LEN + IPV4_CHECKSUM, old, new, 2).ok()?;
    }
    ctx.store(ETHERNET_LEN, &new.to_be(), 0).ok()
}

#[inline(always)]
fn happens(parts_per_million: u32) -> bool {
    parts_per_million != 0 && random() % 1_000_000 < parts_per_million
}

#[inline(always)]
fn random() -> u32 {
    // SAFETY: no arguments.
    unsafe { bpf_get_prandom_u32() }
}

#[inline(always)]
fn count(what: Count) {
    if let Some(cell) = COUNTS.get_ptr_mut(what as u32) {
        // SAFETY: this processor's own element.
        unsafe { *cell += 1 }
    }
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // Never linked in: the verifier would reject the loop.
    loop {}
}
