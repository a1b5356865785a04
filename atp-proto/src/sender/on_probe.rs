//! Sends packets without an ACK of their own, and takes in the answers to PROBEs about them.

use super::{Sender, loss::Verdict, sent_packets::TransmissionState};
use std::ops::Range;

impl Sender {
    /// Sets whether packets of a group that are handed out from now on get no ACK of their own.
    /// Their headers say so (NO_ACK). The caller then sends PROBEs about them, and reports them
    /// with [`Sender::probe_sent`] and [`Sender::probe_answered`].
    pub fn set_no_ack(&mut self, group: u8, no_ack: bool) {
        if let Some(lane) = self.group_index(group) {
            self.lanes.set_no_ack(lane, no_ack);
        }
    }

    /// Notes that a PROBE about a group left. From now on silence can mean loss.
    pub fn probe_sent(&mut self, now_ns: u64, group: u8) {
        if let Some(lane) = self.group_index(group) {
            self.loss_detector.on_probe_sent(now_ns, lane);
        }
    }

    /// Takes in the answer to a PROBE about `group`'s transmissions in `slots`. The arrived ones
    /// are acknowledged already: call [`Sender::scan_acks`] first. The PROBE left at `sent_ns`,
    /// after all of them. A transmission that it overtook by more than the network reorders is
    /// lost.
    pub fn probe_answered(&mut self, now_ns: u64, group: u8, slots: Range<u32>, sent_ns: u64) {
        let Some(lane) = self.group_index(group) else { return };
        self.loss_detector.on_probe_answered(lane);
        // From the latest slot back to the oldest that can be lost: the PROBE left after the
        // latest.
        let oldest = self.sent_packets.first_in_flight(lane).map_or(slots.end, |(slot, _)| slot);
        let timing = self.lanes.timing(lane);
        let (mut packets_later, mut lost) = (1, Vec::new());
        for back in 1..=slots.end.wrapping_sub(slots.start).min(self.config.window_packets()) {
            let slot = slots.end.wrapping_sub(back);
            if (slot.wrapping_sub(oldest) as i32) < 0 {
                break;
            }
            let Some(&transmission) = self.sent_packets.get(slot) else { continue };
            if transmission.group != lane || transmission.state == TransmissionState::Void {
                continue;
            }
            let verdict = self.loss_detector.evaluate_by_probe(
                &timing,
                packets_later,
                sent_ns,
                &transmission,
            );
            if transmission.state == TransmissionState::InFlight && verdict == Verdict::Overtaken {
                lost.push((slot, transmission));
            }
            packets_later += 1;
        }
        // The oldest is retransmitted first.
        for (slot, transmission) in lost.into_iter().rev() {
            self.lose(now_ns, slot, &transmission);
        }
        self.detect_losses(now_ns);
    }

    /// Ends probing, also of packets that were sent before. From now on later acknowledgments or
    /// silence show their loss, as for packets with an ACK of their own.
    pub fn stop_probing(&mut self) {
        self.sent_packets.stop_probing();
        self.lanes.stop_probing();
        self.loss_detector.stop_probing();
    }
}
