//! The flow's transmissions, and the detectors that follow them lane by lane: losses, overdue ACKs,
//! a path that has become narrower.
//!
//! Nothing here changes a message. The sender files each acknowledgment and each loss in the window
//! of the transmission.

use super::{
    black_hole::BlackHoleDetector,
    config::SenderConfig,
    lanes::Lanes,
    loss::{LossDetector, REORDER_PACKETS, Verdict},
    sent_packets::{AckRing, SentPackets, Transmission, TransmissionState},
    window::Window,
};
use std::ops::Range;

/// The most packets whose ACKs are overdue, in windows: if a queue holds all packets up, or the
/// path is broken, a lane doesn't go on forever. Beyond these, as many as find a lost packet.
const OVERDUE_WINDOWS: u32 = 3;
/// Lost transmissions are remembered for at least this long. A late ACK on a path whose RTT isn't
/// known yet can then still be matched.
const KEEP_NS_MIN: u64 = 400_000_000;

/// The transmissions of all lanes.
#[derive(Debug)]
pub(crate) struct Transmissions {
    pub(crate) sent: SentPackets,
    pub(crate) lanes: Lanes,
    pub(crate) black_hole: BlackHoleDetector,
    detector: LossDetector,
    /// The number of lanes.
    lane_count: usize,
    /// Buffer for the slots that a scan finds, reused by every scan.
    newly_acked: Vec<u32>,
}

impl Transmissions {
    pub(crate) fn new(config: &SenderConfig) -> Self {
        let lane_count = config.groups.len();
        Self {
            sent: SentPackets::new(lane_count),
            lanes: Lanes::new(lane_count, config.cookie, config.timer_granularity_ns),
            black_hole: BlackHoleDetector::default(),
            detector: LossDetector::new(lane_count),
            lane_count,
            newly_acked: Vec::new(),
        }
    }

    /// The indices of all lanes.
    pub(crate) fn lane_indices(&self) -> impl Iterator<Item = u8> + use<> {
        (0..self.lane_count).map(|lane| lane as u8)
    }

    /// The number of slots that are free, of `window_packets`. Remembered transmissions give way.
    pub(crate) fn slots_left(&mut self, window_packets: u32) -> u32 {
        let left = window_packets.saturating_sub(self.sent.span());
        if left > 0 {
            return left;
        }
        self.sent.reclaim(|_| true);
        window_packets.saturating_sub(self.sent.span())
    }

    /// The number of packets that a lane's window has room for; `None` if it has no window.
    pub(crate) fn lane_room(&self, lane: u8) -> Option<u32> {
        let packets = self.lanes.window_packets(lane);
        let (in_flight, overdue) = self.sent.lane_in_flight(lane);
        let ignored = packets.saturating_mul(OVERDUE_WINDOWS).saturating_add(REORDER_PACKETS);
        let awaited = in_flight - overdue.min(ignored);
        (packets > 0).then(|| packets.saturating_sub(awaited))
    }

    pub(crate) fn has_lane_room(&self, lane: u8) -> bool {
        self.lane_room(lane) != Some(0)
    }

    /// Makes room in the lanes' windows for packets whose ACKs are overdue. With a packet or two in
    /// flight no later packet overtakes a lost one, and a lane would be silent until the timeout.
    pub(crate) fn note_overdue(&mut self, now_ns: u64) {
        for lane in self.lane_indices() {
            if self.lanes.window_packets(lane) > 0 {
                self.sent.set_overdue(lane, now_ns, self.lanes.overdue_ns(lane));
            }
        }
    }

    /// When an overdue ACK makes room in a full window.
    pub(crate) fn overdue_timeout_ns(&self) -> Option<u64> {
        let overdue_ns = |lane| {
            let (_, departs_ns) = self.sent.first_awaited(lane)?;
            Some(departs_ns.saturating_add(self.lanes.overdue_ns(lane)))
        };
        let full = self.lane_indices().filter(|lane| !self.has_lane_room(*lane));
        full.filter_map(overdue_ns).min()
    }

    /// When the oldest transmission in flight of any lane times out, after `timeouts` in a row.
    pub(crate) fn loss_timeout_ns(&self, timeouts: u32) -> Option<u64> {
        let deadlines_ns = self.lane_indices().filter_map(|lane| {
            let (_, transmission) = self.sent.find_in_flight(lane)?;
            Some(self.detector.deadline_ns(&self.lanes.timing(lane), timeouts, &transmission))
        });
        deadlines_ns.min().filter(|at_ns| *at_ns != u64::MAX)
    }

    /// When the oldest transmission in flight departed, as estimated.
    pub(crate) fn oldest_departs_ns(&self) -> Option<u64> {
        let departs_ns = |lane| Some(self.sent.find_in_flight(lane)?.1.departs_ns);
        self.lane_indices().filter_map(departs_ns).min()
    }

    /// A lane's oldest transmission in flight, if it is lost by now, after `timeouts` in a row. It
    /// counts as lost from then on, and the next call looks at the next one.
    pub(crate) fn next_lost(
        &mut self,
        now_ns: u64,
        lane: u8,
        timeouts: u32,
    ) -> Option<(Transmission, Verdict)> {
        let (slot, transmission) = self.sent.first_in_flight(lane)?;
        let timing = self.lanes.timing(lane);
        match self.detector.evaluate(now_ns, &timing, timeouts, &transmission) {
            // Transmissions are in the order of sending, so the later ones aren't lost either.
            Verdict::InFlight => None,
            verdict => {
                self.sent.set_state(slot, TransmissionState::Lost);
                Some((transmission, verdict))
            }
        }
    }

    /// Forgets the oldest transmissions that are no longer in flight. Lost ones stay for a while,
    /// unless half of `window_packets` slots are taken.
    pub(crate) fn reclaim(&mut self, now_ns: u64, window_packets: u32) {
        let keep_ns = (2 * self.lanes.base_timeout_ns()).max(KEEP_NS_MIN);
        let crowded = self.sent.span() > window_packets / 2;
        self.sent.reclaim(|lost| crowded || lost.departs_ns.saturating_add(keep_ns) <= now_ns);
    }

    /// Takes in the acknowledgment of a remembered transmission of `window`. `was_lost`: it had
    /// been declared lost.
    pub(crate) fn on_ack(
        &mut self,
        now_ns: u64,
        slot: u32,
        acked: &Transmission,
        was_lost: bool,
        window: &Window,
        config: &SenderConfig,
    ) {
        self.sent.set_state(slot, TransmissionState::Acked);
        let smoothed_ns = self.lanes.smoothed_ns(acked.group);
        self.detector.on_ack(now_ns, smoothed_ns, acked, was_lost);
        // The common case, without losses, needs no look at the message.
        if self.black_hole.has_losses()
            && let Some(bytes) = window.body_bytes(acked, &self.sent)
        {
            self.black_hole.on_ack(bytes, config.payload_bytes_max);
        }
    }

    /// Takes in the loss of a transmission of `window`, if the path has lost it.
    pub(crate) fn note_path_loss(
        &mut self,
        lost: &Transmission,
        window: &Window,
        config: &SenderConfig,
    ) {
        if let Some(bytes) = window.body_bytes(lost, &self.sent) {
            self.black_hole.on_loss(bytes, config.payload_bytes_max);
        }
    }

    /// Takes the slots that `ring` shows as acknowledged for the first time, in order.
    /// [`Transmissions::give_back`] takes the buffer back.
    pub(crate) fn scan(&mut self, ring: &impl AckRing, ring_words: u32) -> Vec<u32> {
        let mut newly_acked = std::mem::take(&mut self.newly_acked);
        self.sent.scan(ring, ring_words, &mut newly_acked);
        newly_acked
    }

    /// Takes back the buffer of [`Transmissions::scan`].
    pub(crate) fn give_back(&mut self, mut newly_acked: Vec<u32>) {
        newly_acked.clear();
        self.newly_acked = newly_acked;
    }

    /// Notes that a PROBE about a lane left.
    pub(crate) fn on_probe_sent(&mut self, now_ns: u64, lane: u8) {
        self.detector.on_probe_sent(now_ns, lane);
    }

    /// Takes in the answer to a PROBE about a lane's transmissions in `slots`, of at most
    /// `window_packets`. Returns those that it shows to be lost, the oldest first; they count as
    /// lost from then on.
    pub(crate) fn on_probe_answered(
        &mut self,
        lane: u8,
        slots: Range<u32>,
        sent_ns: u64,
        window_packets: u32,
    ) -> Vec<Transmission> {
        self.detector.on_probe_answered(lane);
        // From the latest slot back to the oldest that can be lost: the PROBE left after the
        // latest.
        let oldest = self.sent.first_in_flight(lane).map_or(slots.end, |(slot, _)| slot);
        let timing = self.lanes.timing(lane);
        let (mut packets_later, mut lost) = (1, Vec::new());
        for back in 1..=slots.end.wrapping_sub(slots.start).min(window_packets) {
            let slot = slots.end.wrapping_sub(back);
            if (slot.wrapping_sub(oldest) as i32) < 0 {
                break;
            }
            let Some(&transmission) = self.sent.get(slot) else { continue };
            if transmission.group != lane || transmission.state == TransmissionState::Void {
                continue;
            }
            let verdict =
                self.detector.evaluate_by_probe(&timing, packets_later, sent_ns, &transmission);
            if transmission.state == TransmissionState::InFlight && verdict == Verdict::Overtaken {
                self.sent.set_state(slot, TransmissionState::Lost);
                lost.push(transmission);
            }
            packets_later += 1;
        }
        lost.reverse();
        lost
    }

    /// Declares the packed transmissions in flight lost, and returns them, the oldest first.
    pub(crate) fn lose_packed(&mut self) -> Vec<Transmission> {
        let slots = self.sent.packed_in_flight();
        let lose = |slot| {
            let transmission = *self.sent.get(slot)?;
            self.sent.set_state(slot, TransmissionState::Lost);
            Some(transmission)
        };
        slots.into_iter().filter_map(lose).collect()
    }

    /// Ends probing, also of packets that were sent before.
    pub(crate) fn stop_probing(&mut self) {
        self.sent.stop_probing();
        self.lanes.stop_probing();
        self.detector.stop_probing();
    }
}
