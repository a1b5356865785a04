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
    /// ACKs of packets that arrived with the ECN mark; a part of `acked_packets`.
    pub marked_packets: u64,
}

impl EpochCount {
    /// NetApprox §4.2, footnote 3: `1 - acked / sent`.
    pub const fn loss(self) -> Share {
        Share::of(self.acked_packets, self.sent_packets).complement()
    }

    /// The counts if every ACK had come back. `acks_lost`: the share of ACKs that the network lost.
    ///
    /// Overflow: 2^32 packets in an epoch, times 2^16.
    pub const fn with_acks_lost(self, acks_lost: Share) -> Self {
        let kept_q16 = acks_lost.complement().q16() as u64;
        if kept_q16 == 0 {
            return self;
        }
        let all = (((self.acked_packets & 0xffff_ffff) << 16) + kept_q16 / 2) / kept_q16;
        let acked_packets = if all < self.sent_packets { all } else { self.sent_packets };
        let marked_packets =
            (((self.marked_packets & 0xffff_ffff) << 16) + kept_q16 / 2) / kept_q16;
        let marked_packets =
            if marked_packets < acked_packets { marked_packets } else { acked_packets };
        Self { acked_packets, marked_packets, ..self }
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
    /// The epoch that is open now. Packets at the current rate left in it, or in an older one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Against floating point: within half a packet. No more packets arrive than were sent, and
        // a share of zero changes nothing.
        #[test]
        fn with_acks_lost__counts_the_packets_that_arrived(
            sent in 0u64..1 << 32,
            acked: u64,
            marked: u64,
            lost in 0u32..=1 << 15,
        ) {
            let acked_packets = if sent == 0 { 0 } else { acked % (sent + 1) };
            let marked_packets = if acked_packets == 0 { 0 } else { marked % (acked_packets + 1) };
            let count = EpochCount { sent_packets: sent, sent_bytes: 1, acked_packets, marked_packets };
            prop_assert_eq!(count.with_acks_lost(Share::ZERO), count);
            let lost = Share::from_q16(lost);
            let corrected = count.with_acks_lost(lost);
            prop_assert!(corrected.acked_packets >= acked_packets && corrected.acked_packets <= sent);
            prop_assert!(corrected.marked_packets <= corrected.acked_packets);
            let expected = acked_packets as f64 / f64::from(lost.complement().q16()) * 65_536.0;
            prop_assert!((corrected.acked_packets as f64 - expected.min(sent as f64)).abs() <= 0.51);
        }
    }
}
