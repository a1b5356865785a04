//! Runs laws in the kernel (`--epochs kernel`). Once a lane's law is due, the next packet of the
//! lane that leaves or is acknowledged runs it, instead of the daemon.
//!
//! Laws run in a program of their own, because a tail call frees the caller's stack.

use crate::{
    atomic,
    maps::{DUE, LANE_CONTROL, LANE_LAW, LANE_STATE, LAW_TC, LAW_XDP},
};
use atp_common::{
    laws::{
        lane::{Counters, EPOCHS, EpochCount, View},
        pacing::hastened,
        path_delay::PathDelay,
        yielding,
    },
    maps::{EpochCell, LaneControl, LaneLaw, LaneState},
    units::{Rate, Share},
    wire::Advice,
};
use aya_ebpf::{
    helpers::generated::{bpf_ktime_get_ns, bpf_ktime_get_tai_ns},
    programs::{TcContext, XdpContext},
};

/// The end of the program for the current packet.
#[derive(Clone, Copy)]
pub enum After {
    /// It passes.
    Pass = 0,
    /// It ends here: an ACK that was consumed.
    Consume = 1,
}

/// A hook from which a law can be run.
pub trait Hook {
    /// Continues in the program that runs laws. Returns only if that program is not loaded.
    fn tail_call(&self, after: After);
}

impl Hook for TcContext {
    #[inline(always)]
    fn tail_call(&self, after: After) {
        // SAFETY: the array holds programs of this hook's kind.
        _ = unsafe { LAW_TC.tail_call(self, after as u32) };
    }
}

impl Hook for XdpContext {
    /// Packets that pass here run no law.
    #[inline(always)]
    fn tail_call(&self, _: After) {
        // SAFETY: the array holds programs of this hook's kind.
        _ = unsafe { LAW_XDP.tail_call(self, 0) };
    }
}

/// If the lane's law is due, runs it and ends the calling program. The verdict is that of the
/// program that is called: a tail call has no arguments, and memory of the processor could be
/// another program's by then.
#[inline(always)]
pub fn run_if_due(hook: &impl Hook, lane: u32, control: &LaneControl, after: After) {
    // SAFETY: a field of a map value, whole in one load.
    let due_ns = unsafe { (&raw const control.due_ns).read_volatile() };
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    if due_ns == 0 || unsafe { bpf_ktime_get_ns() } < due_ns {
        return;
    }
    let Some(due) = DUE.get_ptr_mut(0) else { return };
    // SAFETY: an aligned u32 in a map, whole in one store.
    unsafe { due.write_volatile(lane) };
    hook.tail_call(after);
}

/// Runs the law that is due.
#[inline(always)]
pub fn run() {
    // SAFETY: an aligned u32 in a map, whole in one load.
    let Some(lane) = DUE.get_ptr(0).map(|due| unsafe { due.read_volatile() }) else { return };
    // Only one program runs a lane's law at a time. Other programs skip the law meanwhile.
    let Some(law) = LANE_LAW.get_ptr_mut(lane) else { return };
    // SAFETY: an element of a map, never null.
    let holder = unsafe { &raw mut (*law).holder };
    // SAFETY: an aligned u64 in a map.
    if unsafe { atomic::replace(holder, LaneLaw::FREE, LaneLaw::PROGRAM) } {
        step(lane, law);
        // SAFETY: as above.
        unsafe { atomic::replace(holder, LaneLaw::PROGRAM, LaneLaw::FREE) };
    }
}

#[inline(always)]
fn step(index: u32, law: *mut LaneLaw) {
    let Some(control) = LANE_CONTROL.get_ptr_mut(index) else { return };
    let Some(state) = LANE_STATE.get_ptr_mut(index) else { return };
    // SAFETY: elements of maps. The law is this program's while it holds it; the fields of the
    // others are written by other processors, hence volatile.
    unsafe {
        // The lane was closed meanwhile, or another processor was faster.
        let now_ns = bpf_ktime_get_ns();
        let due_ns = (&raw const (*control).due_ns).read_volatile();
        if (&raw const (*control).active).read_volatile() == 0 || due_ns == 0 || now_ns < due_ns {
            return;
        }
        let rtt = (&raw const (*state).rtt_meter.rtt).read_volatile();
        let view = View {
            now_ns,
            last_departure_ns: (&raw const (*state).left_ns).read_volatile(),
            rtt,
            tlr: Share::from_q16((&raw const (*law).tlr_q16).read_volatile()),
        };
        let advice = Advice::from_wire((&raw const (*law).advice).read_volatile());
        let received_ns = (&raw const (*law).received_ns).read_volatile();
        let acks_lost_q16 = (&raw const (*law).acks_lost_q16).read_volatile();
        let lane = &mut (*law).lane;
        let before = lane.rate();
        lane.advise(advice, received_ns);
        lane.set_acks_lost(Share::from_q16(acks_lost_q16));
        if lane.has_window() {
            let idle_ns = PathDelay::idle_ns_at(&raw const (*state).path);
            // CLOCK_TAI: the seconds of CLOCK_REALTIME, which programs can't read.
            lane.set_draining(yielding::drains(bpf_ktime_get_tai_ns(), idle_ns));
        }
        lane.step(&view, &mut Cells(state));
        hasten(state, now_ns, before, lane.rate());
        (*law).ran_ns = now_ns;
        (*law).runs += 1;
        let queue = lane.queue();
        let dscp = LaneControl::dscp_in(queue, (*law).dscp_by_queue[usize::from(queue) % 8]);
        (&raw mut (*control).rate_bytes_per_s).write_volatile(lane.rate().bytes_per_s());
        (&raw mut (*control).dscp).write_volatile(dscp);
        (&raw mut (*control).uneven_gaps).write_volatile(u32::from(lane.has_uneven_gaps()));
        // The epoch's cell was opened before, so every reader of the number finds it open.
        atomic::publish(&raw mut (*control).epoch, u32::from(lane.epoch()));
        (&raw mut (*control).due_ns).write_volatile(lane.due_ns(now_ns, rtt));
    }
}

/// Lets the next packet leave earlier if the rate has risen. A packet scheduled at the same moment
/// keeps the old rate's departure; the next rise corrects that.
#[inline(always)]
unsafe fn hasten(state: *mut LaneState, now_ns: u64, before: Rate, rate: Rate) {
    // SAFETY: an element of a map; other processors write it, hence volatile and exchanged.
    unsafe {
        let clock = &raw mut (*state).clock_ns;
        let clock_ns = clock.read_volatile();
        let left_ns = (&raw const (*state).left_ns).read_volatile();
        let next_ns = hastened(clock_ns, left_ns, now_ns, before, rate);
        if next_ns != clock_ns {
            atomic::replace(clock, clock_ns, next_ns);
        }
    }
}

/// A lane's epoch cells.
struct Cells(*mut LaneState);

impl Cells {
    #[inline(always)]
    fn cell(&self, epoch: u16) -> *mut EpochCell {
        // SAFETY: an element of a map; the cell's index is below EPOCHS.
        unsafe { &raw mut (*self.0).cells[usize::from(epoch) % EPOCHS] }
    }
}

impl Counters for Cells {
    #[inline(always)]
    fn read(&self, epoch: u16) -> EpochCount {
        // SAFETY: aligned fields of that element; other processors write it, hence volatile.
        let cell = unsafe { self.cell(epoch).read_volatile() };
        match cell.epoch == u32::from(epoch) {
            true => cell.count(),
            false => EpochCount::default(),
        }
    }

    #[inline(always)]
    fn is_settled(&self, epoch: u16, now_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe {
            let cell = self.cell(epoch).read_volatile();
            let answered_probe_time =
                (&raw const (*self.0).answered_probe_time).read_volatile() as u32;
            let probe_sent_ns = (&raw const (*self.0).probe_sent_ns).read_volatile();
            let rtt = (&raw const (*self.0).rtt_meter.rtt).read_volatile();
            cell.epoch != u32::from(epoch)
                || cell.is_settled(answered_probe_time, probe_sent_ns, rtt, now_ns)
        }
    }

    /// As in the daemon, the cell counts nothing while it is zeroed.
    #[inline(always)]
    fn open(&mut self, epoch: u16) {
        let cell = self.cell(epoch);
        // SAFETY: as above.
        unsafe {
            atomic::publish(&raw mut (*cell).epoch, EpochCell::NO_EPOCH);
            cell.write_volatile(EpochCell { epoch: EpochCell::NO_EPOCH, ..EpochCell::default() });
            atomic::publish(&raw mut (*cell).epoch, u32::from(epoch));
        }
    }
}
