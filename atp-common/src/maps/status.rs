use crate::laws::RateLaw;
use bytemuck::{Pod, Zeroable};

/// The controller's state of one group's lane of a flow, for the library; element `group` of a page
/// that the library can only read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneStatus {
    /// The lane's rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// Smoothed round-trip time, nanoseconds; 0 before the first ACK.
    pub rtt_smoothed_ns: u64,
    /// The RTT's mean deviation, nanoseconds.
    pub rtt_variation_ns: u64,
    /// The least round-trip time of the lane's life, nanoseconds; of a lane with
    /// [`LaneStatus::WINDOW`] the time that the window covers
    /// ([`PathDelay::covered_ns`](crate::laws::path_delay::PathDelay::covered_ns)).
    pub rtt_min_ns: u64,
    /// Target loss rate, Q16.
    pub tlr_q16: u32,
    /// Loss of the last evaluated epoch, Q16.
    pub loss_q16: u32,
    /// The lane's queue.
    pub queue: u32,
    /// How many epochs were evaluated.
    pub epochs_evaluated: u32,
    /// The epoch for the headers of packets without an ACK.
    pub epoch: u16,
    /// The law by which a host goes on after this lane: see [`LaneStatus::law`].
    pub law_word: u16,
    /// How many packets may leave together in one GSO buffer; 0 or 1: one.
    pub burst_packets: u32,
    /// Not 0: the lane is closed, and the library itself has to pace and mark its packets from now
    /// on. The library reads this earlier than the end of its connection to the daemon. See
    /// [`LaneStatus::CLOSED`].
    pub closed: u32,
    /// [`LaneStatus::ACKS_EACH`], [`LaneStatus::UNEVEN_GAPS`] and [`LaneStatus::WINDOW`]. Libraries
    /// that know no flag but the first take any as that one: they ask for ACKs, and lose nothing
    /// but time.
    pub flags: u32,
}

const _: () = assert!(size_of::<LaneStatus>() == 64);

impl LaneStatus {
    /// A flag: every packet needs an ACK, because epochs are too short for `epoch` to stay current.
    pub const ACKS_EACH: u32 = 1;
    /// A flag: the datapath makes the gaps between packets uneven, by the packets' pacing numbers.
    pub const UNEVEN_GAPS: u32 = 2;
    /// A flag: the library limits the packets in flight (law `yield`).
    pub const WINDOW: u32 = 4;
    /// A value of `closed`: the daemon ends the flow. The library may register it again.
    pub const CLOSED: u32 = 1;
    /// A value of `closed`: an operator ended the job. The flow stays in userspace.
    pub const CLOSED_BY_OPERATOR: u32 = 2;

    /// The word of a rate law: its number plus 1.
    pub const fn word_of(law: RateLaw) -> u16 {
        law as u16 + 1
    }

    /// The lane's rate law. `None` before the status was first written, and of a daemon that
    /// doesn't tell.
    pub fn law(&self) -> Option<RateLaw> {
        let mut laws = RateLaw::ALL.iter().map(|(law, _)| *law);
        laws.find(|law| Self::word_of(*law) == self.law_word)
    }

    /// Whether a flag is set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law__of_each_word() {
        for (law, _) in RateLaw::ALL {
            let law_word = LaneStatus::word_of(law);
            assert_eq!(LaneStatus { law_word, ..LaneStatus::default() }.law(), Some(law));
        }
        assert_eq!(LaneStatus::default().law(), None);
        assert_eq!(LaneStatus { law_word: u16::MAX, ..LaneStatus::default() }.law(), None);
    }
}
