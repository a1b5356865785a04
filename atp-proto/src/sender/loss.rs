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
//! Approximate queues hold 1 to 7 packets (NetApprox §5.2), hence 8, where QUIC has 3. A wrong
//! (spurious) loss widens both margins, up to 64 packets and one smoothed RTT. Sixteen round trips
//! without a wrong loss narrow them again (RFC 8985 §7.1).
//!
//! *Probes.* The arrivals of packets flagged NO_ACK become known in steps, when a PROBE about their
//! slots is answered. Answers may come in any order. So only the PROBE overtakes such packets, and
//! they don't overtake each other.
//!
//! *Silence.* A transmission is lost if nothing was acknowledged for RFC 6298's timeout after its
//! estimated departure. Time in this host's own queue under pacing doesn't count. Each timeout in a
//! row doubles the next, because a starved queue's RTT grows faster than its estimate.

use super::{lanes::Timing, sent_packets::Transmission};

/// The margin of reordering, packets: see the module's documentation.
pub(crate) const REORDER_PACKETS: u32 = 8;
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
}

/// One lane's state.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// The largest number of an acknowledged transmission, with its departure.
    largest_acked: Option<(u32, u64)>,
    /// How many times the margins are doubled now.
    widenings: u32,
    /// When the margins changed last.
    margins_changed_ns: u64,
    /// When the last acknowledgment came.
    acked_ns: u64,
    /// When the first PROBE left that isn't answered yet.
    probing_since_ns: Option<u64>,
}

impl LossDetector {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { lanes: vec![Lane::default(); lanes] }
    }

    /// Evaluates a lane's oldest transmission in flight. `timing`: the lane's. `timeouts`: timeouts
    /// in a row so far.
    pub(crate) fn evaluate(
        &self,
        now_ns: u64,
        timing: &Timing,
        timeouts: u32,
        transmission: &Transmission,
    ) -> Verdict {
        let lane = &self.lanes[usize::from(transmission.group)];
        // Packets with NO_ACK are overtaken by PROBEs only.
        let overtaken = !transmission.no_ack
            && lane.largest_acked.is_some_and(|(number, departs_ns)| {
                let packets_later = number.wrapping_sub(transmission.number) as i32;
                lane.is_overtaken(timing, packets_later, departs_ns, transmission)
            });
        if overtaken {
            Verdict::Overtaken
        } else if self.deadline_ns(timing, timeouts, transmission) <= now_ns {
            Verdict::TimedOut
        } else {
            Verdict::InFlight
        }
    }

    /// Evaluates a transmission after the answer to a PROBE. The PROBE left at `sent_ns`, and
    /// counts as the lane's packet `packets_later` packets after the transmission.
    pub(crate) fn evaluate_by_probe(
        &self,
        timing: &Timing,
        packets_later: i32,
        sent_ns: u64,
        transmission: &Transmission,
    ) -> Verdict {
        let lane = &self.lanes[usize::from(transmission.group)];
        let is_overtaken = || lane.is_overtaken(timing, packets_later, sent_ns, transmission);
        if transmission.no_ack && is_overtaken() { Verdict::Overtaken } else { Verdict::InFlight }
    }

    /// When `transmission` times out if no acknowledgment comes. `timing`: its lane's. `timeouts`:
    /// timeouts in a row.
    pub(crate) fn deadline_ns(
        &self,
        timing: &Timing,
        timeouts: u32,
        transmission: &Transmission,
    ) -> u64 {
        let lane = &self.lanes[usize::from(transmission.group)];
        let base_ns = timing.timeout_ns;
        let doubled_ns = (base_ns << timeouts.min(8)).min(TIMEOUT_NS_MAX.max(base_ns));
        // The backlog is part of the estimated departure. It counts once more here: the rate may
        // have fallen since, and the packet then waits longer than was estimated.
        let timeout_ns = doubled_ns + timing.backlog_ns;
        let probing_ns = match transmission.no_ack {
            // Without a PROBE, silence is no sign that a packet with NO_ACK was lost.
            true => lane.probing_since_ns.unwrap_or(u64::MAX),
            false => 0,
        };
        let since_ns = transmission.departs_ns.max(lane.acked_ns).max(probing_ns);
        since_ns.saturating_add(timeout_ns)
    }

    /// Takes in the acknowledgment of a transmission. `smoothed_ns`: its lane's smoothed RTT.
    /// `was_lost`: it had been declared lost.
    pub(crate) fn on_ack(
        &mut self,
        now_ns: u64,
        smoothed_ns: u64,
        transmission: &Transmission,
        was_lost: bool,
    ) {
        let lane = &mut self.lanes[usize::from(transmission.group)];
        lane.acked_ns = now_ns;
        let narrows_ns = lane.margins_changed_ns + NARROWING_RTTS * smoothed_ns;
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

    /// Ends probing in all lanes.
    pub(crate) fn stop_probing(&mut self) {
        for lane in &mut self.lanes {
            lane.probing_since_ns = None;
        }
    }
}

impl Lane {
    /// Whether an arrived packet is so much later than `transmission` that the latter is lost. The
    /// packet left `packets_later` packets of the lane later, at `departs_ns`.
    fn is_overtaken(
        &self,
        timing: &Timing,
        packets_later: i32,
        departs_ns: u64,
        transmission: &Transmission,
    ) -> bool {
        let packets_max = (REORDER_PACKETS << self.widenings).min(REORDER_PACKETS_MAX);
        let margin_ns = (timing.rtt.min_ns / 4).max(timing.timer_granularity_ns);
        let margin_ns = (margin_ns << self.widenings).min(margin_ns.max(timing.rtt.smoothed_ns));
        packets_later > 0
            && (packets_later as u32 >= packets_max
                || departs_ns.saturating_sub(transmission.departs_ns) >= margin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::{config::Pace, lanes::Lanes, sent_packets::TransmissionState};
    use atp_common::laws::rtt::Rtt;

    const MS: u64 = 1_000_000;

    /// An RTT of 1 ms, so a timeout of 5 ms.
    fn timing() -> Timing {
        let mut lanes = Lanes::new(1, 2, MS);
        let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(MS));
        lanes.set_pace(0, Pace { rtt, backlog_ns: 0, ..Pace::default() });
        lanes.timing(0)
    }

    fn transmission(number: u32) -> Transmission {
        Transmission { number, state: TransmissionState::InFlight, ..Transmission::VOID }
    }

    #[test]
    fn evaluate__is_overtaken_by_the_eighth_later_packet() {
        let (mut detector, timing) = (LossDetector::new(1), timing());
        detector.on_ack(100, MS, &transmission(7), false);
        assert_eq!(detector.evaluate(100, &timing, 0, &transmission(0)), Verdict::InFlight);
        detector.on_ack(100, MS, &transmission(8), false);
        assert_eq!(detector.evaluate(100, &timing, 0, &transmission(0)), Verdict::Overtaken);
    }

    #[test]
    fn evaluate__times_out_later_after_each_timeout() {
        let (detector, timing) = (LossDetector::new(1), timing());
        for (timeouts, deadline_ns) in [(0, 5 * MS), (1, 10 * MS), (2, 20 * MS)] {
            let evaluate = |now_ns| detector.evaluate(now_ns, &timing, timeouts, &transmission(0));
            assert_eq!(evaluate(deadline_ns - 1), Verdict::InFlight);
            assert_eq!(evaluate(deadline_ns), Verdict::TimedOut);
        }
    }

    #[test]
    fn evaluate_by_probe__only_packets_without_an_ack_of_their_own() {
        let (detector, timing) = (LossDetector::new(1), timing());
        let with_ack = transmission(0);
        let no_ack = Transmission { no_ack: true, ..with_ack };
        assert_eq!(detector.evaluate_by_probe(&timing, 8, 0, &with_ack), Verdict::InFlight);
        assert_eq!(detector.evaluate_by_probe(&timing, 7, 0, &no_ack), Verdict::InFlight);
        assert_eq!(detector.evaluate_by_probe(&timing, 8, 0, &no_ack), Verdict::Overtaken);
    }
}
