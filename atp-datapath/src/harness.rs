//! Access for the tests and benchmarks that run the programs without a daemon (feature `harness`).

use super::{
    Datapath, error::DatapathError, lanes::Lanes, log::PacketLog, object::Object, pacing::Backend,
};
use atp_common::maps::{Config, LaneControl, LaneState};
use aya::Ebpf;
use std::{
    collections::BTreeMap,
    mem::offset_of,
    os::fd::OwnedFd,
    sync::{
        MutexGuard,
        atomic::Ordering::{Acquire, Relaxed},
    },
};

impl Datapath {
    /// Event counters, summed over processors, by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>, DatapathError> {
        super::stats::counters(&self.counters)
    }

    /// [`Datapath::load`] for a given backend, without a check that this kernel has it.
    pub fn load_for(
        object: &Object,
        config: Config,
        backend: Backend,
        log: PacketLog,
    ) -> Result<Self, DatapathError> {
        super::load::load(object.bytes(), config, backend, log)
    }

    /// Changes the programs' configuration, one atomic field after the other. The backend and the
    /// generation stay.
    pub fn set_config(&self, config: &Config) {
        let word = |offset, value| self.config.u64(0, offset).store(value, Relaxed);
        word(offset_of!(Config, heartbeat_ns_max), config.heartbeat_ns_max);
        word(offset_of!(Config, safe_rate_bytes_per_s), config.safe_rate_bytes_per_s);
        word(offset_of!(Config, horizon_ns), config.horizon_ns);
        self.config.u32(0, offset_of!(Config, ack_mark)).store(config.ack_mark, Relaxed);
        word(offset_of!(Config, heartbeat_ns), config.heartbeat_ns);
    }

    /// Makes the programs count arrivals, or no longer count them.
    pub fn count_arrivals(&self, on: bool) {
        self.config.u32(0, offset_of!(Config, counts_arrivals)).store(on.into(), Relaxed);
    }

    /// Creates the ACK ring of a flow; blocks as [`super::AckRings::renew`] does.
    pub fn new_ack_ring(&self, flow: u32) -> Result<OwnedFd, DatapathError> {
        let mut rings = self.ack_rings()?.renew(&[flow]);
        rings.pop().unwrap_or_else(|| Err(DatapathError::Load("no ACK ring was created".into())))
    }

    /// Removes the ACK ring of a flow; blocks as long as creating one.
    pub fn remove_ack_ring(&self, flow: u32) -> Result<(), DatapathError> {
        self.ack_rings.remove(flow)
    }

    /// The object's programs.
    pub fn ebpf(&self) -> MutexGuard<'_, Ebpf> {
        self.programs.lock()
    }
}

impl Lanes {
    /// A lane's settings.
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
            uneven_gaps: word(offset_of!(LaneControl, uneven_gaps)),
            burst_bytes_max: word(offset_of!(LaneControl, burst_bytes_max)),
        }
    }

    /// The earliest departure of the next packet, nanoseconds of CLOCK_MONOTONIC.
    pub fn clock_ns(&self, lane: u16) -> u64 {
        self.state_word(lane, offset_of!(LaneState, clock_ns))
    }
}
