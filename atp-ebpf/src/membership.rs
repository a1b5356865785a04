//! Checks that members of a job's cgroup send for that job and no other, and that no other socket
//! sends for it. That goes for every packet that a receiver may take for one of ATP, also where the
//! programs can't pace it: of an unregistered socket, in the middle of a GSO buffer, in fragments,
//! or behind IPv6 extension headers.

use crate::{
    arrived, cgroup,
    flow::{self, End},
    log,
    maps::BOUND_IDS,
    parse::{Datagram, Payload},
    parse_hidden,
    verdict::Verdict,
};
use atp_common::{
    maps::{Config, Event, Flow, Job},
    wire::{Header, Kind},
};
use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_loop, programs::TcContext};
use core::ffi::c_void;

/// Checks DATA, FIN or TERMS of a socket that isn't registered for sending, which a library paces
/// by itself. Only members of a job's cgroup may send for that job, and they may send for no other.
/// RECEIPTs of a registered receiver admit their destination.
#[inline(always)]
pub fn check_unregistered(
    ctx: &TcContext,
    config: &Config,
    datagram: &Datagram,
) -> Result<(), Verdict> {
    let (header, kind) = datagram.header().map_err(|_| Verdict::Foreign)?;
    let is_checked = is_claim(kind) || matches!(kind, Kind::Receipt);
    if !is_checked || !cgroup::has_socket(ctx) {
        // A packet without a socket was forwarded: its ids are another host's.
        return Err(Verdict::Foreign);
    }
    if let Kind::Receipt = kind {
        let (source, _) = datagram.addresses();
        let local = End { address: source, port: datagram.source_port };
        let receiver = flow::receiver_at(&local);
        if receiver.is_some_and(|receiver| flow::is_from_socket_of(ctx, receiver)) {
            arrived::admit(datagram, &header);
        }
        return Err(Verdict::Foreign);
    }
    if !may_name(cgroup::job_of_socket(ctx, config), header.job()) {
        return Err(Verdict::Drop(Event::NotOfCgroup));
    }
    log::write(ctx, Event::NoFlow);
    Err(Verdict::Foreign)
}

/// Checks the header's job and cookie against the flow, and the socket's cgroup against the job.
#[inline(always)]
pub fn prove(
    ctx: &TcContext,
    config: &Config,
    flow: &Flow,
    job: &Job,
    header: &Header,
) -> Result<(), Verdict> {
    let claimed = header.job() == job.id && header.cookie() == flow.cookie;
    let job_of_socket = cgroup::job_of_socket(ctx, config);
    let bound = job.cgroup != 0 || job_of_socket != cgroup::NO_JOB;
    if !claimed {
        return Err(Verdict::Drop(Event::NotOfFlow));
    }
    if bound && job_of_socket != flow.job_index {
        return Err(Verdict::Drop(Event::NotOfCgroup));
    }
    Ok(())
}

/// Whether a socket may send for the job with this id. `own`: the job of its cgroup. A job without
/// a cgroup has no list of members.
#[inline(always)]
fn may_name(own: u32, id: u32) -> bool {
    // SAFETY: the element is read at once.
    unsafe { BOUND_IDS.get(id) }.copied().unwrap_or(cgroup::NO_JOB) == own
}

/// Checks a packet in which [`crate::parse`] finds no datagram: a fragment, or one behind extension
/// headers. Receivers read those too. Only hosts with jobs of cgroups look at them.
#[inline(always)]
pub fn check_hidden(ctx: &TcContext, config: &Config) -> Result<(), Verdict> {
    if !cgroup::are_bound(config) {
        return Err(Verdict::Foreign);
    }
    match parse_hidden::payload_offset(ctx.skb.skb) {
        parse_hidden::NONE => {}
        parse_hidden::CUT if cgroup::has_socket(ctx) => {
            return Err(Verdict::Drop(Event::CutHeader));
        }
        parse_hidden::CUT => {}
        offset => {
            // SAFETY: a field of the program's context.
            let segment_len = unsafe { (*ctx.skb.skb).gso_size };
            let len = ctx.len().saturating_sub(offset);
            check_all(ctx, config, Payload { offset, len }, segment_len)?;
        }
    }
    Err(Verdict::Foreign)
}

/// Checks every packet of a GSO buffer, or the only packet.
#[inline(always)]
pub fn check_all(
    ctx: &TcContext,
    config: &Config,
    payload: Payload,
    segment_len: u32,
) -> Result<(), Verdict> {
    if !cgroup::are_bound(config) || !cgroup::has_socket(ctx) {
        return Ok(());
    }
    let packets = payload.segments(segment_len);
    let own = cgroup::job_of_socket(ctx, config);
    let mut walk = Walk { skb: ctx.skb.skb, payload, segment_len, own, refused: 0 };
    let callback = check_segment as extern "C" fn(u32, *mut Walk) -> i64;
    // SAFETY: the callback gets a `Walk`, as it expects, which outlives the call.
    unsafe { bpf_loop(packets, callback as *mut c_void, (&raw mut walk).cast(), 0) };
    if walk.refused != 0 { Err(Verdict::Drop(Event::NotOfCgroup)) } else { Ok(()) }
}

/// The state of a pass through the packets of a buffer.
#[repr(C)]
struct Walk {
    skb: *mut __sk_buff,
    payload: Payload,
    segment_len: u32,
    own: u32,
    /// Not 0 once a packet names a job for which its socket may not send.
    refused: u32,
}

#[inline(never)]
extern "C" fn check_segment(segment: u32, walk: *mut Walk) -> i64 {
    // SAFETY: the caller's own, without another reference to it.
    let walk = unsafe { &mut *walk };
    let ctx = TcContext::new(walk.skb);
    let Some((header, kind)) = walk.payload.header_at(&ctx, segment * walk.segment_len) else {
        return 0;
    };
    if is_claim(kind) && !may_name(walk.own, header.job()) {
        walk.refused = 1;
        return 1;
    }
    0
}

/// Whether packets of this kind make a receiver do something for the job that they name.
#[inline(always)]
const fn is_claim(kind: Kind) -> bool {
    matches!(kind, Kind::Data | Kind::Fin | Kind::Terms)
}
