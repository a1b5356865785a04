//! The memory of a lane: the kernel's programs keep it, or the sending process.

use atp_common::{
    laws::{lane::Counters, path_delay::PathDelay, rtt::Rtt},
    maps::LaneState,
    units::Rate,
};

/// The counts, measurements and departures of a lane, as its host keeps them.
pub trait LaneMemory: Counters {
    /// An epoch is evaluated this many mean deviations after its acknowledgments are due.
    const ACK_WAIT_VARIATIONS: u64;
    /// Whether an ACK is timed when the sender's thread reads it, not when it arrives.
    const TIMES_READING: bool;

    /// The RTT, by the lane's ACKs.
    fn rtt(&self) -> Rtt;

    /// The path's delays, by the lane's ACKs.
    fn path(&self) -> &PathDelay;

    /// When the last packet left or leaves; 0 if the host doesn't know.
    fn last_departure_ns(&self) -> u64;

    /// Counts a packet of `bytes` that leaves in `epoch`.
    fn count_sent(&mut self, epoch: u16, slot: u32, bytes: u32);

    /// Counts an ACK that names `epoch`, for a packet with or without the ECN mark.
    fn count_ack(&mut self, epoch: u16, marked: bool);

    /// Takes in the times of an ACK. `age_ns`: since its packet left; `forward`: that of
    /// [`Header::forward_delay`](atp_common::wire::Header::forward_delay).
    fn measure(&mut self, now_ns: u64, age_ns: u64, forward: Option<u32>);

    /// Notes that a packet of `bytes` leaves now: the next waits until `rate` allows it.
    fn depart(&mut self, now_ns: u64, bytes: u32, rate: Rate);

    /// Adapts the next packet's wait to a new rate.
    fn hasten(&mut self, now_ns: u64, before: Rate, rate: Rate);
}

/// The latest departure that a packet gets, counted from now.
const HORIZON_NS: u64 = 1_000_000_000;

/// The memory of the kernel's programs, where packets leave at the time that the lane's clock gives
/// them (fq).
impl LaneMemory for LaneState {
    const ACK_WAIT_VARIATIONS: u64 = 1;
    const TIMES_READING: bool = false;

    fn rtt(&self) -> Rtt {
        self.rtt_meter.rtt
    }

    fn path(&self) -> &PathDelay {
        &self.path
    }

    fn last_departure_ns(&self) -> u64 {
        self.left_ns
    }

    fn count_sent(&mut self, epoch: u16, _slot: u32, bytes: u32) {
        self.note_sent(epoch, bytes);
    }

    fn count_ack(&mut self, epoch: u16, marked: bool) {
        self.note_acked(epoch, marked);
    }

    fn measure(&mut self, now_ns: u64, age_ns: u64, forward: Option<u32>) {
        self.rtt_meter = self.rtt_meter.on_ack(now_ns, age_ns);
        self.path = self.path.observe(now_ns, age_ns, forward);
    }

    fn depart(&mut self, now_ns: u64, bytes: u32, rate: Rate) {
        // The caller sends one packet at a time, so no departure comes close to the horizon.
        let _ = self.depart(now_ns, bytes, rate, HORIZON_NS);
    }

    fn hasten(&mut self, now_ns: u64, before: Rate, rate: Rate) {
        self.hasten(now_ns, before, rate);
    }
}
