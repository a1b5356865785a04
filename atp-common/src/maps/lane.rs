use crate::laws::{
    lane::{Counters, EPOCHS, EpochCount},
    pacing::{Departure, depart, hastened},
    queue,
    rtt::Rtt,
};
use crate::units::Rate;
use crate::wire::Header;
use bytemuck::{Pod, Zeroable};

/// What the controller tells a lane. Written by the daemon through a memory mapping (each field
/// whole, so a reader sees the old or the new), read by egress for every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneControl {
    /// The rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// `skb->priority` under the HTB backend: the class of this lane.
    pub htb_class: u32,
    /// The DSCP of its queue; [`LaneControl::DSCP_KEEP`] leaves the application's, and lets switches
    /// mark the lane's packets (ECT).
    pub dscp: u32,
    /// The epoch that packets leaving now carry (16 bits used).
    pub epoch: u32,
    /// 1 while the lane is in use.
    pub active: u32,
    /// When the lane's law has to run, by the first packet that leaves or is acknowledged then; 0 where
    /// the daemon runs it.
    pub due_ns: u64,
}

const _: () = assert!(size_of::<LaneControl>() == 32);

impl LaneControl {
    /// Queue 0 keeps what the application set.
    pub const DSCP_KEEP: u32 = u32::MAX;

    /// What a lane in `queue` is told, by whose DSCP switches know it.
    pub const fn dscp_in(queue: u8, dscp: u8) -> u32 {
        match queue {
            queue::EXACT => Self::DSCP_KEEP,
            _ => dscp as u32,
        }
    }
}

/// What the programs measured in one epoch. The cell is zeroed, and its tag set, by the controller
/// before any packet carries the epoch; from then on the programs only add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct EpochCell {
    /// Packets that left.
    pub sent_packets: u64,
    /// Their bytes on the wire.
    pub sent_bytes: u64,
    /// Of these packets, how many were acknowledged.
    pub acked_packets: u64,
    /// Of these, with the ECN mark.
    pub marked_packets: u64,
    /// Of the packets that left, how many get no ACK of their own.
    pub probed_packets: u64,
    /// Of these, how many arrived, as the last answer to a PROBE had it.
    pub probed_acked_packets: u64,
    /// Of these, with the ECN mark.
    pub probed_marked_packets: u64,
    /// When the last packet of `probed_packets` left, in the header's units of time.
    pub probed_time: u32,
    /// The epoch that this cell counts (16 bits used).
    pub epoch: u32,
}

const _: () = assert!(size_of::<EpochCell>() == 64);

/// A library that doesn't ask for so long lets its lane be evaluated by what is known.
const UNASKED_NS_MAX: u64 = 200_000_000;

impl EpochCell {
    /// A tag that no epoch has: such a cell counts nothing.
    pub const NO_EPOCH: u32 = u32::MAX;

    /// Whether all is known of the epoch that an answer to a PROBE can tell. `answered_time`: when the
    /// youngest PROBE with an answer left, in the header's units; `asked_ns`: when the youngest left.
    ///
    /// Before that the packets that nobody has asked about would be evaluated as lost. But no longer than
    /// a timeout after a question that got no answer, nor a fixed time without any.
    pub const fn is_settled(
        &self,
        answered_time: u32,
        asked_ns: u64,
        rtt: Rtt,
        now_ns: u64,
    ) -> bool {
        if self.probed_packets == 0 || is_later(answered_time, self.probed_time) {
            return true;
        }
        let units = Header::time_of(now_ns).wrapping_sub(self.probed_time);
        // A departure that is still to come has no age.
        let age_ns = if units > u32::MAX / 2 { 0 } else { (units as u64) << 10 };
        let asked = is_later(Header::time_of(asked_ns), self.probed_time);
        asked && now_ns.saturating_sub(asked_ns) >= rtt.timeout_ns(Rtt::LATENESS_NS)
            || age_ns >= UNASKED_NS_MAX
    }

    /// What a controller evaluates.
    pub const fn count(&self) -> EpochCount {
        EpochCount {
            sent_packets: self.sent_packets,
            sent_bytes: self.sent_bytes,
            acked_packets: self.acked_packets + self.probed_acked_packets,
            marked_packets: self.marked_packets + self.probed_marked_packets,
        }
    }
}

/// What the programs keep of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneState {
    /// The first moment at which the next packet may leave, nanoseconds.
    pub clock_ns: u64,
    /// Packets dropped by the runaway guard.
    pub too_far_packets: u64,
    /// When the last PROBE left, nanoseconds.
    pub asked_ns: u64,
    /// Packets without an ACK of their own that left since.
    pub unasked_packets: u64,
    /// When the youngest PROBE that was answered left, in the header's units of time.
    pub answered_time: u64,
    /// Round-trip times of its ACKs.
    pub rtt: Rtt,
    /// When the last packet left or leaves, nanoseconds.
    pub left_ns: u64,
    /// Counters by epoch; epoch `e` is in cell `e % 16`.
    pub cells: [EpochCell; EPOCHS],
}

const _: () = assert!(size_of::<LaneState>() == 72 + EPOCHS * size_of::<EpochCell>());

/// For a datapath that has the state to itself, as a simulated one has.
impl LaneState {
    /// A packet of `bytes` wants to leave at `rate`: when it does, unless that is beyond the horizon.
    pub fn depart(&mut self, now_ns: u64, bytes: u32, rate: Rate, horizon_ns: u64) -> Option<u64> {
        match depart(self.clock_ns, now_ns, bytes, rate, horizon_ns) {
            Departure::At { at_ns, clock_ns } => {
                (self.clock_ns, self.left_ns) = (clock_ns, at_ns);
                Some(at_ns)
            }
            Departure::TooFar => None,
        }
    }

    /// The rate rises, or falls, now.
    pub fn hasten(&mut self, now_ns: u64, before: Rate, rate: Rate) {
        self.clock_ns = hastened(self.clock_ns, self.left_ns, now_ns, before, rate);
    }

    /// A packet of `bytes` leaves in `epoch`, and will have an ACK of its own.
    pub fn note_sent(&mut self, epoch: u16, bytes: u32) {
        if let Some(cell) = self.cell(epoch) {
            cell.sent_packets += 1;
            cell.sent_bytes += u64::from(bytes);
        }
    }

    /// An ACK that names `epoch` came back, of a packet with the ECN mark or without. Epochs that are
    /// long closed are nobody's business any more.
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

/// In wrapping units of time; the same unit is not later.
const fn is_later(time: u32, than: u32) -> bool {
    let ahead = time.wrapping_sub(than);
    ahead != 0 && ahead <= u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_state__counts_only_what_belongs_to_the_epoch() {
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
    fn lane_state__a_rate_that_rises_shortens_what_is_left_of_a_wait() {
        let at = Rate::from_bytes_per_s;
        let mut state = LaneState::default();
        assert_eq!(state.depart(1_000, 1_000, at(1_000_000), u64::MAX), Some(1_000));
        state.hasten(501_000, at(1_000_000), at(500_000));
        assert_eq!(state.clock_ns, 1_001_000);
        state.hasten(501_000, at(500_000), at(1_000_000));
        assert_eq!(state.clock_ns, 751_007);
        // A packet that is still to leave goes first.
        assert_eq!(state.depart(502_000, 1_000, at(1_000_000), u64::MAX), Some(751_007));
        state.hasten(503_000, at(1_000_000), Rate::MAX);
        assert!(state.clock_ns > 751_007);
    }

    #[test]
    fn is_settled__waits_for_the_answer_to_a_later_question() {
        const MS: u64 = 1_000_000;
        let left_ns = 5_000 * MS;
        let time = Header::time_of;
        let cell =
            EpochCell { probed_packets: 9, probed_time: time(left_ns), ..Default::default() };
        let rtt = Rtt::default().observe(MS);
        let at = |answered_ns: u64, asked_ns: u64, now_ns: u64| {
            cell.is_settled(time(answered_ns), asked_ns, rtt, now_ns)
        };
        let later_ns = left_ns + MS;
        // Answered: a question from before, in the same moment, after it.
        assert!(!at(left_ns - MS, later_ns, later_ns + MS));
        assert!(!at(left_ns, later_ns, later_ns + MS));
        assert!(at(later_ns, later_ns, later_ns + MS));
        // The question of afterwards is lost; it was never asked.
        assert!(at(left_ns - MS, later_ns, later_ns + rtt.timeout_ns(Rtt::LATENESS_NS)));
        assert!(!at(left_ns - MS, left_ns - MS, left_ns + 199 * MS));
        assert!(at(left_ns - MS, left_ns - MS, left_ns + 201 * MS));
        // Under fq its departure may be still to come.
        assert!(!at(left_ns - MS, left_ns - MS, left_ns - 5 * MS));
        // With ACKs of their own.
        assert!(EpochCell::default().is_settled(0, 0, rtt, later_ns));
    }
}
