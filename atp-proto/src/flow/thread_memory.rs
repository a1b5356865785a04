//! The memory of a lane that the library's thread keeps, in a host without a daemon.

use super::{
    epochs::{EpochRing, SharedRing},
    lane_memory::LaneMemory,
    pacer::{EARLY_NS, Pacer},
};
use atp_common::{
    laws::{
        lane::{Counters, EpochCount},
        path_delay::PathDelay,
        rtt::{Rtt, RttMeter},
    },
    units::Rate,
};

/// The longest plausible RTT. A longer sample is wrong, and would only slow every timeout.
const RTT_NS_MAX: u64 = 2_000_000_000;

/// Counts, measurements and departures of one lane.
pub struct ThreadMemory {
    epochs: EpochRing,
    rtt_meter: RttMeter,
    path: PathDelay,
    pub pacer: Pacer,
}

impl ThreadMemory {
    /// The memory of a lane that has measured `rtt`. `ring`: where programs that a daemon left
    /// behind may still write ACKs.
    pub fn new(now_ns: u64, rtt_meter: RttMeter, rtt: Rtt, ring: Option<SharedRing>) -> Self {
        // Programs that were left behind may write ACKs to the ring, and nobody measures.
        let path = match rtt.min_ns {
            0 => PathDelay::UNKNOWN,
            least_ns => PathDelay::UNKNOWN.observe(now_ns, least_ns, None),
        };
        Self {
            epochs: EpochRing::new(ring),
            rtt_meter: rtt_meter.at_estimate(rtt),
            path,
            pacer: Pacer::new(now_ns, EARLY_NS),
        }
    }

    /// Takes back the last packet, which counted as `paced_bytes` in the lane's pacing: it did not
    /// leave.
    pub fn take_back(&mut self, epoch: u16, slot: u32, bytes: u32, paced_bytes: u32, rate: Rate) {
        self.pacer.take_back(paced_bytes, rate);
        self.epochs.take_back(epoch, slot, bytes);
    }
}

impl Counters for ThreadMemory {
    fn read(&self, epoch: u16) -> EpochCount {
        self.epochs.read(epoch)
    }

    fn open(&mut self, epoch: u16) {
        self.epochs.open(epoch);
    }
}

impl LaneMemory for ThreadMemory {
    /// RFC 6298's K. Threads make and read acknowledgments, and on a busy host threads are late. An
    /// evaluation as early as in the kernel datapath would count late acknowledgments as losses.
    const ACK_WAIT_VARIATIONS: u64 = 4;
    const TIMES_READING: bool = true;

    fn rtt(&self) -> Rtt {
        self.rtt_meter.rtt
    }

    fn path(&self) -> &PathDelay {
        &self.path
    }

    fn last_departure_ns(&self) -> u64 {
        0
    }

    fn count_sent(&mut self, epoch: u16, slot: u32, bytes: u32) {
        self.epochs.sent(epoch, slot, bytes);
    }

    fn count_ack(&mut self, epoch: u16, marked: bool) {
        self.epochs.acked(epoch, marked);
    }

    fn measure(&mut self, now_ns: u64, age_ns: u64, forward: Option<u32>) {
        if age_ns <= RTT_NS_MAX {
            self.rtt_meter = self.rtt_meter.on_ack(now_ns, age_ns);
            self.path = self.path.observe(now_ns, age_ns, forward);
        }
    }

    fn depart(&mut self, now_ns: u64, bytes: u32, rate: Rate) {
        self.pacer.depart(now_ns, bytes, rate);
    }

    fn hasten(&mut self, now_ns: u64, before: Rate, rate: Rate) {
        self.pacer.hasten(now_ns, before, rate);
    }
}
