//! When a packet leaves.

use crate::{atomic, counters::count, verdict::Refusal};
use atp_common::{
    laws::pacing::{Departure, UNATTENDED_HORIZON_NS, depart},
    maps::{BACKEND_HTB, Config, Counter, LaneControl, LaneState},
    units::Rate,
};
use aya_ebpf::{helpers::generated::bpf_skb_set_tstamp, programs::TcContext};

/// How often a packet tries to take its turn on a lane's clock before it takes it unseen.
const TRIES: u32 = 4;
/// `BPF_SKB_TSTAMP_DELIVERY_MONO`
const DELIVERY_TIME: u32 = 1;

/// Takes the turn of a packet of so many bytes on its lane and returns its departure time. The packet is
/// told to its qdisc: by a delivery time under fq, by a class under HTB.
#[inline(always)]
pub fn schedule(
    ctx: &TcContext,
    config: &Config,
    control: &LaneControl,
    lane: *mut LaneState,
    now_ns: u64,
    bytes: u32,
) -> Result<u64, Refusal> {
    // Each read once: the daemon writes them meanwhile.
    // SAFETY: fields of map values, each whole in one load.
    let (mut rate_bytes_per_s, heartbeat_ns) = unsafe {
        (
            (&raw const control.rate_bytes_per_s).read_volatile(),
            (&raw const config.heartbeat_ns).read_volatile(),
        )
    };
    // The daemon may have written its heartbeat after this program read the clock.
    let unattended = now_ns > heartbeat_ns && now_ns - heartbeat_ns > config.heartbeat_ns_max;
    let mut horizon_ns = config.horizon_ns;
    if unattended {
        count(Counter::Unattended);
        if rate_bytes_per_s > config.safe_rate_bytes_per_s {
            rate_bytes_per_s = config.safe_rate_bytes_per_s;
        }
        if horizon_ns > UNATTENDED_HORIZON_NS {
            horizon_ns = UNATTENDED_HORIZON_NS;
        }
    }
    let rate = Rate::from_bytes_per_s(rate_bytes_per_s);
    if config.backend == BACKEND_HTB {
        // SAFETY: a field of the program's context that tc programs may write.
        unsafe { (*ctx.skb.skb).priority = control.htb_class };
        // Without a daemon nobody lowers the class's rate: the lane's clock polices instead.
        if unattended {
            take_turn(lane, now_ns, bytes, rate, horizon_ns)?;
        }
        return Ok(now_ns);
    }
    let at_ns = take_turn(lane, now_ns, bytes, rate, horizon_ns)?;
    tell_fq(ctx, at_ns);
    Ok(at_ns)
}

/// Sends a packet after those of its lane that left or wait, without a turn of its own: it leaves with
/// the next of them. Returns its departure time.
#[inline(always)]
pub fn follow(
    ctx: &TcContext,
    config: &Config,
    control: &LaneControl,
    lane: *mut LaneState,
    now_ns: u64,
) -> u64 {
    if config.backend == BACKEND_HTB {
        // SAFETY: a field of the program's context that tc programs may write.
        unsafe { (*ctx.skb.skb).priority = control.htb_class };
        return now_ns;
    }
    // SAFETY: aligned and in the map; other processors write it, hence volatile.
    let clock_ns = unsafe { (&raw const (*lane).clock_ns).read_volatile() };
    let at_ns = if clock_ns > now_ns { clock_ns } else { now_ns };
    tell_fq(ctx, at_ns);
    at_ns
}

/// Gives the packet its delivery time, which it keeps on the way through other namespaces. For a
/// packet with a VLAN tag in its data the kernel doesn't offer that: fq goes by the bare time.
#[inline(always)]
fn tell_fq(ctx: &TcContext, at_ns: u64) {
    let skb = ctx.skb.skb;
    // SAFETY: the program's context, and a field of it that tc programs may write.
    unsafe {
        if bpf_skb_set_tstamp(skb, at_ns, DELIVERY_TIME) != 0 {
            (*skb).tstamp = at_ns;
        }
    }
}

/// Advances the lane's clock by one packet.
///
/// Processors race for a lane only if several threads send on one socket. Each try is a
/// compare-exchange, so no turn is given twice; a packet that loses every try adds its duration
/// blindly, which keeps the rate and may overshoot the horizon by the packets in that race.
#[inline(always)]
fn take_turn(
    lane: *mut LaneState,
    now_ns: u64,
    bytes: u32,
    rate: Rate,
    horizon_ns: u64,
) -> Result<u64, Refusal> {
    // SAFETY: an element of a map, never null.
    let clock = unsafe { &raw mut (*lane).clock_ns };
    for _ in 0..TRIES {
        // SAFETY: aligned and in the map; other processors write it, hence volatile.
        let clock_ns = unsafe { clock.read_volatile() };
        match depart(clock_ns, now_ns, bytes, rate, horizon_ns) {
            Departure::TooFar => return Err(too_far(lane)),
            Departure::At { at_ns, clock_ns: next_ns } => {
                // SAFETY: aligned and in the map.
                if unsafe { atomic::replace(clock, clock_ns, next_ns) } {
                    // Processors that race may leave the older of their departures here.
                    // SAFETY: as above.
                    unsafe { (&raw mut (*lane).left_ns).write_volatile(at_ns) };
                    return Ok(at_ns);
                }
            }
        }
    }
    // SAFETY: aligned and in the map.
    let clock_ns = unsafe { atomic::add(clock, rate.duration_ns(bytes)) };
    Ok(if clock_ns > now_ns { clock_ns } else { now_ns })
}

#[inline(always)]
fn too_far(lane: *mut LaneState) -> Refusal {
    // SAFETY: aligned and in the map.
    unsafe { atomic::add(&raw mut (*lane).too_far_packets, 1) };
    Refusal::Drop(Counter::TooFar)
}
