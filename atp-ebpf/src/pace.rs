//! Schedules the departure of packets.

use crate::{atomic, counters::note, verdict::Verdict};
use atp_common::{
    laws::{
        advice::uneven_bytes,
        pacing::{Departure, UNATTENDED_HORIZON_NS, depart},
    },
    maps::{BACKEND_HTB, Config, Event, LaneControl, LaneState},
    units::Rate,
};
use aya_ebpf::{helpers::generated::bpf_skb_set_tstamp, programs::TcContext};

/// How often a packet tries to advance its lane's clock with a compare-exchange.
const TRIES: u32 = 4;
/// `BPF_SKB_TSTAMP_DELIVERY_MONO`
const DELIVERY_TIME: u32 = 1;

/// Schedules a packet of `bytes` on its lane, and returns its departure time. The qdisc gets a
/// delivery time (fq) or a class (HTB). `number` differs from packet to packet. Under HTB, gaps are
/// even.
#[inline(always)]
pub fn schedule(
    ctx: &TcContext,
    config: &Config,
    control: &LaneControl,
    lane: *mut LaneState,
    now_ns: u64,
    bytes: u32,
    number: u32,
) -> Result<u64, Verdict> {
    // Each is read once, because the daemon may write it at the same time.
    // SAFETY: fields of map values, each read in one load.
    let (mut rate_bytes_per_s, uneven_gaps, burst_bytes_max, heartbeat_ns) = unsafe {
        (
            (&raw const control.rate_bytes_per_s).read_volatile(),
            (&raw const control.uneven_gaps).read_volatile(),
            (&raw const control.burst_bytes_max).read_volatile(),
            (&raw const config.heartbeat_ns).read_volatile(),
        )
    };
    // The daemon may have written its heartbeat after this program read the clock.
    let unattended = now_ns > heartbeat_ns && now_ns - heartbeat_ns > config.heartbeat_ns_max;
    let mut horizon_ns = config.horizon_ns;
    if unattended {
        note(ctx, Event::Unattended);
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
        // Without a daemon the class's rate stays as it is, so the lane's clock limits it instead.
        if unattended {
            advance_clock(lane, now_ns, bytes, rate, horizon_ns, 0)?;
        }
        return Ok(now_ns);
    }
    let paced_bytes = if uneven_gaps != 0 { uneven_bytes(bytes, number) } else { bytes };
    let at_ns = advance_clock(lane, now_ns, paced_bytes, rate, horizon_ns, burst_bytes_max)?;
    set_delivery_time(ctx, at_ns);
    Ok(at_ns)
}

/// Schedules a packet after the earlier packets of its lane, without advancing the lane's clock: it
/// leaves together with the next packet. Returns its departure time.
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
    set_delivery_time(ctx, at_ns);
    at_ns
}

/// Sets the packet's delivery time for fq. The packet keeps it through other namespaces. For a
/// packet with a VLAN tag in its data the kernel doesn't offer that, so only the bare time is set.
#[inline(always)]
fn set_delivery_time(ctx: &TcContext, at_ns: u64) {
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
/// compare-exchange, so no departure is given twice. A packet that loses every try adds its
/// duration unconditionally: that keeps the rate, but may exceed the horizon by the packets in the
/// race.
#[inline(always)]
fn advance_clock(
    lane: *mut LaneState,
    now_ns: u64,
    bytes: u32,
    rate: Rate,
    horizon_ns: u64,
    burst_bytes_max: u32,
) -> Result<u64, Verdict> {
    // SAFETY: an element of a map, never null.
    let clock = unsafe { &raw mut (*lane).clock_ns };
    for _ in 0..TRIES {
        // SAFETY: aligned and in the map; other processors write it, hence volatile.
        let clock_ns = unsafe { clock.read_volatile() };
        match depart(clock_ns, now_ns, bytes, rate, horizon_ns, burst_bytes_max) {
            Departure::TooFar => return Err(too_far(lane)),
            Departure::At { at_ns, clock_ns: next_ns } => {
                // SAFETY: aligned and in the map.
                if unsafe { atomic::replace(clock, clock_ns, next_ns) } {
                    // After a race, this may be the older of two departures.
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
fn too_far(lane: *mut LaneState) -> Verdict {
    // SAFETY: aligned and in the map.
    unsafe { atomic::add(&raw mut (*lane).too_far_packets, 1) };
    Verdict::Drop(Event::TooFar)
}
