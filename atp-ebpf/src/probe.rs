//! PROBEs: at egress let out in step with their lane, at ingress answered in place.

use crate::{
    arrived,
    counters::count,
    flow,
    maps::ANSWER,
    mark_dscp, pace,
    packet::{load_u64, store_u64},
    parse::Datagram,
    stamp::{self, UDP_CHECKSUM, words_of},
    turn,
    verdict::Refusal,
};
use atp_common::{
    checksum,
    maps::{Config, Counter, LaneControl, LaneState},
    wire::{HEADER_LEN, Header, PROBE_LEN, ProbeBody},
};
use aya_ebpf::{
    bindings::BPF_F_MARK_MANGLED_0,
    helpers::generated::{bpf_ktime_get_ns, bpf_redirect},
    programs::TcContext,
};

/// A lane may ask again after so many packets ...
const PACKETS_MIN: u64 = 32;
/// ... or so long. Half of what libraries keep to, whose clock runs a little ahead of this one.
const INTERVAL_NS_MIN: u64 = 500_000;

/// A registered sender's question leaves behind the packets that it asks about: in their queue, not
/// before them, and without a turn of its own on the lane's clock.
#[inline(always)]
pub fn ask(
    ctx: &TcContext,
    config: &Config,
    datagram: &Datagram,
    header: &Header,
    control: &LaneControl,
    state: *mut LaneState,
) -> Result<(), Refusal> {
    if datagram.payload_len != PROBE_LEN {
        return Err(Refusal::Drop(Counter::Unsendable));
    }
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    // SAFETY: aligned fields of a map's element; other processors write them, hence volatile. Two that
    // ask at once may both pass: that is one question more.
    unsafe {
        let asked_ns = (&raw const (*state).probe_sent_ns).read_volatile();
        let unasked = (&raw const (*state).unprobed_packets).read_volatile();
        if unasked < PACKETS_MIN && asked_ns != 0 && now_ns < asked_ns + INTERVAL_NS_MIN {
            return Err(Refusal::Drop(Counter::ProbeTooSoon));
        }
        (&raw mut (*state).probe_sent_ns).write_volatile(now_ns);
        (&raw mut (*state).unprobed_packets).write_volatile(0);
    }
    let (epoch, dscp) = flow::epoch_and_dscp(control);
    let departure_ns = pace::follow(ctx, config, control, state, now_ns);
    mark_dscp::of_lane(datagram, dscp);
    stamp::write(ctx, datagram, header, epoch, departure_ns)
}

/// Answers a PROBE ([`Datagram::is_plain_probe`]) in place: fills in what arrived, and sends the packet
/// back. Source and destination change places, which no checksum notices.
#[inline(always)]
pub fn answer(ctx: &TcContext, datagram: &Datagram, header: &Header) -> Result<(), Refusal> {
    const FAILED: Refusal = Refusal::Drop(Counter::ProbeFailed);
    let at = datagram.probe_body().ok_or(FAILED)?.at();
    // A stack has no room for it. Programs on one processor don't interrupt each other.
    let body = ANSWER.get_ptr_mut(0).ok_or(FAILED)?;
    // SAFETY: this processor's own element.
    let body = unsafe { &mut *body };
    match arrived::find(datagram, header) {
        Some(element) => arrived::fill_in(&element, header.slot(), body),
        // Nothing came, or it was forgotten.
        None => *body = ProbeBody::default(),
    }
    let kind = [header, &header.into_probe_ack()].map(|header| first_word(header));
    let mut difference = words_of(!kind[0]) + words_of(kind[1]);
    // SAFETY: the words of the header's beginning and of the body, all of which was checked.
    unsafe { store_u64(at - HEADER_LEN, kind[1]) };
    for (i, new) in body.double_words().enumerate() {
        // SAFETY: as above.
        unsafe {
            difference += words_of(!load_u64(at + 8 * i)) + words_of(new);
            store_u64(at + 8 * i, new);
        }
    }
    turn::around(datagram);
    count(Counter::ProbeAnswered);
    if turn::has_checksum(datagram) {
        let difference = u64::from(checksum::fold(difference));
        let flags = u64::from(BPF_F_MARK_MANGLED_0);
        ctx.l4_csum_replace(datagram.udp_offset() + UDP_CHECKSUM, 0, difference, flags)
            .map_err(|_| FAILED)?;
    }
    // SAFETY: a field of the program's context, and a helper without pointers.
    Err(Refusal::Turned(unsafe { bpf_redirect((*ctx.skb.skb).ifindex, 0) } as i32))
}

#[inline(always)]
fn first_word(header: &Header) -> u64 {
    // SAFETY: `Header` is 32 bytes of plain data; the copy needs no alignment.
    let words: [u64; 4] = unsafe { core::mem::transmute(*header) };
    words[0]
}
