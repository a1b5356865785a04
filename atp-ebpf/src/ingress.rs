//! Handles packets that arrive. DATA for a registered receiver is acknowledged, or recorded for a
//! later PROBE, and passes to its socket. PROBEs are answered. ACKs and PROBE-ACKs are consumed.

use crate::{
    ack, arrived, consume,
    counters::{count_many, note},
    flow::{self, End},
    line, maps,
    parse::{self, Datagram, Payload, UDP_LEN},
    probe,
    verdict::Verdict,
};
use atp_common::{
    maps::{Counter, Event, arrivals::ArrivalKey},
    wire::{Flags, Header, Kind},
};
use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_loop, programs::TcContext};
use core::ffi::c_void;

/// `pkt_type` of packets addressed to this interface (linux/if_packet.h).
const PACKET_HOST: u32 = 0;

/// The path of a packet that arrives.
#[inline(always)]
pub fn run(ctx: &TcContext) -> Result<(), Verdict> {
    let datagram = parse::of_skb(ctx);
    line::count(ctx, datagram.as_ref());
    let datagram = datagram.ok_or(Verdict::Foreign)?;
    let (_, address) = datagram.addresses();
    let end = End { address, port: datagram.destination_port };
    if is_for_this_host(ctx) && flow::receiver_at(&end).is_some() {
        return receive(ctx, &datagram);
    }
    // The XDP program consumes acknowledgments earlier. This call serves devices to which XDP can't
    // be attached.
    consume::acknowledgment(ctx, &datagram)
}

/// Whether the packet is addressed to this host. A promiscuous interface also sees packets to other
/// hosts, and those hosts acknowledge them.
#[inline(always)]
fn is_for_this_host(ctx: &TcContext) -> bool {
    // SAFETY: a field of the program's context.
    unsafe { (*ctx.skb.skb).pkt_type == PACKET_HOST }
}

/// The most packets of a GSO or GRO buffer (UDP_MAX_SEGMENTS).
const SEGMENTS_MAX: u32 = 128;

/// Every packet for a registered receiver passes to its socket, malformed ones too: the library
/// rejects them with reasons. Only PROBEs are answered here.
#[inline(always)]
fn receive(ctx: &TcContext, datagram: &Datagram) -> Result<(), Verdict> {
    match datagram.header() {
        Ok((header, Kind::Data)) => receive_data(ctx, datagram, &header),
        Ok((header, Kind::Probe)) if datagram.is_plain_probe() => {
            probe::answer(ctx, datagram, &header)
        }
        Ok((_, Kind::Probe)) | Err(_) => {
            note(ctx, Event::Malformed);
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Receives a DATA packet or a GRO buffer, which usually is one run of packets that left together.
#[inline(always)]
fn receive_data(ctx: &TcContext, datagram: &Datagram, first: &Header) -> Result<(), Verdict> {
    // SAFETY: a field of the program's context.
    let segment_len = unsafe { (*ctx.skb.skb).gso_size };
    let packets = datagram.segments(segment_len);
    count_many(Counter::DataArrived, packets);
    let mut walk = Walk {
        skb: ctx.skb.skb,
        payload: datagram.payload(),
        segment_len,
        key: arrived::key(datagram, first),
        marked: u32::from(ack::is_marked(datagram)),
        headers_len: (datagram.udp_offset() + UDP_LEN) as u32,
        traffic_class: u32::from(datagram.traffic_class()),
    };
    if packets > 1 && !is_run(ctx, &walk, first, packets) {
        let packets = if packets < SEGMENTS_MAX { packets } else { SEGMENTS_MAX };
        let callback = receive_segment as extern "C" fn(u32, *mut Walk) -> i64;
        // SAFETY: the callback gets a `Walk`, as it expects, which outlives the call.
        unsafe { bpf_loop(packets, callback as *mut c_void, (&raw mut walk).cast(), 0) };
        return Ok(());
    }
    line::count_lane(ctx, datagram, &walk.key, first, packets);
    if first.flags().contains(Flags::NO_ACK) {
        arrived::record(ctx, &walk.key, first, packets, walk.marked);
        return Ok(());
    }
    acknowledge(ctx, 0);
    Ok(())
}

#[inline(always)]
fn is_run(ctx: &TcContext, walk: &Walk, first: &Header, packets: u32) -> bool {
    let last = walk.payload.header_of_segment(ctx, packets - 1, walk.segment_len);
    last.is_some_and(|last| arrived::is_run(first, &last, packets))
}

/// The state of a pass through the packets of a GRO buffer.
#[repr(C)]
struct Walk {
    skb: *mut __sk_buff,
    payload: Payload,
    segment_len: u32,
    key: ArrivalKey,
    marked: u32,
    headers_len: u32,
    traffic_class: u32,
}

/// Receives one packet of a GRO buffer. It is a callback because the verifier checks a callback
/// once, but a loop's body for each pass.
#[inline(never)]
extern "C" fn receive_segment(segment: u32, walk: *mut Walk) -> i64 {
    // SAFETY: the caller's own, without another reference to it.
    let walk = unsafe { &mut *walk };
    let ctx = TcContext::new(walk.skb);
    let Some(header) = walk.payload.header_of_segment(&ctx, segment, walk.segment_len) else {
        // The segments behind it can't be found either.
        note(&ctx, Event::SegmentMalformed);
        return 1;
    };
    (walk.key.cookie, walk.key.group) = (header.cookie(), u32::from(header.group()));
    let (bytes, class) = (walk.headers_len + walk.segment_len, walk.traffic_class as u8);
    line::count_segment(&ctx, &walk.key, &header, bytes, class);
    if header.flags().contains(Flags::NO_ACK) {
        arrived::record(&ctx, &walk.key, &header, 1, walk.marked);
    } else {
        acknowledge(&ctx, segment);
    }
    0
}

/// Sends a clone to the egress of the same device. There [`crate::ack`] recognizes it by its mark,
/// and finds the segment to answer in its priority.
#[inline(always)]
fn acknowledge(ctx: &TcContext, segment: u32) {
    let Some(config) = maps::config() else { return };
    if config.ack_mark == 0 {
        return;
    }
    let skb = ctx.skb.skb;
    // SAFETY: fields of the program's context, one of which tc programs may write.
    let (mark, priority, ifindex) = unsafe { ((*skb).mark, (*skb).priority, (*skb).ifindex) };
    ctx.set_mark(config.ack_mark);
    // SAFETY: as above.
    unsafe { (*skb).priority = segment };
    let sent = ctx.clone_redirect(ifindex, 0);
    ctx.set_mark(mark);
    // SAFETY: as above.
    unsafe { (*skb).priority = priority };
    if sent.is_err() {
        note(ctx, Event::AckFailed);
    }
}
