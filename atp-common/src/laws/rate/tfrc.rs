//! TFRC (RFC 5348): the rate of a TCP flow, for networks without priority queues.
//!
//! In a single queue, a lane that sends until it loses its slack takes bandwidth from everyone
//! else. Under this law its rate is that of a TCP at its loss and RTT: the throughput equation
//! (RFC 5348 §3.1) over an average of loss intervals (§5.4). The slack saves retransmissions
//! instead.

mod equation;
mod loss_history;

use super::{
    Law, LawSettings,
    arithmetic::{doubled, initial_rate},
};
use crate::{
    laws::sample::{EpochCount, EpochSample},
    units::{PodBool, Rate},
};
use bytemuck::{Pod, Zeroable};
use equation::{interval_at, rate_at};
use loss_history::LossHistory;

/// The RTT assumed until one is known: that of a wide-area path.
const RTT_GUESS_NS: u64 = 100_000_000;

/// Slow start, then loss intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Tfrc {
    history: LossHistory,
    /// Slow start: no congestion so far.
    starting: PodBool,
}

impl Default for Tfrc {
    fn default() -> Self {
        Self { history: LossHistory::default(), starting: PodBool::TRUE }
    }
}

impl Law for Tfrc {
    fn first_rate(lane: &LawSettings) -> Rate {
        initial_rate(lane.packet_bytes, RTT_GUESS_NS, lane.rate_max)
    }

    fn on_first_rtt(&self, lane: &LawSettings, rate: Rate, rtt_ns: u64) -> Rate {
        if self.starting.is_true() && rtt_ns > 0 {
            return rate.max(initial_rate(lane.packet_bytes, rtt_ns, lane.rate_max));
        }
        rate
    }

    fn skip_start(&mut self) {
        self.starting = PodBool::FALSE;
    }

    fn on_epoch(&mut self, lane: &LawSettings, rate: Rate, sample: &EpochSample) -> Rate {
        let &LawSettings { rate_max, packet_bytes, .. } = lane;
        let EpochCount { sent_packets, acked_packets, marked_packets, .. } = sample.count;
        // A mark counts as a loss (RFC 3168 §5).
        let lost = sent_packets.saturating_sub(acked_packets).saturating_add(marked_packets);
        let delivery_rate = sample.delivery_rate();
        if self.history.is_clean() && lost > 0 {
            self.starting = PodBool::FALSE;
            self.history.begin(interval_at(delivery_rate, packet_bytes, sample.rtt_ns));
        } else {
            let rtts = (sample.duration_ns / sample.rtt_ns.max(1)).max(1);
            self.history.record(sent_packets.min(u64::from(u32::MAX)) as u32, lost, rtts);
        }
        if self.starting.is_true() {
            return if sample.idle { rate } else { doubled(rate, delivery_rate, rate_max) };
        }
        let fair = rate_at(packet_bytes, sample.rtt_ns, self.history.mean_interval_q8());
        let next = match fair > rate {
            // RFC 5348 §4.3: at most twice the delivery rate.
            true if !sample.idle => fair.min(doubled(rate, delivery_rate, rate_max)),
            true => rate,
            false => fair,
        };
        next.min(rate_max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        LawState, RateLaw,
        testing::{RTT_NS, at, sample, settings},
    };

    /// Mean rate of a lane over 2,000 RTTs, after 2,000 to settle, in which each `every`-th packet
    /// is lost.
    fn settled(every: u64) -> f64 {
        let tfrc = settings(RateLaw::Tfrc);
        let (mut law, first) = (LawState::default(), LawState::first_rate(&tfrc));
        let mut rate = law.on_first_rtt(&tfrc, first, RTT_NS);
        let (mut sent, mut sum) = (0, 0.0);
        for epoch in 0..4_000u16 {
            let mut sample = sample(epoch, rate, 0, 0);
            let lost = (sent + sample.count.sent_packets) / every - sent / every;
            sent += sample.count.sent_packets;
            sample.count.acked_packets -= lost;
            rate = law.on_epoch(&tfrc, rate, &sample);
            sum += if epoch >= 2_000 { rate.bytes_per_s() as f64 / 2_000.0 } else { 0.0 };
        }
        sum
    }

    #[test]
    fn on_epoch__settles_at_the_equation() {
        // RFC 5348 §3.1 at one loss in a hundred: 11.2 packets per RTT; in four hundred: 24.
        for (every, window) in [(100, 11.2), (400, 24.0)] {
            let expected = f64::min(window * 1_500.0 * 1e3, 25e6);
            let found = settled(every);
            assert!((found / expected - 1.0).abs() < 0.12, "{every}: {found} {expected}");
        }
    }

    #[test]
    fn on_epoch__lanes_share_a_queue_evenly() {
        // A port of 20 packets per RTT without a queue: the excess is lost in proportion.
        let tfrc = settings(RateLaw::Tfrc);
        let mut lanes = [0; 2].map(|_| (LawState::default(), LawState::first_rate(&tfrc)));
        lanes[1].1 = at(20_000_000);
        let mut means = [0.0; 2];
        for epoch in 0..20_000u16 {
            let offered = lanes.iter().map(|(_, rate)| rate.bytes_per_s()).sum::<u64>() as f64;
            let kept = (30_000_000.0 / offered).min(1.0);
            for ((law, rate), mean) in lanes.iter_mut().zip(&mut means) {
                let mut sample = sample(epoch, *rate, 0, 0);
                let count = &mut sample.count;
                count.acked_packets = (count.sent_packets as f64 * kept) as u64;
                *rate = law.on_epoch(&tfrc, *rate, &sample).max(at(1_500_000));
                *mean += if epoch >= 10_000 { rate.bytes_per_s() as f64 / 10_000.0 } else { 0.0 };
            }
        }
        let ratio = means[0] / means[1];
        assert!((0.8..1.25).contains(&ratio), "{means:?}");
    }

    #[test]
    fn on_epoch__counts_a_mark_as_a_loss() {
        let tfrc = settings(RateLaw::Tfrc);
        let outcome = |lost, marked| {
            let mut law = LawState::default();
            let rate = at(15_000_000);
            let once = law.on_epoch(&tfrc, rate, &sample(0, rate, lost, marked));
            (once < rate, law.tfrc.history.is_clean())
        };
        assert_eq!(outcome(0, 0), (false, true));
        assert!(!outcome(0, 1).1);
        assert!(!outcome(1, 0).1);
    }
}
