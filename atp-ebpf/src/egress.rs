//! What leaves: a registered sender's DATA is checked, paced, marked, stamped and counted.

use crate::{
    ack, atomic, cgroup,
    counters::count,
    flow::{self, End},
    maps::{self, JOB_IDS, JOBS},
    mark_dscp, pace,
    parse::{self, Datagram},
    stamp,
    verdict::Refusal,
};
use atp_common::{
    laws::lane::EPOCHS,
    maps::{Config, Counter, Flow, Job, LaneControl, LaneState},
    wire::{Header, Kind},
};
use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::TcContext};

const UNSENDABLE: Refusal = Refusal::Drop(Counter::Unsendable);
const IMPERSONATION: Refusal = Refusal::Drop(Counter::Impersonation);

/// The way of a packet that leaves.
#[inline(always)]
pub fn run(ctx: &TcContext) -> Result<(), Refusal> {
    let config = maps::config()?;
    // SAFETY: a field of the program's context.
    let mark = unsafe { (*ctx.skb.skb).mark };
    if mark != 0 && mark == config.ack_mark {
        return ack::write(ctx);
    }
    let datagram = parse::of_skb(ctx).ok_or(Refusal::Foreign)?;
    let Some(flow) = flow_of(&datagram) else {
        return refuse_pretender(ctx, config, &datagram);
    };
    let (header, Kind::Data) = datagram.header().map_err(|_| Refusal::Foreign)? else {
        return Ok(());
    };
    // SAFETY: a field of the program's context.
    if unsafe { (*ctx.skb.skb).gso_size } != 0 {
        // A superpacket would leave as many packets under one turn, one count and one stamp.
        return Err(UNSENDABLE);
    }
    let job = flow::job(flow).ok_or(IMPERSONATION)?;
    prove_membership(ctx, config, flow, job, &header)?;
    let lane = flow::lane(flow, header.group()).ok_or(UNSENDABLE)?;
    let control = flow::control(lane).ok_or(UNSENDABLE)?;
    let state = flow::state(lane).ok_or(UNSENDABLE)?;
    send(ctx, config, &datagram, &header, control, state)
}

/// The registered flow of a packet: port and both addresses must be its own.
#[inline(always)]
fn flow_of(datagram: &Datagram) -> Option<&'static Flow> {
    let index = flow::sending_from(datagram.source_port)?;
    let (source, destination) = datagram.addresses();
    let local = End { address: source, port: datagram.source_port };
    let remote = End { address: destination, port: datagram.destination_port };
    flow::between(index, &local, &remote)
}

/// DATA of a socket that isn't registered: a library paces it by itself. A job that has a cgroup is
/// its members' alone, and they send for no other.
#[inline(always)]
fn refuse_pretender(ctx: &TcContext, config: &Config, datagram: &Datagram) -> Result<(), Refusal> {
    let (header, Kind::Data) = datagram.header().map_err(|_| Refusal::Foreign)? else {
        return Err(Refusal::Foreign);
    };
    if !cgroup::has_socket(ctx) {
        // Forwarded: another host's affair, whatever ids it uses.
        return Err(Refusal::Foreign);
    }
    // SAFETY: the element is read at once.
    let claimed = unsafe { JOB_IDS.get(header.job()) }.copied().unwrap_or(cgroup::NO_JOB);
    let job_of_socket = cgroup::job_of_socket(ctx, config);
    if claimed == job_of_socket {
        return Err(Refusal::Foreign);
    }
    let is_bound = JOBS.get(claimed).is_some_and(|job| job.cgroup != 0);
    Err(if is_bound || job_of_socket != cgroup::NO_JOB { IMPERSONATION } else { Refusal::Foreign })
}

/// The header's claim to a job against what is known of the flow and of the socket's cgroup.
#[inline(always)]
fn prove_membership(
    ctx: &TcContext,
    config: &Config,
    flow: &Flow,
    job: &Job,
    header: &Header,
) -> Result<(), Refusal> {
    let claimed = header.job() == job.id && header.cookie() == flow.cookie;
    let job_of_socket = cgroup::job_of_socket(ctx, config);
    let bound = job.cgroup != 0 || job_of_socket != cgroup::NO_JOB;
    if !claimed || (bound && job_of_socket != flow.job_index) {
        return Err(IMPERSONATION);
    }
    Ok(())
}

#[inline(always)]
fn send(
    ctx: &TcContext,
    config: &Config,
    datagram: &Datagram,
    header: &Header,
    control: &LaneControl,
    state: *mut LaneState,
) -> Result<(), Refusal> {
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    // Read once: the controller may open the next epoch meanwhile.
    // SAFETY: fields of a map value, each whole in one load.
    let (epoch, dscp) = unsafe {
        let epoch = (&raw const control.epoch).read_volatile();
        (epoch as u16, (&raw const control.dscp).read_volatile())
    };
    let departure_ns = pace::schedule(ctx, config, control, state, now_ns)?;
    match dscp {
        LaneControl::DSCP_KEEP => mark_dscp::allow_marks(datagram),
        dscp => mark_dscp::rewrite(datagram, dscp as u8 & 0x3f),
    }
    let bytes = ctx.len();
    stamp::write(ctx, datagram, header, epoch, departure_ns)?;
    count_sent(state, epoch, bytes);
    count(Counter::Paced);
    Ok(())
}

#[inline(always)]
fn count_sent(state: *mut LaneState, epoch: u16, bytes: u32) {
    // SAFETY: an element of a map; the cell's index is below EPOCHS.
    let cell = unsafe { &raw mut (*state).cells[usize::from(epoch) % EPOCHS] };
    // SAFETY: aligned fields of that cell. The controller sets the tag before any packet carries
    // the epoch; a cell of another epoch is left alone.
    unsafe {
        if (&raw const (*cell).epoch).read_volatile() == u32::from(epoch) {
            atomic::add(&raw mut (*cell).sent_packets, 1);
            atomic::add(&raw mut (*cell).sent_bytes, u64::from(bytes));
        }
    }
}
