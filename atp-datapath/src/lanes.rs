//! The lanes' memory: settings that the daemon writes, and state and counters of the programs.

use super::{DatapathError, mapped::MappedArray, pacing, table::Table};
use atp_common::{
    laws::{
        lane::EPOCHS,
        path_delay::PathDelay,
        rtt::{Rtt, RttMeter},
    },
    maps::{EpochCell, LANES, LaneControl, LaneState},
    units::PodBool,
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
    pub(super) control: MappedArray,
    state: MappedArray,
    /// Keeps the maps open until every program that uses them is loaded.
    _maps: (Table<u32, LaneControl>, Table<u32, LaneState>),
}

/// Packets that left, and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The packets.
    pub packets: u64,
    /// The bytes.
    pub bytes: u64,
}

impl std::ops::Add for Sent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl Lanes {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let control = Table::take(ebpf, "LANE_CONTROL")?;
        let state = Table::take(ebpf, "LANE_STATE")?;
        let mapping = |error| DatapathError::map("map the memory of the lanes", error);
        Ok(Self {
            control: MappedArray::new(control.as_fd(), size_of::<LaneControl>(), LANES)
                .map_err(mapping)?,
            state: MappedArray::new(state.as_fd(), size_of::<LaneState>(), LANES)
                .map_err(mapping)?,
            _maps: (control, state),
        })
    }

    /// The HTB class of a lane, as `skb->priority` names it.
    pub const fn htb_class(&self, lane: u16) -> u32 {
        pacing::class_of_lane(lane)
    }

    /// Writes a lane's settings.
    ///
    /// A packet that leaves meanwhile sees some old and some new fields, each of them complete. The
    /// lane becomes active last and inactive first.
    pub fn store_control(&self, lane: u16, control: &LaneControl) {
        let word = |offset| self.control.u32(usize::from(lane), offset);
        let due = self.control.u64(usize::from(lane), offset_of!(LaneControl, due_ns));
        if control.active == 0 {
            // The other fields stay: a program that has just seen the lane active would read a rate
            // of 0 as one byte per second.
            word(offset_of!(LaneControl, active)).store(0, Release);
            due.store(0, Relaxed);
            return;
        }
        self.control
            .u64(usize::from(lane), offset_of!(LaneControl, rate_bytes_per_s))
            .store(control.rate_bytes_per_s, Relaxed);
        word(offset_of!(LaneControl, htb_class)).store(control.htb_class, Relaxed);
        word(offset_of!(LaneControl, dscp)).store(control.dscp, Relaxed);
        word(offset_of!(LaneControl, uneven_gaps)).store(control.uneven_gaps, Relaxed);
        word(offset_of!(LaneControl, burst_bytes_max)).store(control.burst_bytes_max, Relaxed);
        due.store(control.due_ns, Relaxed);
        // The cell of this epoch is already open when a program reads the epoch's number.
        word(offset_of!(LaneControl, epoch)).store(control.epoch, Release);
        word(offset_of!(LaneControl, active)).store(control.active, Release);
    }

    /// Resets a lane: inactive, clock and RTT zero, only epoch 0 open.
    pub fn reset(&self, lane: u16) {
        self.reset_at(lane, 0);
    }

    /// As [`Self::reset`], with only `epoch` open.
    pub fn reset_at(&self, lane: u16, epoch: u16) {
        self.store_control(lane, &LaneControl::default());
        for offset in (0..offset_of!(LaneState, cells)).step_by(size_of::<u64>()) {
            self.state.u64(usize::from(lane), offset).store(0, Relaxed);
        }
        for cell in 0..EPOCHS as u16 {
            self.clear_cell(lane, cell);
        }
        self.open_cell(lane, epoch);
    }

    /// Sets whether overtaken packets of a lane are no samples of its RTT.
    pub fn skip_overtaken(&self, lane: u16, skips: PodBool) {
        const AT: usize = offset_of!(LaneState, rtt_meter) + offset_of!(RttMeter, skips_overtaken);
        self.state.u64(usize::from(lane), AT).store(skips.is_true().into(), Relaxed);
    }

    /// The departure time of the last packet, nanoseconds of CLOCK_MONOTONIC.
    pub fn left_ns(&self, lane: u16) -> u64 {
        self.state_word(lane, offset_of!(LaneState, left_ns))
    }

    /// Packets dropped by the runaway guard.
    pub fn too_far_packets(&self, lane: u16) -> u64 {
        self.state_word(lane, offset_of!(LaneState, too_far_packets))
    }

    /// Round-trip times. The fields may belong to two adjacent samples.
    pub fn rtt(&self, lane: u16) -> Rtt {
        const AT: usize = offset_of!(LaneState, rtt_meter) + offset_of!(RttMeter, rtt);
        Rtt {
            smoothed_ns: self.state_word(lane, AT + offset_of!(Rtt, smoothed_ns)),
            variation_ns: self.state_word(lane, AT + offset_of!(Rtt, variation_ns)),
            min_ns: self.state_word(lane, AT + offset_of!(Rtt, min_ns)),
        }
    }

    /// The path's delays. The fields may belong to two adjacent samples.
    pub fn path(&self, lane: u16) -> PathDelay {
        const AT: usize = offset_of!(LaneState, path);
        const WORDS: usize = size_of::<PathDelay>() / size_of::<u64>();
        let words = std::array::from_fn(|word| self.state_word(lane, AT + word * size_of::<u64>()));
        bytemuck::cast::<[u64; WORDS], PathDelay>(words)
    }

    /// Whether no PROBE-ACK can add to the counts of `epoch` any more.
    ///
    /// That holds if its packets have ACKs of their own, or if a PROBE that left after them was
    /// answered. Without such an answer it holds after a timeout.
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

    /// The counts of `epoch`; all zero if its cell belongs to another epoch now.
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

    /// Packets that left in `epoch`, and their bytes; zero if its cell belongs to another epoch.
    pub fn sent_in(&self, lane: u16, epoch: u16) -> Sent {
        let at = cell_offset(epoch);
        let tag =
            self.state.u32(usize::from(lane), at + offset_of!(EpochCell, epoch)).load(Acquire);
        if tag != u32::from(epoch) {
            return Sent::default();
        }
        Sent {
            packets: self.state_word(lane, at + offset_of!(EpochCell, sent_packets)),
            bytes: self.state_word(lane, at + offset_of!(EpochCell, sent_bytes)),
        }
    }

    /// Opens the cell of `epoch`.
    ///
    /// The cell counts nothing while it is zeroed. A program that has just read the old tag can
    /// still add one packet of sixteen epochs ago.
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

    pub(super) fn state_word(&self, lane: u16, offset: usize) -> u64 {
        self.state.u64(usize::from(lane), offset).load(Relaxed)
    }
}

fn cell_offset(epoch: u16) -> usize {
    offset_of!(LaneState, cells) + usize::from(epoch) % EPOCHS * size_of::<EpochCell>()
}
