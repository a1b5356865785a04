//! Epoch counts, and the sample of an epoch that a rate law gets.

use crate::units::{Rate, Share};

/// How many epochs may be open or unevaluated at once; also the length of the ring of counters.
pub const EPOCHS: usize = 16;

/// The counts of the datapath in one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCount {
    /// Packets that left under this epoch's number.
    pub sent_packets: u64,
    /// Their bytes, as paced.
    pub sent_bytes: u64,
    /// ACKs that came back with this number.
    pub acked_packets: u64,
    /// Of these, ACKs of packets that arrived with the ECN mark.
    pub marked_packets: u64,
}

impl EpochCount {
    /// NetApprox §4.2, footnote 3: `1 - acked / sent`.
    pub const fn loss(self) -> Share {
        Share::of(self.acked_packets, self.sent_packets).complement()
    }

    /// RFC 8257 §3.3: the share of arrived packets that a switch had marked.
    pub const fn marked(self) -> Share {
        Share::of(self.marked_packets, self.acked_packets)
    }
}

/// A rate law's input: an epoch in which packets were sent.
#[derive(Clone, Copy, Debug)]
pub struct EpochSample {
    /// Which epoch.
    pub epoch: u16,
    /// The epoch that is open now. Packets at the present rate left in it, or in an older one.
    pub open_epoch: u16,
    /// The epoch's counts.
    pub count: EpochCount,
    /// The target loss rate at the time of evaluation.
    pub tlr: Share,
    /// How long the epoch was open, nanoseconds.
    pub duration_ns: u64,
    /// The lane's smoothed RTT, nanoseconds; the epoch's length before the first ACK.
    pub rtt_ns: u64,
    /// The lane had too little to send to learn anything about a higher rate.
    pub idle: bool,
}

impl EpochSample {
    /// The delivery rate: the part of the epoch's bytes that arrived, over the epoch's length.
    ///
    /// Overflow: 2^44 bytes, which 400 Gbit/s carry in six minutes, times 2^16.
    pub(super) fn delivery_rate(&self) -> Rate {
        let arrived_q16 = u64::from(self.count.loss().complement().q16());
        Rate::of((self.count.sent_bytes.min(1 << 44) * arrived_q16) >> 16, self.duration_ns)
    }
}
