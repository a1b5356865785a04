//! What comes back from the peer: acknowledgements, receipts, refusals. All of it is hostile until
//! checked.

use super::{
    AckRing, PacketRefused, Sender, ledger::Standing, report::SendError, sent_packets::Fate,
};
use atp_common::wire::{FinBody, HEADER_LEN, Header, Kind, ReceiptBody, ReceiptWord, ResetReason};

impl Sender {
    pub(super) fn take_in(&mut self, now_ns: u64, payload: &[u8]) -> Result<(), PacketRefused> {
        let (header, kind) = Header::parse(payload).map_err(|_| PacketRefused::Malformed)?;
        self.check_origin(&header)?;
        let body = &payload[HEADER_LEN..];
        match kind {
            Kind::Ack => self.take_ack(now_ns, &header),
            Kind::Receipt => {
                let receipt = ReceiptBody::parse(body).ok_or(PacketRefused::Malformed)?;
                self.take_receipt(now_ns, &header, &receipt)
            }
            Kind::FinAck => {
                let fin = FinBody::parse(body).ok_or(PacketRefused::Malformed)?;
                self.take_fin_ack(now_ns, &header, &fin)
            }
            Kind::Reset => {
                self.take_reset(&header);
                Ok(())
            }
            Kind::Data | Kind::Fin | Kind::Probe | Kind::ProbeAck => Err(PacketRefused::Kind),
        }
    }

    pub(super) fn check_origin(&self, header: &Header) -> Result<(), PacketRefused> {
        let ours = header.job() == self.config.job && header.cookie() == self.config.cookie;
        if ours { Ok(()) } else { Err(PacketRefused::Foreign) }
    }

    pub(super) fn take_ack(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let slot = header.slot();
        match self.sent_packets.get(slot) {
            Some(transmission) => {
                let id = self.message_id(transmission);
                let is_its = (id.group, id.id) == (header.group(), header.message())
                    && transmission.index == header.index();
                if transmission.fate != Fate::Void && !is_its {
                    return Err(PacketRefused::Impossible);
                }
            }
            // So late that its transmission was forgotten; or never sent.
            None if (slot.wrapping_sub(self.sent_packets.next_slot()) as i32) < 0 => return Ok(()),
            None => return Err(PacketRefused::Impossible),
        }
        self.acknowledge(now_ns, slot);
        self.detect_losses(now_ns);
        Ok(())
    }

    pub(super) fn scan(&mut self, now_ns: u64, ring: &impl AckRing) {
        let mut news = std::mem::take(&mut self.news);
        self.sent_packets.scan(ring, self.config.ack_ring_words, &mut news);
        self.acknowledge_all(now_ns, &news);
        if !news.is_empty() {
            self.detect_losses(now_ns);
        }
        news.clear();
        self.news = news;
    }

    fn take_receipt(
        &mut self,
        now_ns: u64,
        header: &Header,
        receipt: &ReceiptBody,
    ) -> Result<(), PacketRefused> {
        if self.window > 0 && (header.slot().wrapping_sub(self.window_slot) as i32) <= 0 {
            // Of a window that has ended.
            self.losses.heard();
            return Ok(());
        }
        let beyond = |word: ReceiptWord| {
            let last = word.bits.checked_ilog2().map(|bit| word.index * 64 + bit);
            last.is_some_and(|last| last >= self.queued(word.group))
        };
        let impossible = receipt.cumulative > self.queued(header.group())
            || receipt.delivered > self.ledger.ids()
            || receipt.words().any(beyond);
        if impossible {
            return Err(PacketRefused::Impossible);
        }
        self.losses.heard();
        self.awaited.receipt_came(now_ns);
        if let Some(group) = self.index_of(header.group()) {
            let cumulative = &mut self.groups[usize::from(group)].cumulative;
            let known = *cumulative;
            *cumulative = known.max(receipt.cumulative);
            for id in known..receipt.cumulative {
                self.confirm(group, id);
            }
        }
        for word in receipt.words() {
            self.confirm_word(word);
        }
        // The index field of a receipt counts receipts: 24 bits, wrapping.
        let newer = header.index().wrapping_sub(self.receipt_number) << 8;
        if newer != 0 && (newer as i32) < 0 {
            return Ok(());
        }
        self.receipt_number = header.index();
        self.report.packets_arrived = receipt.packets_arrived;
        self.learn_slot(now_ns, header.slot(), receipt.delivered);
        Ok(())
    }

    /// The library has taken in `slot` and has `delivered` messages in all. If receipts named all
    /// of them, what is missing before that slot is missing for good.
    pub(super) fn learn_slot(&mut self, now_ns: u64, slot: u32, delivered: u32) {
        let was_sent = (slot.wrapping_sub(self.sent_packets.next_slot()) as i32) < 0;
        if delivered == self.delivered && was_sent {
            self.awaited.all_known_to(slot);
            self.restart_missing(now_ns);
        }
    }

    /// Messages queued of a group; 0 if there is no such group.
    fn queued(&self, group: u8) -> u32 {
        self.index_of(group).map_or(0, |group| self.groups[usize::from(group)].queued)
    }

    fn confirm_word(&mut self, word: ReceiptWord) {
        let Some(group) = self.index_of(word.group) else { return };
        let confirmed = &self.groups[usize::from(group)].confirmed;
        let known = confirmed.get(word.index as usize).copied().unwrap_or(0);
        let mut news = word.bits & !known;
        while news != 0 {
            self.confirm(group, word.index * 64 + news.trailing_zeros());
            news &= news - 1;
        }
    }

    /// Message `id` of the group at index `group`, which was queued, has a receipt.
    fn confirm(&mut self, group: u8, id: u32) {
        let confirmed = &mut self.groups[usize::from(group)].confirmed;
        let at = id as usize / 64;
        if confirmed.len() <= at {
            confirmed.resize(at + 1, 0);
        }
        confirmed[at] |= 1 << (id % 64);
        let Some(key) = self.ledger.key(group, id) else { return };
        let message = self.ledger.message(key);
        let (place, standing) = (message.place(), message.standing);
        let group = &mut self.groups[usize::from(message.group)];
        group.schedule.set(&mut self.ranks, key, place, None);
        *group.counter(standing) -= 1;
        group.delivered += 1;
        self.delivered += 1;
        if standing == Standing::Awaiting {
            self.awaited.remove(key);
        }
        self.ledger.release(key);
    }

    fn take_reset(&mut self, header: &Header) {
        if !self.has_ended() {
            let short = self.short();
            self.fail(SendError::Reset { reason: ResetReason::from_wire(header.epoch()), short });
        }
    }
}
