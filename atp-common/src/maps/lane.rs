use crate::laws::{
    lane::{Counters, EPOCHS, EpochCount},
    pacing::{Departure, depart, hastened},
    path_delay::PathDelay,
    queue,
    rtt::{Rtt, RttMeter},
};
use crate::units::Rate;
use crate::wire::Header;
use bytemuck::{Pod, Zeroable};

/// The controller's settings of a lane. The daemon writes them through a memory mapping, each field
/// with one store, and egress reads them for every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneControl {
    /// The rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// `skb->priority` under the HTB backend: the class of this lane.
    pub htb_class: u32,
    /// The DSCP of the lane's queue. [`LaneControl::DSCP_KEEP`] keeps the application's, and makes
    /// the lane's packets ECN-capable (ECT).
    pub dscp: u32,
    /// The epoch that packets leaving now carry (16 bits used).
    pub epoch: u32,
    /// 1 while the lane is in use.
    pub active: u32,
    /// From this time on, the next packet that leaves or is acknowledged runs the lane's law; 0 if
    /// the daemon runs it.
    pub due_ns: u64,
    /// 1 if the gaps between its packets are uneven ([`uneven_bytes`](crate::laws::advice)).
    pub uneven_gaps: u32,
    /// The longest burst with which the lane makes up for late packets, bytes.
    pub burst_bytes_max: u32,
}

const _: () = assert!(size_of::<LaneControl>() == 40);

impl LaneControl {
    /// Packets keep the DSCP that the application set.
    pub const DSCP_KEEP: u32 = u32::MAX;

    /// The `dscp` field of a lane in `queue`, whose DSCP at the switches is `dscp`.
    pub const fn dscp_in(queue: u8, dscp: u8) -> u32 {
        match queue {
            queue::EXACT => Self::DSCP_KEEP,
            _ => dscp as u32,
        }
    }
}

/// The programs' counts of one epoch. The controller zeroes the cell and sets its epoch before any
/// packet carries that number. From then on the programs only add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct EpochCell {
    /// Packets that left.
    pub sent_packets: u64,
    /// Their bytes on the wire.
    pub sent_bytes: u64,
    /// Acknowledged packets.
    pub acked_packets: u64,
    /// Acknowledged packets with the ECN mark.
    pub marked_packets: u64,
    /// Packets that left with the flag NO_ACK.
    pub no_ack_packets: u64,
    /// NO_ACK packets that arrived, by the last answer to a PROBE.
    pub no_ack_arrived_packets: u64,
    /// NO_ACK packets that arrived with the ECN mark, by that answer.
    pub no_ack_marked_packets: u64,
    /// When the last NO_ACK packet left, in the header's units of time.
    pub no_ack_time: u32,
    /// The epoch that this cell counts (16 bits used).
    pub epoch: u32,
}

const _: () = assert!(size_of::<EpochCell>() == 64);

/// The longest time without a PROBE. Then a lane is evaluated with the counts so far.
const NO_PROBE_NS_MAX: u64 = 200_000_000;

impl EpochCell {
    /// The `epoch` of a cell that counts nothing.
    pub const NO_EPOCH: u32 = u32::MAX;

    /// Whether the counts of NO_ACK packets are final. `answered_probe_time`: when the latest PROBE
    /// with an answer left, in the header's units; `probe_sent_ns`: when the latest PROBE left.
    ///
    /// An earlier evaluation would count packets without a later PROBE as lost. The wait ends a
    /// timeout after a PROBE without an answer, or after a fixed time without a PROBE.
    pub const fn is_settled(
        &self,
        answered_probe_time: u32,
        probe_sent_ns: u64,
        rtt: Rtt,
        now_ns: u64,
    ) -> bool {
        if self.no_ack_packets == 0 || is_later(answered_probe_time, self.no_ack_time) {
            return true;
        }
        let age_ns = match Header::time_between_ns(self.no_ack_time, Header::time_of(now_ns)) {
            Some(age_ns) => age_ns,
            // A departure in the future has no age.
            None => 0,
        };
        let probed = is_later(Header::time_of(probe_sent_ns), self.no_ack_time);
        probed && now_ns.saturating_sub(probe_sent_ns) >= rtt.timeout_ns(Rtt::TIMER_GRANULARITY_NS)
            || age_ns >= NO_PROBE_NS_MAX
    }

    /// The counts that a controller evaluates.
    pub const fn count(&self) -> EpochCount {
        EpochCount {
            sent_packets: self.sent_packets,
            sent_bytes: self.sent_bytes,
            acked_packets: self.acked_packets + self.no_ack_arrived_packets,
            marked_packets: self.marked_packets + self.no_ack_marked_packets,
        }
    }
}

/// The programs' state of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneState {
    /// The earliest departure of the next packet, nanoseconds.
    pub clock_ns: u64,
    /// Packets dropped by the runaway guard.
    pub too_far_packets: u64,
    /// When the latest PROBE left, nanoseconds.
    pub probe_sent_ns: u64,
    /// NO_ACK packets that left since that PROBE.
    pub unprobed_packets: u64,
    /// When the latest PROBE with an answer left, in the header's units of time.
    pub answered_probe_time: u64,
    /// The RTT, by the lane's ACKs.
    pub rtt_meter: RttMeter,
    /// When the last packet left or leaves, nanoseconds.
    pub left_ns: u64,
    /// The path's delays, by the lane's ACKs.
    pub path: PathDelay,
    /// Counters by epoch; epoch `e` is in cell `e % 16`.
    pub cells: [EpochCell; EPOCHS],
}

const _: () = assert!(size_of::<LaneState>() == 168 + EPOCHS * size_of::<EpochCell>());

/// For a datapath with exclusive access to the state, as in the simulator.
impl LaneState {
    /// The departure of a packet of `bytes` that is ready now, at `rate`; `None` beyond the
    /// horizon.
    pub fn depart(&mut self, now_ns: u64, bytes: u32, rate: Rate, horizon_ns: u64) -> Option<u64> {
        // This host is never late.
        match depart(self.clock_ns, now_ns, bytes, rate, horizon_ns, 0) {
            Departure::At { at_ns, clock_ns } => {
                (self.clock_ns, self.left_ns) = (clock_ns, at_ns);
                Some(at_ns)
            }
            Departure::TooFar => None,
        }
    }

    /// Adapts the wait for the next packet to a new rate.
    pub fn hasten(&mut self, now_ns: u64, before: Rate, rate: Rate) {
        self.clock_ns = hastened(self.clock_ns, self.left_ns, now_ns, before, rate);
    }

    /// Counts a packet of `bytes` that leaves in `epoch`, without the flag NO_ACK.
    pub fn note_sent(&mut self, epoch: u16, bytes: u32) {
        if let Some(cell) = self.cell(epoch) {
            cell.sent_packets += 1;
            cell.sent_bytes += u64::from(bytes);
        }
    }

    /// Counts an ACK of a packet of `epoch`, which arrived with the ECN mark or without. Epochs
    /// that no longer have a cell are ignored.
    pub fn note_acked(&mut self, epoch: u16, marked: bool) {
        if let Some(cell) = self.cell(epoch) {
            cell.acked_packets += 1;
            cell.marked_packets += u64::from(marked);
        }
    }

    fn cell(&mut self, epoch: u16) -> Option<&mut EpochCell> {
        let cell = &mut self.cells[usize::from(epoch) % EPOCHS];
        (cell.epoch == u32::from(epoch)).then_some(cell)
    }
}

impl Counters for LaneState {
    fn read(&self, epoch: u16) -> EpochCount {
        let cell = &self.cells[usize::from(epoch) % EPOCHS];
        if cell.epoch == u32::from(epoch) { cell.count() } else { EpochCount::default() }
    }

    fn open(&mut self, epoch: u16) {
        self.cells[usize::from(epoch) % EPOCHS] =
            EpochCell { epoch: u32::from(epoch), ..EpochCell::default() };
    }
}

/// Compares wrapping units of time; the same unit is not later.
const fn is_later(time: u32, than: u32) -> bool {
    let ahead = time.wrapping_sub(than);
    ahead != 0 && ahead <= u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_state__counts_only_packets_of_the_epoch() {
        let mut state = LaneState::default();
        state.open(1);
        for acked in 0..9 {
            state.note_sent(1, 100);
            state.note_acked(if acked < 7 { 1 } else { 17 }, acked < 2);
        }
        let expected =
            EpochCount { sent_packets: 9, sent_bytes: 900, acked_packets: 7, marked_packets: 2 };
        assert_eq!(state.read(1), expected);
        state.open(17);
        assert_eq!(state.read(1), EpochCount::default());
        assert_eq!(state.read(17), EpochCount::default());
    }

    #[test]
    fn lane_state__a_rate_that_rises_shortens_the_rest_of_a_wait() {
        let at = Rate::from_bytes_per_s;
        let mut state = LaneState::default();
        assert_eq!(state.depart(1_000, 1_000, at(1_000_000), u64::MAX), Some(1_000));
        state.hasten(501_000, at(1_000_000), at(500_000));
        assert_eq!(state.clock_ns, 1_001_000);
        state.hasten(501_000, at(500_000), at(1_000_000));
        assert_eq!(state.clock_ns, 751_007);
        // A packet with a given departure leaves first.
        assert_eq!(state.depart(502_000, 1_000, at(1_000_000), u64::MAX), Some(751_007));
        state.hasten(503_000, at(1_000_000), Rate::MAX);
        assert!(state.clock_ns > 751_007);
    }

    #[test]
    fn is_settled__waits_for_the_answer_to_a_later_probe() {
        const MS: u64 = 1_000_000;
        let left_ns = 5_000 * MS;
        let time = Header::time_of;
        let cell =
            EpochCell { no_ack_packets: 9, no_ack_time: time(left_ns), ..Default::default() };
        let rtt = Rtt::default().observe(MS);
        let at = |answered_ns: u64, probe_ns: u64, now_ns: u64| {
            cell.is_settled(time(answered_ns), probe_ns, rtt, now_ns)
        };
        let later_ns = left_ns + MS;
        // The answered PROBE left before the packet, with it, and after it.
        assert!(!at(left_ns - MS, later_ns, later_ns + MS));
        assert!(!at(left_ns, later_ns, later_ns + MS));
        assert!(at(later_ns, later_ns, later_ns + MS));
        // The PROBE after the packet was lost; there was no PROBE after the packet.
        assert!(at(left_ns - MS, later_ns, later_ns + rtt.timeout_ns(Rtt::TIMER_GRANULARITY_NS)));
        assert!(!at(left_ns - MS, left_ns - MS, left_ns + 199 * MS));
        assert!(at(left_ns - MS, left_ns - MS, left_ns + 201 * MS));
        // Under fq the departure may lie in the future.
        assert!(!at(left_ns - MS, left_ns - MS, left_ns - 5 * MS));
        // Without NO_ACK packets.
        assert!(EpochCell::default().is_settled(0, 0, rtt, later_ns));
    }
}
