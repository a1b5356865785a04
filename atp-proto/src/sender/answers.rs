//! What comes back from the peer: acknowledgements, receipts, refusals. All of it is hostile until
//! checked.

use super::{
    AckRing, PacketRefused, Sender,
    ledger::Standing,
    report::{SendError, State},
};
use atp_common::wire::{FinBody, HEADER_LEN, Header, Kind, ReceiptBody, ResetReason};

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
        match self.flight.get(slot) {
            Some(transmission) => {
                let (message, index) = (transmission.message, transmission.index);
                if message != header.message() || index != header.index() {
                    return Err(PacketRefused::Impossible);
                }
            }
            // So late that its transmission was forgotten; or never sent.
            None if (slot.wrapping_sub(self.flight.next_slot()) as i32) < 0 => return Ok(()),
            None => return Err(PacketRefused::Impossible),
        }
        self.acknowledge(now_ns, slot);
        self.detect_losses(now_ns);
        Ok(())
    }

    pub(super) fn scan(&mut self, now_ns: u64, ring: &impl AckRing) {
        let mut news = std::mem::take(&mut self.news);
        self.flight.scan(ring, self.config.ack_ring_words, &mut news);
        for &slot in &news {
            self.acknowledge(now_ns, slot);
        }
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
        let ids = self.ledger.ids();
        let beyond = |index: u32, bits: u64| {
            bits != 0 && u64::from(index) * 64 + u64::from(63 - bits.leading_zeros()) >= ids.into()
        };
        let impossible = receipt.cumulative > ids
            || receipt.delivered > ids
            || receipt.words().any(|word| beyond(word.index, word.bits));
        if impossible {
            return Err(PacketRefused::Impossible);
        }
        self.losses.heard();
        self.awaited.receipt_came(now_ns);
        for id in self.cumulative..receipt.cumulative {
            self.confirm(id);
        }
        self.cumulative = self.cumulative.max(receipt.cumulative);
        for word in receipt.words() {
            self.confirm_word(word.index, word.bits);
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
        let was_sent = (slot.wrapping_sub(self.flight.next_slot()) as i32) < 0;
        if delivered == self.delivered && was_sent {
            self.awaited.all_known_to(slot);
            self.restart_missing(now_ns);
        }
    }

    fn confirm_word(&mut self, index: u32, bits: u64) {
        let known = self.confirmed.get(index as usize).copied().unwrap_or(0);
        let mut news = bits & !known;
        while news != 0 {
            self.confirm(index * 64 + news.trailing_zeros());
            news &= news - 1;
        }
    }

    /// Message `id`, which was queued, has a receipt.
    fn confirm(&mut self, id: u32) {
        let at = id as usize / 64;
        if self.confirmed.len() <= at {
            self.confirmed.resize(at + 1, 0);
        }
        self.confirmed[at] |= 1 << (id % 64);
        let Some(key) = self.ledger.key(id) else { return };
        let message = self.ledger.message(key);
        let (place, standing) = (message.place(), message.standing);
        let group = &mut self.groups[usize::from(message.group)];
        group.schedule.set(key, place, None);
        *group.counter(standing) -= 1;
        group.delivered += 1;
        self.delivered += 1;
        if standing == Standing::Awaiting {
            self.awaited.remove(key);
        }
        self.ledger.release(key);
    }

    fn take_reset(&mut self, header: &Header) {
        if !matches!(self.state, State::Done | State::Failed(_)) {
            let short = self.short();
            self.fail(SendError::Reset { reason: ResetReason::from_wire(header.epoch()), short });
        }
    }
}
