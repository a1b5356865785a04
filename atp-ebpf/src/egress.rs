//! Handles packets that leave. DATA of a registered sender is checked, paced, marked, stamped and
//! counted. Its PROBEs follow the packets of their lane.
//!
//! DATA with the flag NO_ACK isn't stamped: its library wrote the epoch, and PROBEs measure the
//! RTT. Only such DATA may come in a GSO buffer, up to 64 KiB with one departure, one mark and one
//! count.

use crate::{
    ack, atomic,
    counters::{count, count_many},
    flow::{self, End},
    law::{self, After},
    maps::{self, ACK_RINGS},
    mark_dscp, membership, pace,
    parse::{self, Datagram, UDP_LEN},
    probe, stamp,
    verdict::Verdict,
};
use atp_common::{
    laws::lane::EPOCHS,
    maps::{ACK_RING_WORDS, Config, Counter, Event, Flow, LaneControl, LaneState, RING_TAIL_WORDS},
    wire::{Flags, Header, Kind},
};
use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::TcContext};

/// The path of a packet that leaves.
#[inline(always)]
pub fn run(ctx: &TcContext) -> Result<(), Verdict> {
    let config = maps::config().ok_or(Verdict::Foreign)?;
    // SAFETY: a field of the program's context.
    let mark = unsafe { (*ctx.skb.skb).mark };
    if mark != 0 && mark == config.ack_mark {
        return ack::write(ctx);
    }
    let Some(datagram) = parse::of_skb(ctx) else {
        return membership::check_hidden(ctx, config);
    };
    // SAFETY: a field of the program's context.
    let segment_len = unsafe { (*ctx.skb.skb).gso_size };
    if segment_len != 0 {
        membership::check_all(ctx, config, datagram.payload(), segment_len)?;
    }
    let Some((index, flow)) = flow_of(ctx, &datagram) else {
        return membership::check_unregistered(ctx, config, &datagram);
    };
    count_seen(index);
    let (header, kind) = datagram.header().map_err(|_| Verdict::Foreign)?;
    if !matches!(kind, Kind::Data | Kind::Probe | Kind::Fin | Kind::Terms) {
        return Ok(());
    }
    let job = flow::job(flow).ok_or(Verdict::Drop(Event::JobEnded))?;
    membership::prove(ctx, config, flow, job, &header)?;
    if matches!(kind, Kind::Fin | Kind::Terms) {
        return Ok(());
    }
    let lane = flow::lane(flow, header.group()).ok_or(Verdict::Drop(Event::NoLane))?;
    let control = flow::control(lane).ok_or(Verdict::Drop(Event::LaneClosed))?;
    let state = flow::state(lane).ok_or(Verdict::Drop(Event::LaneClosed))?;
    if let Kind::Data = kind
        && header.flags().contains(Flags::NO_ACK)
    {
        let packets = datagram.segments(segment_len);
        if packets > 1 {
            // One library made them all, so the last one shows whether they belong together. Those
            // between can name jobs without a cgroup, as packets of any socket can.
            let last = datagram.payload().header_of_segment(ctx, packets - 1, segment_len);
            last.filter(|last| is_of_one_lane(&header, last))
                .ok_or(Verdict::Drop(Event::MixedBuffer))?;
        }
        send_no_ack(ctx, config, &datagram, &header, control, state, packets)?;
        law::run_if_due(ctx, lane, control, After::Pass);
        return Ok(());
    }
    if segment_len != 0 {
        // All packets of a GSO buffer would leave with one departure, one count and one stamp.
        return Err(Verdict::Drop(Event::BufferForAcks));
    }
    if let Kind::Probe = kind {
        return probe::send(ctx, config, &datagram, &header, control, state);
    }
    send(ctx, config, &datagram, &header, control, state)?;
    law::run_if_due(ctx, lane, control, After::Pass);
    Ok(())
}

/// Whether the first and the last packet of a GSO buffer are of one lane and epoch.
#[inline(always)]
fn is_of_one_lane(first: &Header, last: &Header) -> bool {
    last.flags().contains(Flags::NO_ACK)
        && last.job() == first.job()
        && last.cookie() == first.cookie()
        && last.group() == first.group()
        && last.epoch() == first.epoch()
}

/// Counts a packet for its flow, whatever becomes of it. From this count the library knows that
/// its packets pass this program.
#[inline(always)]
fn count_seen(flow: u32) {
    const POSITION: u32 = ACK_RING_WORDS + RING_TAIL_WORDS - 1;
    if let Some(word) = ACK_RINGS.get_value_ptr_mut(flow, &POSITION) {
        // SAFETY: an aligned element of a map.
        unsafe { atomic::add(word, 1) };
    }
}

/// The registered flow of a packet with its index, by ports, addresses and socket.
#[inline(always)]
fn flow_of(ctx: &TcContext, datagram: &Datagram) -> Option<(u32, &'static Flow)> {
    let entry = flow::sender_at(datagram.source_port)?;
    let index = u32::from(entry.flow);
    let (source, destination) = datagram.addresses();
    let local = End { address: source, port: datagram.source_port };
    let remote = End { address: destination, port: datagram.destination_port };
    let flow = flow::between(index, &local, &remote)?;
    flow::is_from_socket_of(ctx, entry).then_some((index, flow))
}

#[inline(always)]
fn send(
    ctx: &TcContext,
    config: &Config,
    datagram: &Datagram,
    header: &Header,
    control: &LaneControl,
    state: *mut LaneState,
) -> Result<(), Verdict> {
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let (epoch, dscp) = flow::epoch_and_dscp(control);
    let bytes = ctx.len();
    let number = header.pacing_number();
    let departure_ns = pace::schedule(ctx, config, control, state, now_ns, bytes, number)?;
    mark_dscp::of_lane(datagram, dscp);
    stamp::write(ctx, datagram, header, epoch, departure_ns)?;
    count_sent(state, epoch, bytes);
    count(Counter::Paced);
    Ok(())
}

/// Sends NO_ACK packets: one, or those of a GSO buffer.
#[inline(always)]
fn send_no_ack(
    ctx: &TcContext,
    config: &Config,
    datagram: &Datagram,
    header: &Header,
    control: &LaneControl,
    state: *mut LaneState,
    packets: u32,
) -> Result<(), Verdict> {
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let (present, dscp) = flow::epoch_and_dscp(control);
    // The kernel will give every segment its own headers.
    let headers_len = (datagram.udp_offset() + UDP_LEN) as u32;
    let bytes = ctx.len() + (packets - 1) * headers_len;
    let number = header.pacing_number();
    let departure_ns = pace::schedule(ctx, config, control, state, now_ns, bytes, number)?;
    mark_dscp::of_lane(datagram, dscp);
    // The epoch may have changed since the library read it. Older epochs than the previous one are
    // ignored: such packets count in the current epoch, where they will never be acknowledged.
    let named = header.epoch();
    let epoch = if present.wrapping_sub(named) <= 1 { named } else { present };
    count_no_ack(state, epoch, packets, bytes, Header::time_of(departure_ns));
    count_many(Counter::Paced, packets);
    Ok(())
}

#[inline(always)]
fn count_no_ack(state: *mut LaneState, epoch: u16, packets: u32, bytes: u32, time: u32) {
    // SAFETY: an element of a map; the cell's index is below EPOCHS.
    let cell = unsafe { &raw mut (*state).cells[usize::from(epoch) % EPOCHS] };
    // SAFETY: aligned fields of that element; as in `count_sent`. Threads that send on one socket
    // at once may race for the time, but they write nearly the same.
    unsafe {
        if (&raw const (*cell).epoch).read_volatile() == u32::from(epoch) {
            (&raw mut (*cell).no_ack_time).write_volatile(time);
            atomic::add(&raw mut (*cell).no_ack_packets, u64::from(packets));
            atomic::add(&raw mut (*cell).sent_packets, u64::from(packets));
            atomic::add(&raw mut (*cell).sent_bytes, u64::from(bytes));
        }
        atomic::add(&raw mut (*state).unprobed_packets, u64::from(packets));
    }
}

#[inline(always)]
fn count_sent(state: *mut LaneState, epoch: u16, bytes: u32) {
    // SAFETY: an element of a map; the cell's index is below EPOCHS.
    let cell = unsafe { &raw mut (*state).cells[usize::from(epoch) % EPOCHS] };
    // SAFETY: aligned fields of that cell. The controller sets the cell's epoch before any packet
    // carries that number; a cell of another epoch is left alone.
    unsafe {
        if (&raw const (*cell).epoch).read_volatile() == u32::from(epoch) {
            atomic::add(&raw mut (*cell).sent_packets, 1);
            atomic::add(&raw mut (*cell).sent_bytes, u64::from(bytes));
        }
    }
}
