//! Counts the bytes that arrive, for advice to senders: those of each interface, the approximate
//! ones among them, and those of each lane that a receiving library has admitted.
//!
//! Bytes are those on the wire, as `Advice::wire_bytes` counts them. A GSO or GRO buffer counts as
//! the packets that it holds.

use crate::{
    atomic,
    maps::{self, ADVISED, ARRIVED_BYTES, ARRIVED_LANES},
    parse::{self, Datagram, UDP_LEN},
};
use atp_common::{
    maps::{LINES, arrivals::ArrivalKey},
    wire::{Flags, Header},
};
use aya_ebpf::{
    bindings::xdp_action,
    helpers::generated::bpf_get_smp_processor_id,
    programs::{TcContext, XdpContext},
};

/// Checksum, preamble and gap of an Ethernet frame.
const FRAME_EXTRA_BYTES: u32 = 24;
/// A frame of 64 bytes with preamble and gap.
const FRAME_BYTES_MIN: u32 = 84;
/// Ethernet, IPv4 and TCP with timestamps: the headers of nearly all buffers that aren't UDP.
const TCP_HEADERS_LEN: u32 = 66;

#[inline(always)]
fn is_on() -> bool {
    maps::config().is_some_and(|config| config.counts_arrivals != 0)
}

/// Counts a packet or GRO buffer that arrives.
#[inline(always)]
pub fn count(ctx: &TcContext, datagram: Option<&Datagram>) {
    if !is_on() {
        return;
    }
    // SAFETY: fields of the program's context.
    let (segments, segment_len, ifindex) =
        unsafe { ((*ctx.skb.skb).gso_segs, (*ctx.skb.skb).gso_size, (*ctx.skb.skb).ifindex) };
    let bytes = match datagram {
        Some(datagram) => buffer_bytes(ctx, datagram, datagram.segments(segment_len)),
        None if segments > 1 => {
            ctx.len() + (segments - 1) * TCP_HEADERS_LEN + segments * FRAME_EXTRA_BYTES
        }
        None => frame_bytes(ctx.len()),
    };
    let class = match datagram {
        Some(datagram) => datagram.traffic_class(),
        None => parse::traffic_class(ctx.data(), ctx.data_end()),
    };
    add(ifindex, bytes, approximate(class));
}

/// Counts a frame that XDP drops: tc ingress sees all others.
#[inline(always)]
pub fn count_dropped(ctx: &XdpContext, verdict: u32) {
    if verdict != xdp_action::XDP_DROP || !is_on() {
        return;
    }
    // SAFETY: a field of the program's context.
    let ifindex = unsafe { (*ctx.ctx).ingress_ifindex };
    let (data, end) = (ctx.data(), ctx.data_end());
    add(ifindex, frame_bytes((end - data) as u32), approximate(parse::traffic_class(data, end)));
}

/// Counts DATA of a lane: `packets` of them, in one buffer. `header` is that of the last one, or
/// of the first one if they are alike.
#[inline(always)]
pub fn count_lane(
    ctx: &TcContext,
    datagram: &Datagram,
    key: &ArrivalKey,
    header: &Header,
    packets: u32,
) {
    if is_on() {
        // SAFETY: a field of the program's context.
        let ifindex = unsafe { (*ctx.skb.skb).ifindex };
        let bytes = buffer_bytes(ctx, datagram, packets);
        let approximate_bytes = u64::from(bytes) * approximate(datagram.traffic_class());
        add_to_lane(key, bytes, approximate_bytes, ifindex, header.flags());
    }
}

/// Counts one packet of a buffer that holds several kinds of them. `bytes`: with its headers.
#[inline(always)]
pub fn count_segment(
    ctx: &TcContext,
    key: &ArrivalKey,
    header: &Header,
    bytes: u32,
    traffic_class: u8,
) {
    if is_on() {
        // SAFETY: a field of the program's context.
        let ifindex = unsafe { (*ctx.skb.skb).ifindex };
        let bytes = frame_bytes(bytes);
        let approximate_bytes = u64::from(bytes) * approximate(traffic_class);
        add_to_lane(key, bytes, approximate_bytes, ifindex, header.flags());
    }
}

/// 1 if the packet has the DSCP of an approximate queue, else 0. With a `bool`, the verifier would
/// check everything behind it twice.
#[inline(always)]
fn approximate(traffic_class: u8) -> u64 {
    maps::config().map_or(0, |config| config.approximate(traffic_class))
}

#[inline(always)]
const fn frame_bytes(len: u32) -> u32 {
    let bytes = len + FRAME_EXTRA_BYTES;
    if bytes < FRAME_BYTES_MIN { FRAME_BYTES_MIN } else { bytes }
}

#[inline(always)]
fn buffer_bytes(ctx: &TcContext, datagram: &Datagram, packets: u32) -> u32 {
    let headers_len = (datagram.udp_offset() + UDP_LEN) as u32;
    match packets {
        0 | 1 => frame_bytes(ctx.len()),
        _ => ctx.len() + (packets - 1) * headers_len + packets * FRAME_EXTRA_BYTES,
    }
}

/// Each processor has an element of its own, and so no other one has its cache lines. The additions
/// are atomic even so: see [`maps::COUNTERS`].
#[inline(always)]
fn add(ifindex: u32, bytes: u32, approximate: u64) {
    // SAFETY: no arguments.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(counts) = ARRIVED_BYTES.get_ptr_mut(cpu) else { return };
    let add_to = |counts: *mut u64, bytes: u64| {
        // SAFETY: an aligned u64 inside the element.
        unsafe { atomic::add(counts.add((ifindex as usize) % LINES), bytes) };
    };
    let bytes = u64::from(bytes);
    // SAFETY: fields of a map's element.
    let fields = unsafe { (&raw mut (*counts).all, &raw mut (*counts).approximate) };
    add_to(fields.0.cast(), bytes);
    add_to(fields.1.cast(), bytes * approximate);
}

/// Not inlined, because the caller's stack is full.
#[inline(never)]
fn add_to_lane(key: &ArrivalKey, bytes: u32, approximate_bytes: u64, ifindex: u32, flags: Flags) {
    // SAFETY: the element is read at once.
    let Some(lane) = (unsafe { ADVISED.get(key) }).copied() else { return };
    let Some(lane) = ARRIVED_LANES.get_ptr_mut(lane) else { return };
    // SAFETY: aligned fields of a map's element, each written with one store.
    unsafe {
        atomic::add(&raw mut (*lane).bytes, u64::from(bytes));
        atomic::add(&raw mut (*lane).approximate_bytes, approximate_bytes);
        (&raw mut (*lane).interface).write_volatile(ifindex);
        let backlogged = u32::from(flags.contains(Flags::BACKLOGGED));
        (&raw mut (*lane).backlogged).write_volatile(backlogged);
    }
}
