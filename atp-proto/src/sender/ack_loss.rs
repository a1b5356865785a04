//! Estimates the share of ACKs that the network loses.
//!
//! Receipts say how many DATA packets arrived at the receiving library. ACKs say so too, but each
//! of them can be lost. The difference between the two counts is the loss of the way back.
//!
//! ACKs of the last packets before a receipt may come after it. That error cancels out between two
//! receipts, unless the rate has changed. It is small beside an interval of many RTTs.

use atp_common::units::Share;

/// The shortest interval between two counts.
const INTERVAL_NS_MIN: u64 = 16_000_000;
/// The same, in smoothed RTTs.
const INTERVAL_RTTS: u64 = 16;
/// The fewest packets that an interval must have.
const PACKETS_MIN: u32 = 64;
/// A receiver that counts more arrivals than were sent, by more than an eighth and this number, is
/// wrong or lies. Duplicates of the network count as arrivals.
const SURPLUS_PACKETS: u64 = 64;
/// The most packets in the sums of intervals. Beyond it, the sums are halved.
const PACKETS_MAX: u64 = 2_048;
/// Smaller shares are none: counts that were taken at different times differ by as much.
const LEAST: Share = Share::from_q16((1 << 16) / 16);

/// The counts of packets that arrived, by receipts and by ACKs.
#[derive(Debug, Default)]
pub(crate) struct AckLoss {
    /// When the interval began; `None` before the first receipt.
    since_ns: Option<u64>,
    /// The counts at that time.
    arrived: u32,
    acked: u64,
    sent: u64,
    /// The sums of earlier intervals.
    arrived_sum: u64,
    acked_sum: u64,
}

impl AckLoss {
    /// Takes in the counts of a receipt that is newer than all others. `arrived`: by the receipt,
    /// wrapping. `acked`: by ACKs. `sent`: all packets so far.
    pub(super) fn on_receipt(
        &mut self,
        now_ns: u64,
        smoothed_ns: u64,
        arrived: u32,
        acked: u64,
        sent: u64,
    ) {
        let Some(since_ns) = self.since_ns else { return self.begin(now_ns, arrived, acked, sent) };
        let packets = arrived.wrapping_sub(self.arrived);
        let sent_packets = sent.saturating_sub(self.sent);
        let packets_max = sent_packets + sent_packets / 8 + SURPLUS_PACKETS;
        if u64::from(packets) > packets_max {
            // Another process of the receiver counts, or it lies. Packets that were in flight when
            // the interval began are few beside an interval of many RTTs.
            return self.begin(now_ns, arrived, acked, sent);
        }
        let interval_ns = INTERVAL_NS_MIN.max(INTERVAL_RTTS * smoothed_ns);
        if packets < PACKETS_MIN || now_ns.saturating_sub(since_ns) < interval_ns {
            return;
        }
        self.arrived_sum += u64::from(packets);
        self.acked_sum += acked.saturating_sub(self.acked);
        while self.arrived_sum > PACKETS_MAX {
            (self.arrived_sum, self.acked_sum) = (self.arrived_sum / 2, self.acked_sum / 2);
        }
        self.begin(now_ns, arrived, acked, sent);
    }

    fn begin(&mut self, now_ns: u64, arrived: u32, acked: u64, sent: u64) {
        (self.since_ns, self.sent) = (Some(now_ns), sent);
        (self.arrived, self.acked) = (arrived, acked);
    }

    /// The share of ACKs that the network loses. Zero until receipts show otherwise.
    pub(super) fn share(&self) -> Share {
        if self.arrived_sum == 0 {
            return Share::ZERO;
        }
        let lost = Share::of(self.acked_sum, self.arrived_sum).complement();
        if lost < LEAST { Share::ZERO } else { lost }
    }
}

/// The number of arrived packets of which a receipt tells the low 32 bits. `before`: the number
/// before it. A number that went back, or that exceeds the packets sent by an eighth, is that of a
/// receiver that counts from 0 again.
pub(super) fn full_count(before: u64, low: u32, sent: u64) -> u64 {
    let ahead = low.wrapping_sub(before as u32);
    let count = before + u64::from(ahead);
    let has_gone_on = ahead as i32 >= 0 && count <= sent + sent / 8 + 64;
    if has_gone_on { count } else { low.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The estimate after a second in which 1,000 packets arrive in each 50 ms.
    fn after_a_second(first: u32, kept: f64) -> f64 {
        let mut loss = AckLoss::default();
        for receipt in 0..=500u64 {
            let packets = receipt * 40;
            let acked = (packets as f64 * kept) as u64;
            let arrived = first.wrapping_add(packets as u32);
            loss.on_receipt(receipt * 2 * MS, MS, arrived, acked, packets);
        }
        f64::from(loss.share().q16()) / 65_536.0
    }

    #[test]
    fn share__is_the_part_of_arrivals_without_an_ack() {
        for lost in [0.1, 0.25, 0.6] {
            for first in [0, u32::MAX - 700] {
                let found = after_a_second(first, 1.0 - lost);
                assert!((found - lost).abs() < 0.005, "{found} instead of {lost}");
            }
        }
    }

    #[test]
    fn share__is_zero_without_a_clear_difference() {
        // A socket whose buffer overflows drops packets that have an ACK.
        for kept in [0.95, 1.0, 1.4] {
            assert_eq!(after_a_second(0, kept), 0.0);
        }
    }

    #[test]
    fn share__waits_for_packets_and_time() {
        let mut loss = AckLoss::default();
        loss.on_receipt(0, MS, 10, 10, 10);
        loss.on_receipt(15 * MS, MS, 1_000, 10, 1_000);
        loss.on_receipt(100 * MS, 20 * MS, 1_000, 10, 1_000);
        assert_eq!(loss.share(), Share::ZERO);
        loss.on_receipt(100 * MS, MS, 1_000, 505, 1_000);
        assert_eq!(loss.share(), Share::of(1, 2));
    }

    #[test]
    fn share__survives_another_process_that_counts_anew() {
        let mut loss = AckLoss::default();
        loss.on_receipt(0, MS, 5_000, 5_000, 5_000);
        loss.on_receipt(20 * MS, MS, 3, 5_003, 5_003);
        loss.on_receipt(40 * MS, MS, 403, 5_403, 5_403);
        assert_eq!(loss.share(), Share::ZERO);
        assert_eq!((loss.arrived_sum, loss.acked_sum), (400, 400));
    }

    #[test]
    fn share__no_lie_makes_more_arrive_than_was_sent() {
        let mut loss = AckLoss::default();
        for receipt in 0..500u64 {
            let (arrived, sent) = ((receipt << 20) as u32, receipt * 100);
            loss.on_receipt(receipt * 20 * MS, MS, arrived, sent / 2, sent);
        }
        assert_eq!(loss.share(), Share::ZERO);
    }

    #[test]
    fn full_count__goes_on_beyond_32_bits_and_begins_again() {
        let wrap = 1 << 32;
        assert_eq!(full_count(wrap - 6, 5, wrap + 10), wrap + 5);
        assert_eq!(full_count(3 * wrap + 7, 7, 3 * wrap + 9), 3 * wrap + 7);
        // Another process.
        assert_eq!(full_count(1_000, 3, 1_100), 3);
        assert_eq!(full_count(3 * (wrap / 4), 3, 3 * (wrap / 4) + 100), 3);
    }
}
