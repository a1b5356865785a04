//! Epochs in the kernel (`--epochs kernel`): the first packet of a lane that leaves or is acknowledged
//! after its law is due runs it, here, instead of the daemon with its next tick.
//!
//! It runs in a program of its own, for which a tail call makes room on the stack.

use crate::{
    atomic,
    maps::{DUE, LANE_CONTROL, LANE_LAW, LANE_STATE, LAW_TC, LAW_XDP},
};
use atp_common::{
    laws::{
        lane::{Counters, EPOCHS, EpochCount, View},
        pacing::hastened,
    },
    maps::{EpochCell, LaneControl, LaneLaw, LaneState},
    units::{Rate, Share},
};
use aya_ebpf::{
    bindings::{TC_ACT_SHOT, xdp_action},
    helpers::generated::bpf_ktime_get_ns,
    programs::{TcContext, XdpContext},
};

/// Whose law is to run, and what becomes of the packet that was there for it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Due {
    lane: u32,
    verdict: i32,
}

/// A hook from which a law can be run.
pub trait Hook {
    /// The verdict on a packet that was consumed here.
    const CONSUMED: i32;
    /// Goes to the program of laws. It comes back only where there is none.
    fn go(&self);
}

impl Hook for TcContext {
    const CONSUMED: i32 = TC_ACT_SHOT;

    #[inline(always)]
    fn go(&self) {
        // SAFETY: the array holds programs of this hook's kind.
        _ = unsafe { LAW_TC.tail_call(self, 0) };
    }
}

impl Hook for XdpContext {
    const CONSUMED: i32 = xdp_action::XDP_DROP as i32;

    #[inline(always)]
    fn go(&self) {
        // SAFETY: the array holds programs of this hook's kind.
        _ = unsafe { LAW_XDP.tail_call(self, 0) };
    }
}

/// Ends the calling program with `verdict` by way of the lane's law, if that is due.
#[inline(always)]
pub fn run_if_due(hook: &impl Hook, lane: u32, control: &LaneControl, verdict: i32) {
    // SAFETY: a field of a map value, whole in one load.
    let due_ns = unsafe { (&raw const control.due_ns).read_volatile() };
    // SAFETY: no arguments; CLOCK_MONOTONIC.
    if due_ns == 0 || unsafe { bpf_ktime_get_ns() } < due_ns {
        return;
    }
    let Some(due) = DUE.get_ptr_mut(0) else { return };
    // SAFETY: this processor's own element; programs on one processor don't interrupt each other.
    unsafe { due.write(Due { lane, verdict }) };
    hook.go();
}

/// The program of laws. Its verdict is its caller's.
#[inline(always)]
pub fn run() -> i32 {
    // SAFETY: as in `run_if_due`.
    let Some(due) = DUE.get_ptr(0).map(|due| unsafe { due.read() }) else { return -1 };
    // One program works on a lane; another one that meets it there leaves it the work.
    if let Some(law) = LANE_LAW.get_ptr_mut(due.lane) {
        // SAFETY: an element of a map, never null.
        let holder = unsafe { &raw mut (*law).holder };
        // SAFETY: an aligned u64 in a map.
        if unsafe { atomic::replace(holder, LaneLaw::FREE, LaneLaw::PROGRAM) } {
            step(due.lane, law);
            // SAFETY: as above.
            unsafe { atomic::replace(holder, LaneLaw::PROGRAM, LaneLaw::FREE) };
        }
    }
    due.verdict
}

#[inline(always)]
fn step(index: u32, law: *mut LaneLaw) {
    let Some(control) = LANE_CONTROL.get_ptr_mut(index) else { return };
    let Some(state) = LANE_STATE.get_ptr_mut(index) else { return };
    // SAFETY: elements of maps. The law is this program's while it holds it; the fields of the others
    // are written by other processors, hence volatile.
    unsafe {
        // It was closed meanwhile, or another processor was faster.
        let now_ns = bpf_ktime_get_ns();
        let due_ns = (&raw const (*control).due_ns).read_volatile();
        if (&raw const (*control).active).read_volatile() == 0 || due_ns == 0 || now_ns < due_ns {
            return;
        }
        let rtt = (&raw const (*state).rtt).read_volatile();
        let view = View {
            now_ns,
            last_departure_ns: (&raw const (*state).left_ns).read_volatile(),
            rtt,
            tlr: Share::from_q16((&raw const (*law).tlr_q16).read_volatile()),
        };
        let lane = &mut (*law).lane;
        let before = lane.rate();
        lane.step(&view, &mut Cells(state));
        hasten(state, now_ns, before, lane.rate());
        (*law).ran_ns = now_ns;
        (*law).runs += 1;
        let queue = lane.queue();
        let dscp = LaneControl::dscp_in(queue, (*law).dscp_by_queue[usize::from(queue) % 8]);
        (&raw mut (*control).rate_bytes_per_s).write_volatile(lane.rate().bytes_per_s());
        (&raw mut (*control).dscp).write_volatile(dscp);
        // The cell of this epoch was opened before: whoever reads the number finds it open.
        atomic::publish(&raw mut (*control).epoch, u32::from(lane.epoch()));
        (&raw mut (*control).due_ns).write_volatile(lane.due_ns(now_ns, rtt));
    }
}

/// Lets the next packet go sooner if the rate has risen. Whoever takes a turn at the same moment has
/// it by the old rate; another rise will come.
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
            let answered_time = (&raw const (*self.0).answered_probe_time).read_volatile() as u32;
            let asked_ns = (&raw const (*self.0).probe_sent_ns).read_volatile();
            let rtt = (&raw const (*self.0).rtt).read_volatile();
            cell.epoch != u32::from(epoch) || cell.is_settled(answered_time, asked_ns, rtt, now_ns)
        }
    }

    /// As the daemon does: the cell counts nothing while it is zeroed.
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
