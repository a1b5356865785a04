//! The lanes' memory: what the daemon tells them and what the programs count.

use super::{DatapathError, mapped::Mapped, pacing, table::Table};
use atp_common::{
    laws::{lane::EPOCHS, rtt::Rtt},
    maps::{EpochCell, LANES, LaneControl, LaneState},
};
use aya::Ebpf;
use std::{
    mem::offset_of,
    os::fd::AsFd,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

/// All lanes, in memory shared with the programs. No method makes a system call.
#[derive(Debug)]
pub struct Lanes {
    control: Mapped,
    state: Mapped,
    /// Open until every program that uses them is loaded.
    _maps: (Table<u32, LaneControl>, Table<u32, LaneState>),
}

impl Lanes {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let control = Table::take(ebpf, "LANE_CONTROL")?;
        let state = Table::take(ebpf, "LANE_STATE")?;
        let mapping = |error| DatapathError::map("map the memory of the lanes", error);
        Ok(Self {
            control: Mapped::new(control.as_fd(), size_of::<LaneControl>(), LANES)
                .map_err(mapping)?,
            state: Mapped::new(state.as_fd(), size_of::<LaneState>(), LANES).map_err(mapping)?,
            _maps: (control, state),
        })
    }

    /// The HTB class of a lane, as `skb->priority` names it.
    pub const fn htb_class(&self, lane: u16) -> u32 {
        pacing::class_of_lane(lane)
    }

    /// Tells a lane. A packet that leaves meanwhile sees some fields old and some new, each whole;
    /// it is active last and inactive first.
    pub fn store_control(&self, lane: u16, control: &LaneControl) {
        let word = |offset| self.control.u32(usize::from(lane), offset);
        let due = self.control.u64(usize::from(lane), offset_of!(LaneControl, due_ns));
        if control.active == 0 {
            // The rest stays: a program that saw the lane active just before would take no rate for one
            // of a byte a second.
            word(offset_of!(LaneControl, active)).store(0, Release);
            due.store(0, Relaxed);
            return;
        }
        self.control
            .u64(usize::from(lane), offset_of!(LaneControl, rate_bytes_per_s))
            .store(control.rate_bytes_per_s, Relaxed);
        word(offset_of!(LaneControl, htb_class)).store(control.htb_class, Relaxed);
        word(offset_of!(LaneControl, dscp)).store(control.dscp, Relaxed);
        due.store(control.due_ns, Relaxed);
        // The cell of this epoch was opened before: whoever reads the number finds it open.
        word(offset_of!(LaneControl, epoch)).store(control.epoch, Release);
        word(offset_of!(LaneControl, active)).store(control.active, Release);
    }

    /// What a lane was told last.
    pub fn control(&self, lane: u16) -> LaneControl {
        let word = |offset| self.control.u32(usize::from(lane), offset).load(Acquire);
        LaneControl {
            rate_bytes_per_s: self
                .control
                .u64(usize::from(lane), offset_of!(LaneControl, rate_bytes_per_s))
                .load(Acquire),
            htb_class: word(offset_of!(LaneControl, htb_class)),
            dscp: word(offset_of!(LaneControl, dscp)),
            epoch: word(offset_of!(LaneControl, epoch)),
            active: word(offset_of!(LaneControl, active)),
            due_ns: self
                .control
                .u64(usize::from(lane), offset_of!(LaneControl, due_ns))
                .load(Acquire),
        }
    }

    /// Makes a lane as new: inactive, clock and RTT zero, epoch 0 open, no other.
    pub fn reset(&self, lane: u16) {
        self.store_control(lane, &LaneControl::default());
        for offset in (0..offset_of!(LaneState, cells)).step_by(size_of::<u64>()) {
            self.state.u64(usize::from(lane), offset).store(0, Relaxed);
        }
        for epoch in 1..EPOCHS as u16 {
            self.clear_cell(lane, epoch);
        }
        self.open_cell(lane, 0);
    }

    /// When the next packet may leave, nanoseconds of CLOCK_MONOTONIC.
    pub fn clock_ns(&self, lane: u16) -> u64 {
        self.state_word(lane, offset_of!(LaneState, clock_ns))
    }

    /// When the last packet left or leaves, nanoseconds of CLOCK_MONOTONIC.
    pub fn left_ns(&self, lane: u16) -> u64 {
        self.state_word(lane, offset_of!(LaneState, left_ns))
    }

    /// Packets dropped by the runaway guard.
    pub fn too_far_packets(&self, lane: u16) -> u64 {
        self.state_word(lane, offset_of!(LaneState, too_far_packets))
    }

    /// Round-trip times; the fields may be of two neighbouring samples.
    pub fn rtt(&self, lane: u16) -> Rtt {
        const AT: usize = offset_of!(LaneState, rtt);
        Rtt {
            smoothed_ns: self.state_word(lane, AT + offset_of!(Rtt, smoothed_ns)),
            variation_ns: self.state_word(lane, AT + offset_of!(Rtt, variation_ns)),
            min_ns: self.state_word(lane, AT + offset_of!(Rtt, min_ns)),
        }
    }

    /// Whether all is known of `epoch` that an answer to a PROBE can tell: its packets have ACKs of their
    /// own, or a PROBE that left after them was answered. If none left or none came back, patience ends.
    pub fn is_settled(&self, lane: u16, epoch: u16, now_ns: u64) -> bool {
        let cell = self.read_cell(lane, epoch);
        if cell.no_ack_packets == 0 {
            return true;
        }
        let answered_time =
            self.state_word(lane, offset_of!(LaneState, answered_probe_time)) as u32;
        let asked_ns = self.state_word(lane, offset_of!(LaneState, probe_sent_ns));
        cell.is_settled(answered_time, asked_ns, self.rtt(lane), now_ns)
    }

    /// What was counted under `epoch`; zero counts if its cell belongs to another epoch by now.
    pub fn read_cell(&self, lane: u16, epoch: u16) -> EpochCell {
        let at = cell_offset(epoch);
        let tag =
            self.state.u32(usize::from(lane), at + offset_of!(EpochCell, epoch)).load(Acquire);
        let empty = EpochCell { epoch: u32::from(epoch), ..EpochCell::default() };
        if tag != u32::from(epoch) {
            return empty;
        }
        EpochCell {
            sent_packets: self.state_word(lane, at + offset_of!(EpochCell, sent_packets)),
            sent_bytes: self.state_word(lane, at + offset_of!(EpochCell, sent_bytes)),
            acked_packets: self.state_word(lane, at + offset_of!(EpochCell, acked_packets)),
            marked_packets: self.state_word(lane, at + offset_of!(EpochCell, marked_packets)),
            no_ack_packets: self.state_word(lane, at + offset_of!(EpochCell, no_ack_packets)),
            no_ack_arrived_packets: self
                .state_word(lane, at + offset_of!(EpochCell, no_ack_arrived_packets)),
            no_ack_marked_packets: self
                .state_word(lane, at + offset_of!(EpochCell, no_ack_marked_packets)),
            no_ack_time: self
                .state
                .u32(usize::from(lane), at + offset_of!(EpochCell, no_ack_time))
                .load(Relaxed),
            ..empty
        }
    }

    /// Opens the cell of `epoch`. The cell counts nothing while it is zeroed; a program that read the
    /// old tag just before can still add one packet of sixteen epochs ago.
    pub fn open_cell(&self, lane: u16, epoch: u16) {
        self.clear_cell(lane, epoch);
        self.state
            .u32(usize::from(lane), cell_offset(epoch) + offset_of!(EpochCell, epoch))
            .store(u32::from(epoch), Release);
    }

    fn clear_cell(&self, lane: u16, epoch: u16) {
        let at = cell_offset(epoch);
        self.state
            .u32(usize::from(lane), at + offset_of!(EpochCell, epoch))
            .store(EpochCell::NO_EPOCH, Release);
        for counter in [
            offset_of!(EpochCell, sent_packets),
            offset_of!(EpochCell, sent_bytes),
            offset_of!(EpochCell, acked_packets),
            offset_of!(EpochCell, marked_packets),
            offset_of!(EpochCell, no_ack_packets),
            offset_of!(EpochCell, no_ack_arrived_packets),
            offset_of!(EpochCell, no_ack_marked_packets),
        ] {
            self.state.u64(usize::from(lane), at + counter).store(0, Relaxed);
        }
    }

    fn state_word(&self, lane: u16, offset: usize) -> u64 {
        self.state.u64(usize::from(lane), offset).load(Relaxed)
    }
}

fn cell_offset(epoch: u16) -> usize {
    offset_of!(LaneState, cells) + usize::from(epoch) % EPOCHS * size_of::<EpochCell>()
}
