//! Takes in receipts: the messages that the peer's application has leave the ledger.

use super::{
    PacketRefused, Sender,
    latest_receipt::{LatestReceipt, Order},
    ledger::MessageState,
    window::Window,
};
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
        let is_recent = |window: &Window| self.is_in_or_after(window, header.slot());
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
        if receipt.cumulative > 0 || receipt.words().any(|word| word.bits != 0) {
            self.window.told_by.note(header.time());
        }
        let order = LatestReceipt::order(self.latest_receipt, header);
        if order == Order::OfAnother {
            self.report.packets_arrived = 0;
            for window in self.closing.as_deref_mut().into_iter().chain([&mut self.window]) {
                window.named_before = window.delivered;
            }
        }
        let before = self.window.delivered;
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
        if order == Order::OfEarlierProcess {
            self.window.named_before += self.window.delivered - before;
        }
        self.end_if_named();
        if matches!(order, Order::Earlier | Order::OfEarlierProcess) {
            return Ok(());
        }
        self.latest_receipt = Some(LatestReceipt::of(header));
        let group = self.group_index(header.group());
        // A duplicate of the newest receipt says nothing about the present.
        if order != Order::Same {
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
    /// missing for certain. Messages that an earlier process had too are counted twice here, and
    /// nothing is certain then.
    pub(super) fn on_slot_read(&mut self, now_ns: u64, slot: u32, delivered: u32) {
        let was_sent = (slot.wrapping_sub(self.sent_packets.next_slot()) as i32) < 0;
        let named = self.window.delivered - self.window.named_before;
        if delivered == named && was_sent {
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
/// before it. A number that went back, or that exceeds the packets sent by an eighth, is that of a
/// receiver that counts from 0 again.
fn full_count(before: u64, low: u32, sent: u64) -> u64 {
    let ahead = low.wrapping_sub(before as u32);
    let count = before + u64::from(ahead);
    let has_gone_on = ahead as i32 >= 0 && count <= sent + sent / 8 + 64;
    if has_gone_on { count } else { low.into() }
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

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
        let last = sender.sent_packets.next_slot().wrapping_sub(1);
        for slots in [1, 9, 1 << 30, (1 << 31) + 9, u32::MAX - 9] {
            sender.window.number = 1;
            sender.window.before_slot = last.wrapping_sub(slots);
            for (behind, is_in) in [(0, true), (slots - 1, true), (slots, false)] {
                let slot = last.wrapping_sub(behind);
                assert_eq!(sender.is_in_or_after(&sender.window, slot), is_in, "{slots} {behind}");
            }
        }
    }

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
