//! Takes in acknowledgments of the peer's host, one by one or from the ring.

use super::{
    AckRing, PacketRefused, Sender,
    sent_packets::{Transmission, TransmissionState},
};
use crate::packets::PacketState;
use atp_common::wire::Header;

impl Sender {
    /// Takes in one ACK whose header is parsed already (the userspace datapath's fast path).
    pub fn on_ack(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let result = self.check_origin(header).and_then(|()| self.accept_ack(now_ns, header));
        self.report.packets_refused += u64::from(result.is_err());
        result
    }

    pub(super) fn accept_ack(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let slot = header.slot();
        match self.sent_packets.get(slot) {
            Some(transmission) => {
                let group = self.config.groups[usize::from(transmission.group)].group;
                let matches = (group, transmission.message) == (header.group(), header.message())
                    && transmission.index == header.index();
                if transmission.state != TransmissionState::Void && !matches {
                    return Err(PacketRefused::Impossible);
                }
            }
            // An ACK so late that its transmission was forgotten.
            None if (slot.wrapping_sub(self.sent_packets.next_slot()) as i32) < 0 => return Ok(()),
            None => return Err(PacketRefused::Impossible),
        }
        self.acknowledge(now_ns, slot);
        self.detect_losses(now_ns);
        Ok(())
    }

    /// Reads the acknowledgments that the datapath wrote since the last call. Without new ones it
    /// costs one read per 32 transmissions in flight.
    pub fn scan_acks(&mut self, now_ns: u64, ring: &impl AckRing) {
        let mut newly_acked = std::mem::take(&mut self.newly_acked);
        self.sent_packets.scan(ring, self.config.ack_ring_words, &mut newly_acked);
        self.acknowledge_all(now_ns, &newly_acked);
        if !newly_acked.is_empty() {
            self.detect_losses(now_ns);
        }
        newly_acked.clear();
        self.newly_acked = newly_acked;
    }

    /// Takes in the acknowledgment of one transmission. An unknown or forgotten slot is ignored.
    pub(super) fn acknowledge(&mut self, now_ns: u64, slot: u32) {
        let Some(&transmission) = self.sent_packets.get(slot) else { return };
        let was_lost = match transmission.state {
            TransmissionState::InFlight => false,
            TransmissionState::Lost => true,
            TransmissionState::Acked | TransmissionState::Void => return,
        };
        self.silence.end();
        self.in_window_of(&transmission, |sender| {
            sender.acknowledge_of_window(now_ns, slot, transmission, was_lost);
        });
    }

    fn acknowledge_of_window(
        &mut self,
        now_ns: u64,
        slot: u32,
        transmission: Transmission,
        was_lost: bool,
    ) {
        self.note_ack(now_ns, slot, &transmission, was_lost);
        for n in 0..transmission.parts() {
            let part = self.sent_packets.part(&transmission, n);
            let Some(key) = self.part_key(transmission.group, &part) else { continue };
            let message = self.window.ledger.message_mut(key);
            if message.packets.state(part.position) != PacketState::Acked {
                let before = message.priority();
                message.packets.set(part.position, PacketState::Acked);
                self.update_message(now_ns, key, before);
            }
        }
    }

    /// Takes in the acknowledgments of many transmissions, in order. Those of one message update it
    /// once.
    fn acknowledge_all(&mut self, now_ns: u64, slots: &[u32]) {
        let mut left = slots;
        while let Some((&slot, others)) = left.split_first() {
            let Some(&first) = self
                .sent_packets
                .get(slot)
                .filter(|first| first.state == TransmissionState::InFlight && first.members == 0)
            else {
                self.acknowledge(now_ns, slot);
                left = others;
                continue;
            };
            let same_message =
                self.in_window_of(&first, |s| s.acknowledge_message(now_ns, first, left));
            left = same_message.unwrap_or(others);
        }
    }

    /// Takes in the acknowledgments at the beginning of `slots` that are of one message, of which
    /// `first` is the first. Returns the others.
    fn acknowledge_message<'a>(
        &mut self,
        now_ns: u64,
        first: Transmission,
        slots: &'a [u32],
    ) -> &'a [u32] {
        let mut left = slots;
        let key = self.part_key(first.group, &self.sent_packets.part(&first, 0));
        let before = key.and_then(|key| self.window.ledger.message(key).priority());
        let mut changed = false;
        while let Some((&slot, others)) = left.split_first()
            && let Some(&transmission) = self.sent_packets.get(slot)
            && transmission.state == TransmissionState::InFlight
            && transmission.members == 0
            && transmission.odd_window == first.odd_window
            && (transmission.group, transmission.message, transmission.attempt)
                == (first.group, first.message, first.attempt)
        {
            self.note_ack(now_ns, slot, &transmission, false);
            if let Some(key) = key {
                let packets = &mut self.window.ledger.message_mut(key).packets;
                changed |= packets.acknowledge(transmission.position);
            }
            left = others;
        }
        self.silence.end();
        if let Some(key) = key.filter(|_| changed) {
            self.update_message(now_ns, key, before);
        }
        left
    }

    /// Updates the detectors and the counters for an acknowledged transmission.
    fn note_ack(&mut self, now_ns: u64, slot: u32, transmission: &Transmission, was_lost: bool) {
        self.sent_packets.set_state(slot, TransmissionState::Acked);
        let smoothed_ns = self.lanes.smoothed_ns(transmission.group);
        self.loss_detector.on_ack(now_ns, smoothed_ns, transmission, was_lost);
        self.report.packets_acked += 1;
        self.report.packets_lost_wrongly += u64::from(was_lost);
        // The common case, without losses, needs no look at the message.
        if self.black_hole.has_losses()
            && let Some(bytes) = self.payload_bytes_of(transmission)
        {
            self.black_hole.on_ack(bytes, self.config.payload_bytes_max);
        }
    }
}
