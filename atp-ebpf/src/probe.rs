//! Sends PROBEs behind the packets of their lane, and answers PROBEs in place.

use crate::{
    arrived,
    counters::note,
    flow, mark_dscp, pace,
    packet::store_u64,
    parse::Datagram,
    stamp::{self, UDP_CHECKSUM, sum_of_words},
    swap_endpoints::{has_checksum, swap_endpoints},
    verdict::Verdict,
};
use atp_common::{
    checksum,
    maps::{Config, Event, LaneControl, LaneState},
    wire::{HEADER_LEN, Header, PROBE_LEN},
};
use aya_ebpf::{
    bindings::BPF_F_MARK_MANGLED_0,
    helpers::generated::{bpf_ktime_get_ns, bpf_redirect},
    programs::TcContext,
};

/// A lane may send the next PROBE after this many packets or after the interval below.
const PACKETS_MIN: u64 = 32;
/// The least interval of a lane's PROBEs without enough packets. It is half of the libraries' own
/// interval, because a library's clock runs a little ahead of this one.
const INTERVAL_NS_MIN: u64 = 500_000;

/// Sends a PROBE of a registered sender behind the packets that it covers, in their queue, without
/// advancing the lane's clock.
#[inline(always)]
pub fn send(
    ctx: &TcContext,
    config: &Config,
    datagram: &Datagram,
    header: &Header,
    control: &LaneControl,
    state: *mut LaneState,
) -> Result<(), Verdict> {
    if datagram.payload_len != PROBE_LEN {
        return Err(Verdict::Drop(Event::ProbeLength));
    }
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    // SAFETY: aligned fields of a map's element; other processors write them, hence volatile. Of
    // two PROBEs at the same time, both may pass.
    unsafe {
        let sent_ns = (&raw const (*state).probe_sent_ns).read_volatile();
        let unprobed = (&raw const (*state).unprobed_packets).read_volatile();
        if unprobed < PACKETS_MIN && sent_ns != 0 && now_ns < sent_ns + INTERVAL_NS_MIN {
            return Err(Verdict::Drop(Event::ProbeTooSoon));
        }
        (&raw mut (*state).probe_sent_ns).write_volatile(now_ns);
        (&raw mut (*state).unprobed_packets).write_volatile(0);
    }
    let (epoch, dscp) = flow::epoch_and_dscp(control);
    let departure_ns = pace::follow(ctx, config, control, state, now_ns);
    mark_dscp::of_lane(datagram, dscp);
    stamp::write(ctx, datagram, header, epoch, departure_ns)
}

/// Answers a PROBE ([`Datagram::is_plain_probe`]) in place: writes the arrivals into it and sends
/// it back. Swapped addresses and ports don't change a checksum, so only the changes of header and
/// body count.
#[inline(always)]
pub fn answer(ctx: &TcContext, datagram: &Datagram, header: &Header) -> Result<(), Verdict> {
    const FAILED: Verdict = Verdict::Drop(Event::ProbeFailed);
    let at = datagram.probe_body().ok_or(FAILED)?.at();
    // Null if nothing arrived, or the record was dropped.
    let record = arrived::find(datagram, header);
    let kind = [header, &header.into_probe_ack()].map(|header| first_word(header));
    let mut difference = sum_of_words(!kind[0]) + sum_of_words(kind[1]);
    // SAFETY: the word of the header's beginning, which was checked.
    unsafe { store_u64(at - HEADER_LEN, kind[1]) };
    // Written word by word: the stack has no room for a body, and a processor's element of a map
    // isn't a program's own. Under PREEMPT_RT another program can run in the middle of this one.
    // SAFETY: all of the body was checked.
    difference += unsafe { arrived::write_answer(record, header.slot(), at) };
    swap_endpoints(datagram);
    note(ctx, Event::ProbeAnswered);
    if has_checksum(datagram) {
        let difference = u64::from(checksum::fold(difference));
        let flags = u64::from(BPF_F_MARK_MANGLED_0);
        ctx.l4_csum_replace(datagram.udp_offset() + UDP_CHECKSUM, 0, difference, flags)
            .map_err(|_| FAILED)?;
    }
    // SAFETY: a field of the program's context, and a helper without pointers.
    Err(Verdict::Redirected(unsafe { bpf_redirect((*ctx.skb.skb).ifindex, 0) } as i32))
}

#[inline(always)]
fn first_word(header: &Header) -> u64 {
    // SAFETY: `Header` is 32 bytes of plain data; the copy needs no alignment.
    let words: [u64; 4] = unsafe { core::mem::transmute(*header) };
    words[0]
}
