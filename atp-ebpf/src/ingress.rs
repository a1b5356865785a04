//! What arrives: DATA for a registered receiver is acknowledged, or recorded for whoever will ask, and
//! goes up; PROBEs are answered; ACKs and answers are consumed.

use crate::{
    ack, arrived, consume,
    counters::{count, count_many},
    flow::{self, End},
    maps,
    parse::{self, Datagram, Payload},
    probe,
    verdict::Refusal,
};
use atp_common::{
    maps::{Counter, arrivals::ArrivalKey},
    wire::{Flags, Header, Kind},
};
use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_loop, programs::TcContext};
use core::ffi::c_void;

/// `pkt_type` of what is addressed to this interface (linux/if_packet.h).
const PACKET_HOST: u32 = 0;

/// The way of a packet that arrives.
#[inline(always)]
pub fn run(ctx: &TcContext) -> Result<(), Refusal> {
    let datagram = parse::of_skb(ctx).ok_or(Refusal::Foreign)?;
    let (_, address) = datagram.addresses();
    let end = End { address, port: datagram.destination_port };
    if is_for_this_host(ctx) && flow::receives_at(&end) {
        return receive(ctx, &datagram);
    }
    // With XDP attached none is left; where it can't be, they are consumed here.
    consume::acknowledgement(ctx, &datagram)
}

/// A promiscuous interface also sees what goes to others: that is theirs to acknowledge.
#[inline(always)]
fn is_for_this_host(ctx: &TcContext) -> bool {
    // SAFETY: a field of the program's context.
    unsafe { (*ctx.skb.skb).pkt_type == PACKET_HOST }
}

/// The most packets that the kernel merges, or that a sender's socket takes as one (UDP_MAX_SEGMENTS).
const SEGMENTS_MAX: u32 = 128;

/// Every packet of a registered receiver goes up, whatever it is: the library refuses with reasons. But
/// a question is answered here.
#[inline(always)]
fn receive(ctx: &TcContext, datagram: &Datagram) -> Result<(), Refusal> {
    match datagram.header() {
        Ok((header, Kind::Data)) => take(ctx, datagram, &header),
        Ok((header, Kind::Probe)) if datagram.is_plain_probe() => {
            probe::answer(ctx, datagram, &header)
        }
        Ok((_, Kind::Probe)) | Err(_) => {
            count(Counter::Malformed);
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// A packet, or a superpacket: usually one run of packets that were sent together.
#[inline(always)]
fn take(ctx: &TcContext, datagram: &Datagram, first: &Header) -> Result<(), Refusal> {
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
    };
    if packets > 1 && !is_run(ctx, &walk, first, packets) {
        let packets = if packets < SEGMENTS_MAX { packets } else { SEGMENTS_MAX };
        let callback = take_segment as extern "C" fn(u32, *mut Walk) -> i64;
        // SAFETY: the callback gets what it expects, which outlives the call.
        unsafe { bpf_loop(packets, callback as *mut c_void, (&raw mut walk).cast(), 0) };
        return Ok(());
    }
    if first.flags().contains(Flags::NO_ACK) {
        arrived::record(&walk.key, first, packets, walk.marked != 0);
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

/// What a superpacket needs that is looked at packet by packet.
#[repr(C)]
struct Walk {
    skb: *mut __sk_buff,
    payload: Payload,
    segment_len: u32,
    key: ArrivalKey,
    marked: u32,
}

/// One of its packets. The verifier looks at a callback once, and at a loop for each of its turns.
#[inline(never)]
extern "C" fn take_segment(segment: u32, walk: *mut Walk) -> i64 {
    // SAFETY: the caller's, which nobody else has.
    let walk = unsafe { &mut *walk };
    let ctx = TcContext::new(walk.skb);
    let Some(header) = walk.payload.header_of_segment(&ctx, segment, walk.segment_len) else {
        // What comes behind it has no place of its own either.
        count(Counter::Malformed);
        return 1;
    };
    if header.flags().contains(Flags::NO_ACK) {
        (walk.key.cookie, walk.key.group) = (header.cookie(), u32::from(header.group()));
        arrived::record(&walk.key, &header, 1, walk.marked != 0);
    } else {
        acknowledge(&ctx, segment);
    }
    0
}

/// Sends a clone to the egress of the same device, where [`crate::ack`] knows it by its mark, and the
/// segment to answer by its priority.
#[inline(always)]
fn acknowledge(ctx: &TcContext, segment: u32) {
    let Ok(config) = maps::config() else { return };
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
        count(Counter::AckFailed);
    }
}
