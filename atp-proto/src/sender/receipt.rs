//! Takes in receipts: the messages that the peer's application has leave the ledger.

use super::{
    group::GroupIndices, latest_receipt::Order, ledger::MessageState, no_room::NoRoom,
    window::Window,
};
use atp_common::wire::{Header, ReceiptBody, ReceiptWord};

impl Window {
    /// Whether a receipt names messages that were not queued.
    pub(super) fn is_impossible(
        &self,
        header: &Header,
        receipt: &ReceiptBody,
        indices: &GroupIndices,
    ) -> bool {
        let queued =
            |group| indices.index(group).map_or(0, |group| self.groups[usize::from(group)].queued);
        let is_beyond = |word: ReceiptWord| {
            let last = word.bits.checked_ilog2().map(|bit| word.index * 64 + bit);
            last.is_some_and(|last| last >= queued(word.group))
        };
        receipt.cumulative > queued(header.group())
            || receipt.delivered > self.ledger.ids()
            || receipt.words().any(is_beyond)
    }

    /// Takes in a possible receipt. Each newly named message shows that the receiver has room.
    pub(super) fn on_receipt(
        &mut self,
        now_ns: u64,
        header: &Header,
        receipt: &ReceiptBody,
        order: Order,
        indices: &GroupIndices,
        no_room: &mut NoRoom,
    ) {
        self.awaiting_receipt.on_receipt(now_ns);
        if receipt.cumulative > 0 || receipt.words().any(|word| word.bits != 0) {
            self.told_by.note(header.time());
        }
        let before = self.delivered;
        if let Some(group) = indices.index(header.group()) {
            let cumulative = &mut self.groups[usize::from(group)].cumulative;
            let known = *cumulative;
            *cumulative = known.max(receipt.cumulative);
            for id in known..receipt.cumulative {
                self.confirm(group, id);
            }
        }
        for word in receipt.words() {
            if let Some(group) = indices.index(word.group) {
                self.confirm_word(group, word);
            }
        }
        let named = self.delivered - before;
        if named > 0 {
            no_room.on_acceptance();
        }
        if order == Order::OfEarlierProcess {
            self.named_before += named;
        }
        self.end_if_named();
    }

    /// Ends the window if the receiver has confirmed its end, and receipts have named every message
    /// that the receiver has.
    pub(super) fn end_if_named(&mut self) {
        if !self.is_over() && self.ending.is_settled() && self.is_all_named() {
            self.end();
        }
    }

    fn confirm_word(&mut self, group: u8, word: ReceiptWord) {
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
        if state == MessageState::AwaitingReceipt {
            self.awaiting_receipt.remove(key);
        }
        self.ledger.release(key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests;

    /// The first process names two of five messages. The next one, whose receipts are numbered from
    /// 1 again, lacks three that its host acknowledged: they are sent again at once.
    #[test]
    fn receipt__of_another_process_shows_what_it_lacks() {
        let mut sender = tests::sender(tests::config());
        (0..5).for_each(|_| assert!(sender.queue(0, 5).is_ok()));
        let packets = tests::send_all(&mut sender, 0);
        packets.iter().for_each(|packet| tests::ack(&mut sender, tests::MS, packet));
        let (number, slot) = (900, 2);
        sender.on_packet(tests::MS, &tests::receipt(number, slot, 0b00011)).unwrap();
        sender.queue(0, 5).unwrap();
        let sixth = sender.next_packet(tests::MS).unwrap();
        tests::ack(&mut sender, 2 * tests::MS, &sixth);
        let mut of_next = tests::receipt(1, sixth.header.slot(), 0b100000);
        of_next[28..32].copy_from_slice(&7u32.to_be_bytes());
        sender.on_packet(2 * tests::MS, &of_next).unwrap();
        assert_eq!(sender.report().messages_retransmitted, 3);
        let again = tests::send_all(&mut sender, 2 * tests::MS);
        again.iter().for_each(|packet| tests::ack(&mut sender, 3 * tests::MS, packet));
        // A late receipt of the first process names one that the next one lacks too.
        sender.on_packet(3 * tests::MS, &tests::receipt(number + 1, slot, 0b00111)).unwrap();
        sender.queue(0, 5).unwrap();
        let seventh = sender.next_packet(3 * tests::MS).unwrap();
        let mut of_next = tests::receipt(2, seventh.header.slot(), 0b1100000);
        of_next[28..32].copy_from_slice(&7u32.to_be_bytes());
        sender.on_packet(3 * tests::MS, &of_next).unwrap();
        assert_eq!(sender.report().messages_retransmitted, 5);
    }

    /// Half of the slots lie between the window's begin and its last packets.
    #[test]
    fn is_in_or_after__of_a_window_with_billions_of_slots() {
        let mut sender = tests::sender(tests::config());
        sender.queue(0, 5).unwrap();
        tests::send_all(&mut sender, 0);
        let next_slot = sender.transmissions.sent.next_slot();
        let (window, last) = (&mut sender.windows.current, next_slot.wrapping_sub(1));
        for slots in [1, 9, 1 << 30, (1 << 31) + 9, u32::MAX - 9] {
            window.number = 1;
            window.before_slot = last.wrapping_sub(slots);
            for (behind, is_in) in [(0, true), (slots - 1, true), (slots, false)] {
                let slot = last.wrapping_sub(behind);
                assert_eq!(window.is_in_or_after(slot, next_slot), is_in, "{slots} {behind}");
            }
        }
    }
}
