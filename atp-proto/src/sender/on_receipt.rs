//! Takes in receipts: the messages that the peer's application has leave the ledger.

use super::{PacketRefused, Sender, ledger::MessageState};
use atp_common::wire::{Features, Header, ReceiptBody, ReceiptWord};

impl Sender {
    pub(super) fn on_receipt(
        &mut self,
        now_ns: u64,
        header: &Header,
        receipt: &ReceiptBody,
    ) -> Result<(), PacketRefused> {
        if self.window > 0 && (header.slot().wrapping_sub(self.window_slot) as i32) <= 0 {
            // A receipt of a window that has ended.
            self.silence.end();
            return Ok(());
        }
        let is_beyond = |word: ReceiptWord| {
            let last = word.bits.checked_ilog2().map(|bit| word.index * 64 + bit);
            last.is_some_and(|last| last >= self.queued(word.group))
        };
        let impossible = receipt.cumulative > self.queued(header.group())
            || receipt.delivered > self.ledger.ids()
            || receipt.words().any(is_beyond);
        if impossible {
            return Err(PacketRefused::Impossible);
        }
        // Of any receipt: a restarted receiver counts them from 1 again.
        let features = Features::from_wire(header.epoch());
        self.on_features(now_ns, features);
        self.announcement.on_receipt(header, features);
        self.silence.end();
        self.awaiting_receipt.on_receipt(now_ns);
        if let Some(group) = self.group_index(header.group()) {
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
        self.end_if_named();
        // The index field of a receipt counts receipts: 24 bits, wrapping.
        let ahead = header.index().wrapping_sub(self.receipt_number) << 8;
        if ahead != 0 && (ahead as i32) < 0 {
            return Ok(());
        }
        self.receipt_number = header.index();
        let group = self.group_index(header.group());
        // A duplicate of the newest receipt says nothing about the present.
        if ahead != 0 {
            self.receiver_advice.on_receipt(now_ns, header, group);
            self.count_acks_lost(now_ns, receipt.packets_arrived);
        }
        self.report.packets_arrived = receipt.packets_arrived;
        self.on_slot_read(now_ns, header.slot(), receipt.delivered);
        Ok(())
    }

    /// Notes that the peer's library has read up to `slot`, and has `delivered` messages in all. If
    /// receipts named all of them, a complete message sent before `slot` and without a receipt is
    /// missing for certain.
    pub(super) fn on_slot_read(&mut self, now_ns: u64, slot: u32, delivered: u32) {
        let was_sent = (slot.wrapping_sub(self.sent_packets.next_slot()) as i32) < 0;
        if delivered == self.delivered && was_sent {
            self.awaiting_receipt.set_known_slot(slot);
            self.retransmit_missing(now_ns);
        }
    }

    /// Messages queued of a group; 0 for an unknown group.
    fn queued(&self, group: u8) -> u32 {
        self.group_index(group).map_or(0, |group| self.groups[usize::from(group)].queued)
    }

    fn confirm_word(&mut self, word: ReceiptWord) {
        let Some(group) = self.group_index(word.group) else { return };
        let confirmed = &self.groups[usize::from(group)].confirmed;
        let known = confirmed.get(word.index as usize).copied().unwrap_or(0);
        let mut new = word.bits & !known;
        while new != 0 {
            self.confirm(group, word.index * 64 + new.trailing_zeros());
            new &= new - 1;
        }
    }

    /// Takes in the receipt of message `id`, which was queued, of the group at index `group`.
    fn confirm(&mut self, group: u8, id: u32) {
        let confirmed = &mut self.groups[usize::from(group)].confirmed;
        let word = id as usize / 64;
        if confirmed.len() <= word {
            confirmed.resize(word + 1, 0);
        }
        confirmed[word] |= 1 << (id % 64);
        let Some(key) = self.ledger.key(group, id) else { return };
        let message = self.ledger.message(key);
        let (priority, state) = (message.priority(), message.state);
        let group = &mut self.groups[usize::from(message.group)];
        if priority.is_some() {
            group.schedule.set(&mut self.ranks, key, priority, None);
        }
        *group.counter(state) -= 1;
        group.delivered += 1;
        self.delivered += 1;
        self.no_room.on_acceptance();
        if state == MessageState::AwaitingReceipt {
            self.awaiting_receipt.remove(key);
        }
        self.ledger.release(key);
    }
}
