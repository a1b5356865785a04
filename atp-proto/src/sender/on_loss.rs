//! Declares transmissions lost as the loss detector decides, and makes their packets sendable
//! again.

use super::{
    Sender,
    loss::Verdict,
    sent_packets::{Transmission, TransmissionState},
};
use crate::packets::PacketState;

/// Lost transmissions are remembered for at least this long. A late ACK on a path whose RTT isn't
/// known yet can then still be matched.
const KEEP_NS_MIN: u64 = 400_000_000;

impl Sender {
    /// Declares the transmissions lost that the loss detector finds lost by now, lane by lane.
    pub(super) fn detect_losses(&mut self, now_ns: u64) {
        let mut timed_out_ns = None;
        for lane in 0..self.config.groups.len() {
            let sent_ns = self.detect_losses_of(now_ns, lane as u8);
            timed_out_ns = timed_out_ns.into_iter().chain(sent_ns).min();
        }
        if let Some(sent_ns) = timed_out_ns {
            self.silence.on_timeout(sent_ns);
            self.doubt_support();
        }
        let keep_ns = (2 * self.lanes.base_timeout_ns()).max(KEEP_NS_MIN);
        let crowded = self.sent_packets.span() > self.config.window_packets() / 2;
        self.sent_packets
            .reclaim(|lost| crowded || lost.departs_ns.saturating_add(keep_ns) <= now_ns);
    }

    /// Detects the losses of one lane. Returns the departure of the first transmission that timed
    /// out.
    fn detect_losses_of(&mut self, now_ns: u64, lane: u8) -> Option<u64> {
        let (mut timed_out_ns, timing) = (None, self.lanes.timing(lane));
        while let Some((slot, transmission)) = self.sent_packets.first_in_flight(lane) {
            let timeouts = self.timeouts_doubling();
            match self.loss_detector.evaluate(now_ns, &timing, timeouts, &transmission) {
                // Transmissions are in the order of sending, so the later ones aren't lost either.
                Verdict::InFlight => break,
                Verdict::Overtaken => {}
                Verdict::TimedOut => {
                    timed_out_ns.get_or_insert(transmission.departs_ns);
                }
            }
            self.lose(now_ns, slot, &transmission);
        }
        timed_out_ns
    }

    /// Declares a transmission lost. Its messages' packets become sendable, unless other
    /// transmissions of them arrived.
    pub(super) fn lose(&mut self, now_ns: u64, slot: u32, transmission: &Transmission) {
        let lose = |sender: &mut Self| sender.lose_of_window(now_ns, slot, transmission);
        if self.in_window_of(transmission, lose).is_none() {
            self.sent_packets.set_state(slot, TransmissionState::Lost);
        }
    }

    fn lose_of_window(&mut self, now_ns: u64, slot: u32, transmission: &Transmission) {
        self.sent_packets.set_state(slot, TransmissionState::Lost);
        if self.is_path_loss(transmission)
            && let Some(bytes) = self.payload_bytes_of(transmission)
        {
            self.black_hole.on_loss(bytes, self.config.payload_bytes_max);
        }
        let mut any_lost = false;
        for n in 0..transmission.parts() {
            let part = self.sent_packets.part(transmission, n);
            let Some(key) = self.part_key(transmission.group, &part) else { continue };
            let message = self.window.ledger.message_mut(key);
            if message.packets.state(part.position) == PacketState::InFlight {
                let before = message.priority();
                message.packets.set(part.position, PacketState::Lost);
                self.update_message(now_ns, key, before);
                any_lost = true;
            }
        }
        self.report.packets_lost += u64::from(any_lost);
    }

    /// How often timeouts are doubled at present. A sender with an initial window has few packets
    /// in the network until it hears something, and may retransmit them soon.
    fn timeouts_doubling(&self) -> u32 {
        let is_starting = self.config.initial_window_packets > 0 && !self.silence.was_heard();
        self.silence.timeouts().min(if is_starting { 1 } else { u32::MAX })
    }

    /// When the oldest transmission in flight of any lane times out.
    pub(super) fn loss_timeout_ns(&self) -> Option<u64> {
        let timeouts = self.timeouts_doubling();
        let deadlines_ns = (0..self.config.groups.len()).filter_map(|lane| {
            let (_, transmission) = self.sent_packets.find_in_flight(lane as u8)?;
            let timing = self.lanes.timing(lane as u8);
            Some(self.loss_detector.deadline_ns(&timing, timeouts, &transmission))
        });
        deadlines_ns.min().filter(|at_ns| *at_ns != u64::MAX)
    }
}
