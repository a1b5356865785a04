//! Takes in receipts: the messages that the peer's application has leave the ledger.

use super::{PacketRefused, Sender, ledger::MessageState, window::Window};
use atp_common::wire::{Features, Header, ReceiptBody, ReceiptWord, WINDOWS};

impl Sender {
    pub(super) fn on_receipt(
        &mut self,
        now_ns: u64,
        header: &Header,
        receipt: &ReceiptBody,
    ) -> Result<(), PacketRefused> {
        let Some(window) = self.window_of_receipt(header) else {
            // A receipt of a window that has ended. Streams of short windows may get no others.
            self.silence.end();
            let features = Features::from_wire(header.epoch());
            self.on_features(now_ns, features);
            // Its receiver may have joined at an old packet: the terms tell it where the stream is.
            self.announcement.on_receipt(header, features);
            return Ok(());
        };
        let in_window = |sender: &mut Self| sender.on_receipt_of_window(now_ns, header, receipt);
        self.in_window(window, in_window).unwrap_or(Ok(()))
    }

    /// The open window that a receipt is of. The receipt names it, unless its receiver doesn't
    /// announce overlap: then its slot shows whether the window has ended.
    fn window_of_receipt(&self, header: &Header) -> Option<u32> {
        let is_recent = |window: &Window| {
            window.number == 0 || (header.slot().wrapping_sub(window.before_slot) as i32) > 0
        };
        let Some(named) = header.window() else {
            return is_recent(&self.window).then_some(self.window.number);
        };
        let is_named = |window: &&Window| named == window.number % WINDOWS;
        self.windows().filter(is_named).find(|window| is_recent(window)).map(|window| window.number)
    }

    fn on_receipt_of_window(
        &mut self,
        now_ns: u64,
        header: &Header,
        receipt: &ReceiptBody,
    ) -> Result<(), PacketRefused> {
        let is_beyond = |word: ReceiptWord| {
            let last = word.bits.checked_ilog2().map(|bit| word.index * 64 + bit);
            last.is_some_and(|last| last >= self.queued(word.group))
        };
        let impossible = receipt.cumulative > self.queued(header.group())
            || receipt.delivered > self.window.ledger.ids()
            || receipt.words().any(is_beyond);
        if impossible {
            return Err(PacketRefused::Impossible);
        }
        // Of any receipt: a restarted receiver counts them from 1 again.
        let features = Features::from_wire(header.epoch());
        self.on_features(now_ns, features);
        self.announcement.on_receipt(header, features);
        self.silence.end();
        self.window.awaiting_receipt.on_receipt(now_ns);
        self.window.told_by.note(header.time());
        if let Some(group) = self.group_index(header.group()) {
            let cumulative = &mut self.window.groups[usize::from(group)].cumulative;
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
        let (arrived, sent) = (self.report.packets_arrived, self.report.packets_sent);
        self.report.packets_arrived = full_count(arrived, receipt.packets_arrived, sent);
        self.on_slot_read(now_ns, header.slot(), receipt.delivered);
        Ok(())
    }

    /// Notes that the peer's library has read up to `slot`, and has `delivered` messages in all. If
    /// receipts named all of them, a complete message sent before `slot` and without a receipt is
    /// missing for certain.
    pub(super) fn on_slot_read(&mut self, now_ns: u64, slot: u32, delivered: u32) {
        let was_sent = (slot.wrapping_sub(self.sent_packets.next_slot()) as i32) < 0;
        if delivered == self.window.delivered && was_sent {
            self.window.awaiting_receipt.set_known_slot(slot);
            self.retransmit_missing(now_ns);
        }
    }

    /// Messages queued of a group; 0 for an unknown group.
    fn queued(&self, group: u8) -> u32 {
        self.group_index(group).map_or(0, |group| self.window.groups[usize::from(group)].queued)
    }

    fn confirm_word(&mut self, word: ReceiptWord) {
        let Some(group) = self.group_index(word.group) else { return };
        let confirmed = &self.window.groups[usize::from(group)].confirmed;
        let known = confirmed.get(word.index as usize).copied().unwrap_or(0);
        let mut new = word.bits & !known;
        while new != 0 {
            self.confirm(group, word.index * 64 + new.trailing_zeros());
            new &= new - 1;
        }
    }

    /// Takes in the receipt of message `id`, which was queued, of the group at index `group`.
    fn confirm(&mut self, group: u8, id: u32) {
        let confirmed = &mut self.window.groups[usize::from(group)].confirmed;
        let word = id as usize / 64;
        if confirmed.len() <= word {
            confirmed.resize(word + 1, 0);
        }
        confirmed[word] |= 1 << (id % 64);
        let Some(key) = self.window.ledger.key(group, id) else { return };
        let message = self.window.ledger.message(key);
        let (priority, state) = (message.priority(), message.state);
        let group = &mut self.window.groups[usize::from(message.group)];
        if priority.is_some() {
            group.schedule.set(&mut self.window.ranks, key, priority, None);
        }
        *group.counter(state) -= 1;
        group.delivered += 1;
        self.window.delivered += 1;
        self.no_room.on_acceptance();
        if state == MessageState::AwaitingReceipt {
            self.window.awaiting_receipt.remove(key);
        }
        self.window.ledger.release(key);
    }
}

/// The number of arrived packets of which a receipt tells the low 32 bits. `before`: the number
/// before it. Another process of the receiver counts from 0 again: a number that went back, or that
/// exceeds the packets sent by an eighth, is its.
fn full_count(before: u64, low: u32, sent: u64) -> u64 {
    let ahead = low.wrapping_sub(before as u32);
    let count = before + u64::from(ahead);
    let has_gone_on = ahead as i32 >= 0 && count <= sent + sent / 8 + 64;
    if has_gone_on { count } else { low.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_count__goes_on_beyond_32_bits_and_begins_again() {
        let wrap = 1 << 32;
        assert_eq!(full_count(wrap - 6, 5, wrap + 10), wrap + 5);
        assert_eq!(full_count(3 * wrap + 7, 7, 3 * wrap + 9), 3 * wrap + 7);
        // Another process.
        assert_eq!(full_count(1_000, 3, 1_100), 3);
        assert_eq!(full_count(3 * (wrap / 4), 3, 3 * (wrap / 4) + 100), 3);
    }
}
