//! ACKs that come back: the packet's delivery bit, its epoch's counters and the lane's RTT. The same
//! function under XDP and under tc ingress: it only reads the packet.

use crate::{
    atomic,
    flow::{self, End},
    maps::ACK_RINGS,
    parse::{self, Datagram},
    verdict::Refusal,
};
use atp_common::{
    laws::lane::EPOCHS,
    maps::{ACK_RING_WORDS, Counter, Flow, LaneState, ack_ring},
    wire::{Flags, Header, Kind},
};
use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::XdpContext};

/// How often a bit is tried against other processors that write the same word.
const TRIES: u32 = 4;

const UNKNOWN: Refusal = Refusal::Drop(Counter::AckUnknown);

/// The way of a frame under XDP.
#[inline(always)]
pub fn run(ctx: &XdpContext) -> Result<(), Refusal> {
    let datagram = parse::of_frame(ctx).ok_or(Refusal::Foreign)?;
    acknowledgement(&datagram)
}

/// Consumes the ACK of a registered sender; anything else is foreign.
#[inline(always)]
pub fn acknowledgement(datagram: &Datagram) -> Result<(), Refusal> {
    let index = flow::sending_from(datagram.destination_port).ok_or(Refusal::Foreign)?;
    let (header, Kind::Ack) = datagram.header().map_err(|_| Refusal::Foreign)? else {
        return Err(Refusal::Foreign);
    };
    // Another host's or container's use of the same port: its own affair.
    let flow = flow_of(index, datagram).ok_or(Refusal::Foreign)?;
    let job = flow::job(flow).ok_or(UNKNOWN)?;
    if header.job() != job.id {
        return Err(UNKNOWN);
    }
    if header.cookie() != flow.cookie {
        return Err(Refusal::Drop(Counter::AckForged));
    }
    let lane = flow::lane(flow, header.group()).ok_or(UNKNOWN)?;
    flow::control(lane).ok_or(UNKNOWN)?;
    let state = flow::state(lane).ok_or(UNKNOWN)?;
    let outcome = set_bit(index, header.slot());
    // A slot names one transmission, so what comes again was made on the way. A race that was lost
    // is news all the same.
    if matches!(outcome, Counter::AckNews | Counter::AckRaced) {
        count_acked(state, &header);
        observe_rtt(state, &header);
    }
    Err(Refusal::Drop(outcome))
}

#[inline(always)]
fn flow_of(index: u32, datagram: &Datagram) -> Option<&'static Flow> {
    let (source, destination) = datagram.addresses();
    let local = End { address: destination, port: datagram.destination_port };
    let remote = End { address: source, port: datagram.source_port };
    flow::between(index, &local, &remote)
}

#[inline(always)]
fn count_acked(state: *mut LaneState, header: &Header) {
    let epoch = header.epoch();
    // SAFETY: an element of a map; the cell's index is below EPOCHS.
    let cell = unsafe { &raw mut (*state).cells[usize::from(epoch) % EPOCHS] };
    // SAFETY: aligned fields of that cell.
    unsafe {
        if (&raw const (*cell).epoch).read_volatile() != u32::from(epoch) {
            return;
        }
        atomic::add(&raw mut (*cell).acked_packets, 1);
        if header.flags().contains(Flags::CONGESTION) {
            atomic::add(&raw mut (*cell).marked_packets, 1);
        }
    }
}

/// Read, smooth, write: two processors that do so at once lose one of their samples, which a filter
/// of gain 1/8 doesn't notice. Retransmissions count too: egress stamps them anew.
#[inline(always)]
fn observe_rtt(state: *mut LaneState, header: &Header) {
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let Some(age_ns) = header.age_ns(now_ns) else { return };
    // SAFETY: an aligned field of a map's element; other processors write it, hence volatile.
    unsafe {
        let rtt = &raw mut (*state).rtt;
        rtt.write_volatile(rtt.read_volatile().observe(age_ns));
    }
}

/// Sets the delivery bit of `slot` and says what came of it.
#[inline(always)]
fn set_bit(flow: u32, slot: u32) -> Counter {
    let position = ack_ring::position(slot, ACK_RING_WORDS);
    let Some(word) = ACK_RINGS.get_value_ptr_mut(flow, &position) else {
        return Counter::AckUnknown;
    };
    for _ in 0..TRIES {
        // SAFETY: an aligned element of a map; other processors write it, hence volatile.
        let old = unsafe { word.read_volatile() };
        let Some(new) = ack_ring::acknowledged(old, slot) else {
            return Counter::AckStale;
        };
        // SAFETY: as above.
        if unsafe { atomic::replace(word, old, new) } {
            return Counter::AckNews;
        }
    }
    Counter::AckRaced
}
