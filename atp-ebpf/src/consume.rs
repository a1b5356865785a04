//! Consumes ACKs and answers to PROBEs: updates delivery bits, epoch counters and the lane's RTT.
//! The functions run under XDP and under tc ingress, because they only read the packet.

use crate::{
    atomic,
    counters::note,
    flow::{self, End},
    law::{self, After, Hook},
    log,
    maps::ACK_RINGS,
    parse::{self, Datagram, PacketBody},
    verdict::Verdict,
};
use atp_common::{
    laws::{lane::EPOCHS, path_delay::PathDelay},
    maps::{ACK_RING_WORDS, ANSWER_WORDS, Event, Flow, LaneState, ack_ring},
    wire::{EpochArrivals, Flags, Header, Kind, PROBE_EPOCHS, PROBE_WORDS},
};
use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::XdpContext};

/// No time of arrival: these have 32 bits.
const UNKNOWN_ARRIVAL: u64 = u64::MAX;
/// How often an atomic update of a word is tried, while other processors write it.
const TRIES: u32 = 4;

/// The path of a frame under XDP.
#[inline(always)]
pub fn run(ctx: &XdpContext) -> Result<(), Verdict> {
    let datagram = parse::of_frame(ctx).ok_or(Verdict::Foreign)?;
    acknowledgment(ctx, &datagram)
}

/// Consumes an ACK or PROBE-ACK for a registered sender. Anything else is foreign.
#[inline(always)]
pub fn acknowledgment<H: Hook + log::Hook>(hook: &H, datagram: &Datagram) -> Result<(), Verdict> {
    let sender = flow::sender_at(datagram.destination_port).ok_or(Verdict::Foreign)?;
    let index = u32::from(sender.flow);
    let (header, body) = match datagram.header().map_err(|_| Verdict::Foreign)? {
        (header, Kind::Ack) => (header, None),
        (header, Kind::ProbeAck) => (header, Some(datagram.probe_body().ok_or(Verdict::Foreign)?)),
        _ => return Err(Verdict::Foreign),
    };
    // With other addresses, the port is that of another host or container.
    let Some(flow) = flow_of(index, datagram) else {
        log::write(hook, Event::AckOfOtherEnds);
        return Err(Verdict::Foreign);
    };
    let job = flow::job(flow).ok_or(Verdict::Drop(Event::AckOfEndedJob))?;
    if header.job() != job.id {
        return Err(Verdict::Drop(Event::AckOfOtherJob));
    }
    if header.cookie() != flow.cookie {
        return Err(Verdict::Drop(Event::AckForged));
    }
    let lane = flow::lane(flow, header.group()).ok_or(Verdict::Drop(Event::AckOfNoLane))?;
    let control = flow::control(lane).ok_or(Verdict::Drop(Event::AckOfClosedLane))?;
    let state = flow::state(lane).ok_or(Verdict::Drop(Event::AckOfClosedLane))?;
    let outcome = match body {
        Some(body) => take_answer(index, state, &header, &body),
        None => take_ack(index, state, &header, datagram.ack_arrival()),
    };
    note(hook, outcome);
    law::run_if_due(hook, lane, control, After::Consume);
    Err(Verdict::Consumed)
}

#[inline(always)]
fn take_ack(flow: u32, state: *mut LaneState, header: &Header, arrived: Option<u32>) -> Event {
    let outcome = merge(flow, header.slot(), 1 << (header.slot() % ack_ring::SLOTS_PER_WORD));
    // A slot is one transmission, so a second ACK for it is a duplicate from the network. A lost
    // race still means a new ACK.
    if matches!(outcome, Event::AckNews | Event::AckRaced) {
        count_acked(state, header);
        // DATA with this flag isn't stamped. A receiver without room for it answers it even so.
        if !header.flags().contains(Flags::NO_ACK) {
            // An absent number leaves its register unset, which the verifier refuses to pass on.
            observe_rtt(state, header, arrived.map_or(UNKNOWN_ARRIVAL, u64::from));
        }
    }
    outcome
}

/// Merges the bits before it writes the PROBE's number, so that every reader of the number finds
/// them.
#[inline(always)]
fn take_answer(flow: u32, state: *mut LaneState, header: &Header, body: &PacketBody) -> Event {
    for i in 0..PROBE_WORDS {
        let slot = header.slot().wrapping_add(i as u32 * ack_ring::SLOTS_PER_WORD);
        if let Event::AckOfNoRing = merge(flow, slot, body.bits(i)) {
            return Event::AckOfNoRing;
        }
    }
    for i in 0..PROBE_EPOCHS {
        // An empty count is zero and raises nothing.
        raise_arrived(state, &body.epoch(i));
    }
    let number = header.index();
    let position = ACK_RING_WORDS + number % ANSWER_WORDS;
    let Some(word) = ACK_RINGS.get_value_ptr_mut(flow, &position) else {
        return Event::AckOfNoRing;
    };
    let answered_word = u64::from(number) + 1;
    // SAFETY: an aligned element of a map; another processor may write it, hence volatile.
    unsafe {
        // A PROBE is answered once, so a second answer is a duplicate from the network.
        if word.read_volatile() == answered_word {
            return Event::ProbeStale;
        }
        word.write_volatile(answered_word);
        let answered = (&raw const (*state).answered_probe_time).read_volatile() as u32;
        if (header.time().wrapping_sub(answered) as i32) > 0 || answered == 0 {
            (&raw mut (*state).answered_probe_time).write_volatile(u64::from(header.time()));
        }
    }
    observe_rtt(state, header, UNKNOWN_ARRIVAL);
    Event::ProbeNews
}

/// Raises an epoch's counts to those of an answer. They cover the complete epoch so far, so the
/// largest are the latest.
#[inline(always)]
fn raise_arrived(state: *mut LaneState, count: &EpochArrivals) {
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

/// Updates the RTT without a lock: of two processors at once, one may lose its sample, which hardly
/// matters to a filter of gain 1/8. Retransmissions count too, because egress stamps them anew.
///
/// A function of its own: with the packet log, the caller's stack has no room for it.
#[inline(never)]
fn observe_rtt(state: *mut LaneState, header: &Header, arrived: u64) {
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let Some(age_ns) = header.age_ns(now_ns) else { return };
    let forward = header.forward_delay(u32::try_from(arrived).ok());
    // SAFETY: aligned fields of a map's element; other processors write it, hence volatile.
    unsafe {
        let meter = &raw mut (*state).rtt_meter;
        meter.write_volatile(meter.read_volatile().on_ack(now_ns, age_ns));
        let path = &raw mut (*state).path;
        PathDelay::observe_at(path, now_ns, age_ns, forward);
    }
}

/// Merges delivery bits of the 32 slots around `slot`, and returns the outcome.
#[inline(always)]
fn merge(flow: u32, slot: u32, bits: u32) -> Event {
    let position = ack_ring::position(slot, ACK_RING_WORDS);
    let Some(word) = ACK_RINGS.get_value_ptr_mut(flow, &position) else {
        return Event::AckOfNoRing;
    };
    for _ in 0..TRIES {
        // SAFETY: an aligned element of a map; other processors write it, hence volatile.
        let old = unsafe { word.read_volatile() };
        let Some(new) = ack_ring::merged(old, slot, bits) else {
            return Event::AckStale;
        };
        // SAFETY: as above.
        if unsafe { atomic::replace(word, old, new) } {
            return Event::AckNews;
        }
    }
    Event::AckRaced
}
