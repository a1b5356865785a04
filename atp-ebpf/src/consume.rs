//! ACKs and answers to PROBEs that come back: delivery bits, the epochs' counters and the lane's RTT. The
//! same functions under XDP and under tc ingress: they only read the packet.

use crate::{
    atomic,
    counters::count,
    flow::{self, End},
    law::{self, Hook},
    maps::ACK_RINGS,
    parse::{self, Datagram, PacketBody},
    verdict::Refusal,
};
use atp_common::{
    laws::lane::EPOCHS,
    maps::{ACK_RING_WORDS, ANSWER_WORDS, Counter, Flow, LaneState, ack_ring},
    wire::{EpochArrivals, Flags, Header, Kind, PROBE_EPOCHS, PROBE_WORDS},
};
use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::XdpContext};

/// How often a bit is tried against other processors that write the same word.
const TRIES: u32 = 4;

const UNKNOWN: Refusal = Refusal::Drop(Counter::AckUnknown);

/// The way of a frame under XDP.
#[inline(always)]
pub fn run(ctx: &XdpContext) -> Result<(), Refusal> {
    let datagram = parse::of_frame(ctx).ok_or(Refusal::Foreign)?;
    acknowledgement(ctx, &datagram)
}

/// Consumes what acknowledges packets of a registered sender; anything else is foreign.
#[inline(always)]
pub fn acknowledgement<H: Hook>(hook: &H, datagram: &Datagram) -> Result<(), Refusal> {
    let index = flow::sending_from(datagram.destination_port).ok_or(Refusal::Foreign)?;
    let (header, body) = match datagram.header().map_err(|_| Refusal::Foreign)? {
        (header, Kind::Ack) => (header, None),
        (header, Kind::ProbeAck) => (header, Some(datagram.probe_body().ok_or(Refusal::Foreign)?)),
        _ => return Err(Refusal::Foreign),
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
    let control = flow::control(lane).ok_or(UNKNOWN)?;
    let state = flow::state(lane).ok_or(UNKNOWN)?;
    let outcome = match body {
        Some(body) => take_answer(index, state, &header, &body),
        None => take_ack(index, state, &header),
    };
    count(outcome);
    law::run_if_due(hook, lane, control, H::CONSUMED);
    Err(Refusal::Counted)
}

#[inline(always)]
fn take_ack(flow: u32, state: *mut LaneState, header: &Header) -> Counter {
    let outcome = merge(flow, header.slot(), 1 << (header.slot() % ack_ring::SLOTS_PER_WORD));
    // A slot names one transmission, so what comes again was made on the way. A race that was lost
    // is news all the same.
    if matches!(outcome, Counter::AckNews | Counter::AckRaced) {
        count_acked(state, header);
        observe_rtt(state, header);
    }
    outcome
}

/// Bits first and the question's number last: whoever reads the number finds the bits there.
#[inline(always)]
fn take_answer(flow: u32, state: *mut LaneState, header: &Header, body: &PacketBody) -> Counter {
    for i in 0..PROBE_WORDS {
        let slot = header.slot().wrapping_add(i as u32 * ack_ring::SLOTS_PER_WORD);
        if let Counter::AckUnknown = merge(flow, slot, body.bits(i)) {
            return Counter::AckUnknown;
        }
    }
    for i in 0..PROBE_EPOCHS {
        // Where nothing was counted, nothing rises.
        raise_acked(state, &body.epoch(i));
    }
    let number = header.index();
    let position = ACK_RING_WORDS + number % ANSWER_WORDS;
    let Some(word) = ACK_RINGS.get_value_ptr_mut(flow, &position) else {
        return Counter::AckUnknown;
    };
    let told = u64::from(number) + 1;
    // SAFETY: an aligned element of a map; another processor may write it, hence volatile.
    unsafe {
        // A question is answered once; what comes again was made on the way.
        if word.read_volatile() == told {
            return Counter::ProbeStale;
        }
        word.write_volatile(told);
        let answered = (&raw const (*state).answered_probe_time).read_volatile() as u32;
        if (header.time().wrapping_sub(answered) as i32) > 0 || answered == 0 {
            (&raw mut (*state).answered_probe_time).write_volatile(u64::from(header.time()));
        }
    }
    observe_rtt(state, header);
    Counter::ProbeNews
}

/// The counts of an answer are of the whole epoch so far: the greatest that came is the latest.
#[inline(always)]
fn raise_acked(state: *mut LaneState, count: &EpochArrivals) {
    // SAFETY: an element of a map; the cell's index is below EPOCHS.
    let cell = unsafe { &raw mut (*state).cells[usize::from(count.epoch) % EPOCHS] };
    // SAFETY: aligned fields of that cell.
    unsafe {
        if (&raw const (*cell).epoch).read_volatile() == u32::from(count.epoch) {
            raise(&raw mut (*cell).no_ack_arrived_packets, u64::from(count.arrived));
            raise(&raw mut (*cell).no_ack_marked_packets, u64::from(count.marked));
        }
    }
}

/// # Safety
/// `cell` points to an aligned u64 in a map.
#[inline(always)]
unsafe fn raise(cell: *mut u64, to: u64) {
    for _ in 0..TRIES {
        // SAFETY: as the caller promises; other processors write it, hence volatile.
        let old = unsafe { cell.read_volatile() };
        // SAFETY: as the caller promises.
        if old >= to || unsafe { atomic::replace(cell, old, to) } {
            return;
        }
    }
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

/// Merges news of the 32 slots around `slot` and says what came of it.
#[inline(always)]
fn merge(flow: u32, slot: u32, bits: u32) -> Counter {
    let position = ack_ring::position(slot, ACK_RING_WORDS);
    let Some(word) = ACK_RINGS.get_value_ptr_mut(flow, &position) else {
        return Counter::AckUnknown;
    };
    for _ in 0..TRIES {
        // SAFETY: an aligned element of a map; other processors write it, hence volatile.
        let old = unsafe { word.read_volatile() };
        let Some(new) = ack_ring::merged(old, slot, bits) else {
            return Counter::AckStale;
        };
        // SAFETY: as above.
        if unsafe { atomic::replace(word, old, new) } {
            return Counter::AckNews;
        }
    }
    Counter::AckRaced
}
