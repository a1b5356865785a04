//! Takes in the news of packets: acknowledgments of the peer's host, one by one or from the ring,
//! answers to PROBEs, and losses. Each is filed in the window of its transmission.

use super::{
    AckRing, PacketRefused, Sender,
    loss::Verdict,
    sent_packets::{Transmission, TransmissionState},
};
use atp_common::wire::Header;
use std::ops::Range;

impl Sender {
    /// Takes in one ACK whose header is parsed already (the userspace datapath's fast path).
    pub fn on_ack(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let result = self.check_origin(header).and_then(|()| self.accept_ack(now_ns, header));
        self.report.packets_refused += u64::from(result.is_err());
        result
    }

    pub(super) fn accept_ack(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let slot = header.slot();
        let sent = &self.transmissions.sent;
        match sent.get(slot) {
            Some(transmission) => {
                let group = self.config.groups[usize::from(transmission.group)].group;
                let matches = (group, transmission.message) == (header.group(), header.message())
                    && transmission.index == header.index();
                if transmission.state != TransmissionState::Void && !matches {
                    return Err(PacketRefused::Impossible);
                }
            }
            // An ACK so late that its transmission was forgotten.
            None if (slot.wrapping_sub(sent.next_slot()) as i32) < 0 => return Ok(()),
            None => return Err(PacketRefused::Impossible),
        }
        self.acknowledge(now_ns, slot);
        self.detect_losses(now_ns);
        Ok(())
    }

    /// Reads the acknowledgments that the datapath wrote since the last call. Without new ones it
    /// costs one read per 32 transmissions in flight.
    pub fn scan_acks(&mut self, now_ns: u64, ring: &impl AckRing) {
        let newly_acked = self.transmissions.scan(ring, self.config.ack_ring_words);
        self.acknowledge_all(now_ns, &newly_acked);
        if !newly_acked.is_empty() {
            self.detect_losses(now_ns);
        }
        self.transmissions.give_back(newly_acked);
    }

    /// Takes in the acknowledgment of one transmission. An unknown or forgotten slot is ignored.
    pub(super) fn acknowledge(&mut self, now_ns: u64, slot: u32) {
        let Some(&transmission) = self.transmissions.sent.get(slot) else { return };
        let was_lost = match transmission.state {
            TransmissionState::InFlight => false,
            TransmissionState::Lost => true,
            TransmissionState::Acked | TransmissionState::Void => return,
        };
        self.peer.silence.end();
        let Self { config, windows, transmissions, report, .. } = self;
        let Some(window) = windows.of(&transmission) else { return };
        transmissions.on_ack(now_ns, slot, &transmission, was_lost, window, config);
        report.packets_acked += 1;
        report.packets_lost_wrongly += u64::from(was_lost);
        window.acknowledge(now_ns, &transmission, &transmissions.sent);
    }

    /// Takes in the acknowledgments of many transmissions, in order. Those of one message update it
    /// once.
    fn acknowledge_all(&mut self, now_ns: u64, slots: &[u32]) {
        let is_alone = |first: &&Transmission| {
            first.state == TransmissionState::InFlight && first.members == 0
        };
        let mut left = slots;
        while let Some((&slot, others)) = left.split_first() {
            left = match self.transmissions.sent.get(slot).filter(is_alone) {
                Some(&first) => self.acknowledge_message(now_ns, first, left),
                None => {
                    self.acknowledge(now_ns, slot);
                    others
                }
            };
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
        let Self { config, windows, transmissions, peer, report, .. } = self;
        let Some(window) = windows.of(&first) else { return &slots[1..] };
        let key = window.part_key(first.group, &transmissions.sent.part(&first, 0));
        let before = key.and_then(|key| window.ledger.message(key).priority());
        let (mut left, mut changed) = (slots, false);
        while let Some((&slot, others)) = left.split_first()
            && let Some(&transmission) = transmissions.sent.get(slot)
            && transmission.state == TransmissionState::InFlight
            && transmission.members == 0
            && transmission.odd_window == first.odd_window
            && (transmission.group, transmission.message, transmission.attempt)
                == (first.group, first.message, first.attempt)
        {
            transmissions.on_ack(now_ns, slot, &transmission, false, window, config);
            report.packets_acked += 1;
            if let Some(key) = key {
                let packets = &mut window.ledger.message_mut(key).packets;
                changed |= packets.acknowledge(transmission.position);
            }
            left = others;
        }
        peer.silence.end();
        if let Some(key) = key.filter(|_| changed) {
            let message = window.ledger.message_mut(key);
            message.note_ack(now_ns, transmissions.sent.next_slot());
            window.update(key, before);
        }
        left
    }

    /// Declares the transmissions lost that the loss detector finds lost by now, lane by lane.
    pub(super) fn detect_losses(&mut self, now_ns: u64) {
        let timeouts = self.peer.timeouts_doubling(&self.config);
        let mut timed_out_ns = None;
        for lane in self.transmissions.lane_indices() {
            while let Some((lost, verdict)) = self.transmissions.next_lost(now_ns, lane, timeouts) {
                let sent_ns = (verdict == Verdict::TimedOut).then_some(lost.departs_ns);
                timed_out_ns = timed_out_ns.into_iter().chain(sent_ns).min();
                self.file_loss(&lost);
            }
        }
        if let Some(sent_ns) = timed_out_ns {
            self.peer.on_timeout(sent_ns);
        }
        self.transmissions.reclaim(now_ns, self.config.window_packets());
    }

    /// Makes the packets of a lost transmission sendable, unless other transmissions of them
    /// arrived.
    pub(super) fn file_loss(&mut self, lost: &Transmission) {
        let Self { config, windows, transmissions, peer, report, .. } = self;
        let Some(window) = windows.of(lost) else { return };
        if peer.is_path_loss(lost) {
            transmissions.note_path_loss(lost, window, config);
        }
        report.packets_lost += u64::from(window.lose(lost, &transmissions.sent));
    }

    /// Sets whether packets of a group that are handed out from now on get no ACK of their own.
    /// Their headers say so (NO_ACK). The caller then sends PROBEs about them, and reports them
    /// with [`Sender::probe_sent`] and [`Sender::probe_answered`].
    pub fn set_no_ack(&mut self, group: u8, no_ack: bool) {
        if let Some(lane) = self.indices.index(group) {
            self.transmissions.lanes.set_no_ack(lane, no_ack);
        }
    }

    /// Notes that a PROBE about a group left. From now on silence can mean loss.
    pub fn probe_sent(&mut self, now_ns: u64, group: u8) {
        if let Some(lane) = self.indices.index(group) {
            self.transmissions.on_probe_sent(now_ns, lane);
        }
    }

    /// Takes in the answer to a PROBE about `group`'s transmissions in `slots`. The arrived ones
    /// are acknowledged already: call [`Sender::scan_acks`] first. The PROBE left at `sent_ns`,
    /// after all of them. A transmission that it overtook by more than the network reorders is
    /// lost.
    pub fn probe_answered(&mut self, now_ns: u64, group: u8, slots: Range<u32>, sent_ns: u64) {
        let Some(lane) = self.indices.index(group) else { return };
        let window_packets = self.config.window_packets();
        let lost = self.transmissions.on_probe_answered(lane, slots, sent_ns, window_packets);
        // The oldest is retransmitted first.
        lost.iter().for_each(|lost| self.file_loss(lost));
        self.detect_losses(now_ns);
    }

    /// Ends probing, also of packets that were sent before. From now on later acknowledgments or
    /// silence show their loss, as for packets with an ACK of their own.
    pub fn stop_probing(&mut self) {
        self.transmissions.stop_probing();
    }
}
