//! Detects lost transmissions, lane by lane.
//!
//! The lanes of a job travel in different queues, so each is evaluated alone. Slots number
//! transmissions, so an acknowledgment is never ambiguous and Karn's algorithm isn't needed. The
//! rules are those of RACK (RFC 8985) and QUIC (RFC 9002):
//!
//! *Order.* A transmission is lost if a sufficiently later one of its lane was acknowledged: one
//! sent [`REORDER_PACKETS`] transmissions later, or a quarter of the least RTT later (and not less
//! than the timer granularity). Mild reordering is normal here. A lane that moves to another queue
//! of a switch between two epochs overtakes its own packets, as many as the old queue holds.
//! Approximate queues hold 1 to 7 packets (NetApprox §5.2), hence 8, where QUIC has 3. A wrong loss
//! widens both margins, up to 64 packets and one smoothed RTT. Sixteen round trips without a wrong
//! loss narrow them again (RFC 8985 §7.1).
//!
//! *Probes.* Packets flagged NO_ACK become known in steps, when a PROBE about their slots is
//! answered. Answers may come in any order, so such packets are overtaken by the PROBE, and not by
//! each other.
//!
//! *Silence.* A transmission is lost if nothing was acknowledged for RFC 6298's timeout after its
//! estimated departure. Time in this host's own queue under pacing doesn't count. Each timeout in a
//! row doubles the next, because a starved queue's RTT grows faster than its estimate.

use super::{config::Pace, sent_packets::Transmission};
use atp_common::laws::rtt::Rtt;

/// See the module's text.
const REORDER_PACKETS: u32 = 8;
const REORDER_PACKETS_MAX: u32 = 64;
const WIDENINGS_MAX: u32 = 8;
const NARROWING_RTTS: u64 = 16;
pub(crate) const TIMEOUT_NS_MAX: u64 = 1_000_000_000;

/// The verdict of the detector on a transmission in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not lost, as far as is known.
    InFlight,
    /// Lost: a sufficiently later packet arrived.
    Overtaken,
    /// Lost: nothing was acknowledged in time.
    TimedOut,
}

/// Detects the losses of all lanes.
#[derive(Debug)]
pub(crate) struct LossDetector {
    /// By index of the group.
    lanes: Vec<Lane>,
    timer_granularity_ns: u64,
    /// The longest timeout of a lane with a known RTT, without doubling.
    base_timeout_ns: u64,
    /// The timeout while no lane has a known RTT.
    first_timeout_ns: u64,
}

/// One lane's state.
#[derive(Clone, Debug, Default)]
struct Lane {
    pace: Pace,
    /// The largest number of an acknowledged transmission, with its departure.
    largest_acked: Option<(u32, u64)>,
    /// How many times the margins are doubled at present.
    widenings: u32,
    /// When the margins changed last.
    margins_changed_ns: u64,
    /// When the last acknowledgment came.
    acked_ns: u64,
    /// Transmissions from now on get no ACK of their own.
    no_ack: bool,
    /// When the first PROBE left that isn't answered yet.
    probing_since_ns: Option<u64>,
}

impl LossDetector {
    /// `cookie`: the job's. It spreads first timeouts over a factor of two: senders that lost their
    /// packets because all began at once would lose them again at one common timeout.
    pub(crate) fn new(lanes: usize, cookie: u32, timer_granularity_ns: u64) -> Self {
        let least_ns = Rtt::default().timeout_ns(timer_granularity_ns);
        // Knuth's multiplicative hash (TAOCP 6.4): cookies needn't be random.
        let spread = u64::from(cookie.wrapping_mul(0x9e37_79b1));
        let first_timeout_ns = least_ns + ((least_ns * spread) >> 32);
        Self {
            lanes: vec![Lane::default(); lanes],
            timer_granularity_ns,
            first_timeout_ns,
            base_timeout_ns: first_timeout_ns,
        }
    }

    /// Evaluates a lane's oldest transmission in flight. `timeouts`: timeouts in a row so far.
    pub(crate) fn evaluate(
        &self,
        now_ns: u64,
        timeouts: u32,
        transmission: &Transmission,
    ) -> Verdict {
        let lane = &self.lanes[usize::from(transmission.group)];
        // Packets with NO_ACK are overtaken by PROBEs only.
        let overtaken = !transmission.no_ack
            && lane.largest_acked.is_some_and(|(number, departs_ns)| {
                let packets_later = number.wrapping_sub(transmission.number) as i32;
                self.is_overtaken(packets_later, departs_ns, transmission)
            });
        if overtaken {
            Verdict::Overtaken
        } else if self.deadline_ns(timeouts, transmission) <= now_ns {
            Verdict::TimedOut
        } else {
            Verdict::InFlight
        }
    }

    /// Evaluates a transmission after the answer to a PROBE, which left at `sent_ns` as if it were
    /// the lane's packet `packets_later` after it.
    pub(crate) fn evaluate_by_probe(
        &self,
        packets_later: i32,
        sent_ns: u64,
        transmission: &Transmission,
    ) -> Verdict {
        if transmission.no_ack && self.is_overtaken(packets_later, sent_ns, transmission) {
            Verdict::Overtaken
        } else {
            Verdict::InFlight
        }
    }

    /// Whether an arrived packet is so much later than `transmission` that the latter is lost. The
    /// packet left `packets_later` packets of the lane later, at `departs_ns`.
    fn is_overtaken(
        &self,
        packets_later: i32,
        departs_ns: u64,
        transmission: &Transmission,
    ) -> bool {
        let lane = &self.lanes[usize::from(transmission.group)];
        let packets_max = (REORDER_PACKETS << lane.widenings).min(REORDER_PACKETS_MAX);
        let rtt = &lane.pace.rtt;
        let margin_ns = (rtt.min_ns / 4).max(self.timer_granularity_ns);
        let margin_ns = (margin_ns << lane.widenings).min(margin_ns.max(rtt.smoothed_ns));
        packets_later > 0
            && (packets_later as u32 >= packets_max
                || departs_ns.saturating_sub(transmission.departs_ns) >= margin_ns)
    }

    /// When `transmission` times out if no acknowledgment comes. `timeouts`: timeouts in a row.
    pub(crate) fn deadline_ns(&self, timeouts: u32, transmission: &Transmission) -> u64 {
        let lane = &self.lanes[usize::from(transmission.group)];
        let base_ns = match lane.pace.rtt.smoothed_ns {
            // Another lane's timeout is a better guess than none.
            0 => self.base_timeout_ns,
            _ => lane.pace.rtt.timeout_ns(self.timer_granularity_ns),
        };
        let doubled_ns = (base_ns << timeouts.min(8)).min(TIMEOUT_NS_MAX.max(base_ns));
        // The backlog is part of the estimated departure. It counts once more here: the rate may
        // have fallen since, and the packet then waits longer than was estimated.
        let timeout_ns = doubled_ns + lane.pace.backlog_ns;
        let probing_ns = match transmission.no_ack {
            // Without a PROBE, silence is no sign that a packet with NO_ACK was lost.
            true => lane.probing_since_ns.unwrap_or(u64::MAX),
            false => 0,
        };
        let since_ns = transmission.departs_ns.max(lane.acked_ns).max(probing_ns);
        since_ns.saturating_add(timeout_ns)
    }

    /// Takes in the acknowledgment of a transmission. `was_lost`: it had been called lost.
    pub(crate) fn on_ack(&mut self, now_ns: u64, transmission: &Transmission, was_lost: bool) {
        let lane = &mut self.lanes[usize::from(transmission.group)];
        lane.acked_ns = now_ns;
        let narrows_ns = lane.margins_changed_ns + NARROWING_RTTS * lane.pace.rtt.smoothed_ns;
        if lane.widenings > 0 && now_ns >= narrows_ns {
            (lane.widenings, lane.margins_changed_ns) = (lane.widenings - 1, now_ns);
        }
        if was_lost {
            let widenings = (lane.widenings + 1).min(WIDENINGS_MAX);
            (lane.widenings, lane.margins_changed_ns) = (widenings, now_ns);
        }
        let Transmission { number, departs_ns, .. } = *transmission;
        let is_larger = |largest: u32| (number.wrapping_sub(largest) as i32) > 0;
        if lane.largest_acked.is_none_or(|(largest, _)| is_larger(largest)) {
            lane.largest_acked = Some((number, departs_ns));
        }
    }

    /// Notes that a PROBE about a lane left.
    pub(crate) fn on_probe_sent(&mut self, now_ns: u64, lane: u8) {
        self.lanes[usize::from(lane)].probing_since_ns.get_or_insert(now_ns);
    }

    /// Notes that a PROBE about a lane was answered.
    pub(crate) fn on_probe_answered(&mut self, lane: u8) {
        self.lanes[usize::from(lane)].probing_since_ns = None;
    }

    /// Sets whether transmissions of a lane get no ACK of their own from now on.
    pub(crate) fn set_no_ack(&mut self, lane: u8, no_ack: bool) {
        self.lanes[usize::from(lane)].no_ack = no_ack;
    }

    /// Whether transmissions of a lane get no ACK of their own.
    pub(crate) fn is_no_ack(&self, lane: u8) -> bool {
        self.lanes[usize::from(lane)].no_ack
    }

    /// Ends probing in all lanes.
    pub(crate) fn stop_probing(&mut self) {
        for lane in &mut self.lanes {
            (lane.no_ack, lane.probing_since_ns) = (false, None);
        }
    }

    /// Sets a lane's RTT and backlog.
    pub(crate) fn set_pace(&mut self, lane: u8, pace: Pace) {
        let before = std::mem::replace(&mut self.lanes[usize::from(lane)].pace, pace);
        if before.rtt == pace.rtt {
            return;
        }
        let (longest_ns, timer_granularity_ns) = (self.base_timeout_ns, self.timer_granularity_ns);
        let before_ns = before.rtt.timeout_ns(timer_granularity_ns);
        self.base_timeout_ns = match pace.rtt.timeout_ns(timer_granularity_ns) {
            longer_ns if longer_ns >= longest_ns && before.rtt.smoothed_ns != 0 => longer_ns,
            _ if before.rtt.smoothed_ns != 0 && before_ns < longest_ns => longest_ns,
            _ => self.longest_timeout_ns(),
        };
    }

    fn longest_timeout_ns(&self) -> u64 {
        let known = self.lanes.iter().map(|lane| lane.pace.rtt).filter(|rtt| rtt.smoothed_ns > 0);
        known
            .map(|rtt| rtt.timeout_ns(self.timer_granularity_ns))
            .max()
            .unwrap_or(self.first_timeout_ns)
    }

    /// The timeout of the slowest lane, without doubling.
    pub(crate) fn base_timeout_ns(&self) -> u64 {
        self.base_timeout_ns
    }

    /// How long a packet that is handed out now waits in this host.
    pub(crate) fn backlog_ns(&self, lane: u8) -> u64 {
        self.lanes[usize::from(lane)].pace.backlog_ns
    }

    /// The longest backlog of any lane.
    pub(crate) fn longest_backlog_ns(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.pace.backlog_ns).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::sent_packets::TransmissionState;

    const MS: u64 = 1_000_000;

    /// An RTT of 1 ms, so a timeout of 5 ms.
    fn detector() -> LossDetector {
        let mut detector = LossDetector::new(1, 2, MS);
        let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(MS));
        detector.set_pace(0, Pace { rtt, backlog_ns: 0 });
        detector
    }

    fn transmission(number: u32) -> Transmission {
        Transmission { number, state: TransmissionState::InFlight, ..Transmission::VOID }
    }

    #[test]
    fn evaluate__is_overtaken_by_the_eighth_later_packet() {
        let mut detector = detector();
        detector.on_ack(100, &transmission(7), false);
        assert_eq!(detector.evaluate(100, 0, &transmission(0)), Verdict::InFlight);
        detector.on_ack(100, &transmission(8), false);
        assert_eq!(detector.evaluate(100, 0, &transmission(0)), Verdict::Overtaken);
    }

    #[test]
    fn evaluate__times_out_later_after_each_timeout() {
        let detector = detector();
        for (timeouts, deadline_ns) in [(0, 5 * MS), (1, 10 * MS), (2, 20 * MS)] {
            let evaluate = |now_ns| detector.evaluate(now_ns, timeouts, &transmission(0));
            assert_eq!(evaluate(deadline_ns - 1), Verdict::InFlight);
            assert_eq!(evaluate(deadline_ns), Verdict::TimedOut);
        }
    }

    #[test]
    fn evaluate_by_probe__only_packets_without_an_ack_of_their_own() {
        let detector = detector();
        let with_ack = transmission(0);
        let no_ack = Transmission { no_ack: true, ..with_ack };
        assert_eq!(detector.evaluate_by_probe(8, 0, &with_ack), Verdict::InFlight);
        assert_eq!(detector.evaluate_by_probe(7, 0, &no_ack), Verdict::InFlight);
        assert_eq!(detector.evaluate_by_probe(8, 0, &no_ack), Verdict::Overtaken);
    }
}
