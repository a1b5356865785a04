//! Decides when a receipt is due, and writes it.
//!
//! Receipts carry state, not events. A changed word of the bitmap is named first, and again in at
//! least the next two receipts. The remaining space goes to older words, round-robin. A lost
//! receipt therefore costs nothing, and a series of lost ones only time.

use super::{
    ReceiverConfig,
    advice::{GivenAdvice, Moved},
    group::{Group, Groups},
};
use atp_common::wire::{
    Features, Fields, HEADER_LEN, Header, Kind, RECEIPT_WORDS_MAX, ReceiptBody, ReceiptWord,
    U24_MAX, WINDOWS,
};
use std::collections::VecDeque;

/// A receipt is due after this many bytes: a quarter of the default send buffer. At more than
/// 10 Gbit/s the buffer would otherwise be full before a receipt is due.
const UNREPORTED_BYTES_MAX: u64 = 1 << 20;
/// The number of receipts that name a change.
const REPEATS: u8 = 3;
/// Older words in an ordinary receipt. There are few, which keeps receipts short at low rates.
const OLDER_WORDS: usize = 16;
/// Arrivals without a complete message are reported after this many delays. They tell the sender
/// how far the library has read.
pub(crate) const ARRIVAL_DELAYS: u64 = 8;
/// Advice that has moved far is said after the delay divided by this: a short job would have ended
/// after a whole delay, at a rate that was right before another lane ended.
const FAR_DIVISOR: u64 = 16;
const FIXED_LEN: usize = 12;
const WORD_LEN: usize = 12;
/// A receipt that names no word.
pub(crate) const RECEIPT_BYTES_MIN: u64 = (HEADER_LEN + FIXED_LEN) as u64;

/// The changes that receipts have reported, and those that are still to be reported.
#[derive(Debug)]
pub(crate) struct Receipts {
    messages_max: u32,
    delay_ns: u64,
    /// Words with repeats left: group and index.
    changed: VecDeque<(u8, u32)>,
    /// The round-robin position of the group whose cumulative id the last receipt named.
    position: usize,
    /// The number of receipts of this window.
    number: u32,
    written_ns: u64,
    /// Messages completed since the last receipt, and their bytes.
    unreported: u32,
    unreported_bytes: u64,
    /// When the first change since the last receipt came.
    changed_ns: Option<u64>,
    /// When the first DATA packet since the last receipt came.
    arrived_ns: Option<u64>,
    /// Receipts in a row without a change.
    quiet: u32,
    urgent: bool,
    /// The receiver gives advice, which its first receipt announces.
    announces: bool,
    words: Vec<ReceiptWord>,
}

/// The fields of a receipt beside the bitmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    pub(crate) job: u32,
    pub(crate) cookie: u32,
    /// The receipt's number.
    pub(crate) number: u32,
    pub(crate) window: u32,
    /// The latest slot that was read.
    pub(crate) slot: u32,
    /// The clock when the receiver began, as on the wire.
    pub(crate) begun: u32,
    pub(crate) packets_arrived: u32,
    pub(crate) features: Features,
    /// The revision of the terms that it has in full; 0 for none.
    pub(crate) terms: u32,
}

impl Receipts {
    pub(crate) fn new(config: &ReceiverConfig) -> Self {
        Self {
            messages_max: config.receipt_messages.max(1),
            delay_ns: config.receipt_delay_ns,
            changed: VecDeque::new(),
            position: 0,
            number: 0,
            written_ns: 0,
            unreported: 0,
            unreported_bytes: 0,
            changed_ns: None,
            arrived_ns: None,
            quiet: 0,
            urgent: false,
            announces: config.gives_advice,
            words: Vec::with_capacity(RECEIPT_WORDS_MAX),
        }
    }

    /// Notes that a DATA packet came. The first receipt of a receiver that gives advice is
    /// due at once.
    pub(crate) fn arrived(&mut self, now_ns: u64) {
        self.arrived_ns.get_or_insert(now_ns);
        self.urgent |= self.announces && self.number == 0;
    }

    /// Notes that message `id`, of `bytes`, is complete.
    pub(crate) fn completed(&mut self, now_ns: u64, group: &mut Group, id: u32, bytes: u64) {
        self.unreported += 1;
        self.unreported_bytes += bytes;
        self.repeat(now_ns, group, id);
    }

    /// Makes the next receipts name message `id`: it is new, or the sender doesn't know of it.
    pub(crate) fn repeat(&mut self, now_ns: u64, group: &mut Group, id: u32) {
        let word = id / 64;
        let mark = group.marks.entry(word);
        if mark.repeats == 0 {
            self.changed.push_back((group.id, word));
        }
        mark.repeats = REPEATS;
        self.quiet = 0;
        self.changed_ns.get_or_insert(now_ns);
    }

    /// Forgets the changes of the last window.
    pub(crate) fn begin_window(&mut self) {
        self.changed.clear();
        (self.unreported, self.unreported_bytes) = (0, 0);
        (self.changed_ns, self.quiet, self.urgent) = (None, 0, false);
    }

    /// The receipts of the next window, which overlaps this one.
    pub(crate) fn of_next_window(&self, config: &ReceiverConfig) -> Self {
        Self { announces: false, position: self.position, ..Self::new(config) }
    }

    /// Makes the next receipt due at once, with as many words as fit.
    pub(crate) fn request_now(&mut self) {
        self.urgent = true;
    }

    /// When the next receipt is due. `moved`: how far the advice is from what receipts said.
    pub(crate) fn due_ns(&self, moved: Moved) -> Option<u64> {
        let is_much =
            self.unreported >= self.messages_max || self.unreported_bytes >= UNREPORTED_BYTES_MAX;
        if self.urgent || is_much {
            return Some(0);
        }
        let change = self.changed_ns.map(|at_ns| at_ns + self.delay_ns);
        let arrival = self.arrived_ns.map(|at_ns| at_ns + ARRIVAL_DELAYS * self.delay_ns);
        let repeat_ns = self.written_ns + (self.delay_ns << self.quiet.min(6));
        let repeats = self.changed_ns.is_none() && !self.changed.is_empty();
        let repeat = repeats.then_some(repeat_ns);
        let advice = match moved {
            Moved::No => None,
            Moved::Some => Some(self.written_ns + self.delay_ns),
            Moved::Far => Some(self.written_ns + self.delay_ns / FAR_DIVISOR),
        };
        [change, arrival, repeat, advice].into_iter().flatten().min()
    }

    /// Writes a receipt and returns its length; 0 if there is no room for one.
    pub(crate) fn write(
        &mut self,
        now_ns: u64,
        groups: &mut Groups,
        reported: &Reported,
        advice: &mut GivenAdvice,
        out: &mut [u8],
    ) -> usize {
        let Some(room) = out.len().checked_sub(HEADER_LEN + FIXED_LEN) else { return 0 };
        self.number += 1;
        // Every other receipt names the lane whose advice has moved farthest. It may have no
        // complete message yet. The others let no group wait for its cumulative id.
        let moved = advice.farthest().filter(|_| self.number.is_multiple_of(2));
        let next = match moved {
            Some(group) => {
                Some((group, groups.get(group).map_or(0, |group| group.delivered.cumulative())))
            }
            None => {
                self.position = self.position.wrapping_add(1);
                let next = groups.round_robin(self.position);
                next.map(|group| (group.id, group.delivered.cumulative()))
            }
        };
        let (group, cumulative) = next.unwrap_or((advice.first_group().unwrap_or(0), 0));
        self.choose_words(groups, group, (room / WORD_LEN).min(RECEIPT_WORDS_MAX));
        let header = Header::new(&Fields {
            group,
            job: reported.job,
            cookie: reported.cookie,
            message: advice.tell(group).to_wire(),
            index: reported.number & U24_MAX,
            count: reported.terms,
            epoch: reported.features.bits(),
            slot: reported.slot,
            time: reported.begun,
            ..Fields::of(Kind::Receipt)
        });
        let header = header.with_segmentation((reported.window % WINDOWS) as u8);
        out[..HEADER_LEN].copy_from_slice(header.as_bytes());
        let written = ReceiptBody::write(
            &mut out[HEADER_LEN..],
            cumulative,
            groups.number(),
            reported.packets_arrived,
            &self.words,
        );
        self.quiet = if self.changed_ns.is_some() { 0 } else { self.quiet + 1 };
        (self.unreported, self.unreported_bytes) = (0, 0);
        (self.changed_ns, self.arrived_ns) = (None, None);
        (self.urgent, self.written_ns) = (false, now_ns);
        written.map_or(0, |body_len| HEADER_LEN + body_len)
    }

    /// Chooses the words of a receipt whose cumulative id is that of the group `cumulative_of`. The
    /// cumulative id covers the words below it, and counts as one of their repetitions.
    fn choose_words(&mut self, groups: &mut Groups, cumulative_of: u8, words_max: usize) {
        self.words.clear();
        for _ in 0..self.changed.len() {
            let Some(&(id, word)) = self.changed.front() else { break };
            let group = groups.entry(id);
            let is_covered = id == cumulative_of && word < group.delivered.cumulative() / 64;
            if !is_covered && !self.name(group, word, words_max) {
                break;
            }
            self.changed.pop_front();
            let mark = group.marks.entry(word);
            mark.repeats -= 1;
            if mark.repeats > 0 {
                self.changed.push_back((id, word));
            }
        }
        let older_max = if self.urgent { words_max } else { self.words.len() + OLDER_WORDS };
        let (older_max, number) = (words_max.min(older_max), groups.len());
        for position in self.position..self.position + number {
            let Some(group) = groups.round_robin(position) else { return };
            if !self.name_older(group, older_max) {
                return;
            }
        }
    }

    /// Names a group's older words, round-robin. Returns `false` if the receipt has no room left.
    fn name_older(&mut self, group: &mut Group, words_max: usize) -> bool {
        let words = group.delivered.cumulative() / 64..group.delivered.words();
        // Empty words take no room in a receipt, but scanning them takes time.
        for _ in 0..words.len().min(4 * RECEIPT_WORDS_MAX) {
            let at = group.cursor.max(words.start);
            let next = group.delivered.next_word(at).filter(|at| words.contains(at));
            group.cursor = next.unwrap_or(words.start);
            if !self.name(group, group.cursor, words_max) {
                return false;
            }
            group.cursor += 1;
        }
        true
    }

    /// Adds a word to the receipt, unless it is empty or named already. Returns `false` if the
    /// receipt has no room left.
    fn name(&mut self, group: &mut Group, word: u32, words_max: usize) -> bool {
        let bits = group.delivered.word(word);
        if bits == 0 {
            return true;
        }
        let named_in = &mut group.marks.entry(word).named_in;
        if *named_in == self.number {
            return true;
        }
        if self.words.len() >= words_max {
            return false;
        }
        *named_in = self.number;
        self.words.push(ReceiptWord { group: group.id, index: word, bits });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const REPORTED: Reported = Reported {
        job: 1,
        cookie: 2,
        number: 1,
        window: 0,
        slot: 9,
        begun: 5,
        packets_arrived: 77,
        features: Features::PACKED,
        terms: 3,
    };

    struct Host {
        receipts: Receipts,
        groups: Groups,
    }

    impl Host {
        fn new() -> Self {
            let receipts = Receipts::new(&ReceiverConfig::default());
            Self { receipts, groups: Groups::default() }
        }

        fn complete(&mut self, now_ns: u64, group: u8, id: u32) {
            let group = self.groups.entry(group);
            group.delivered.insert(id);
            self.receipts.completed(now_ns, group, id, 1_000);
        }

        /// The messages that a receipt names.
        fn write(&mut self, now_ns: u64, out_len: usize) -> BTreeSet<(u8, u32)> {
            let mut out = vec![0; out_len];
            let (groups, advice) = (&mut self.groups, &mut GivenAdvice::default());
            let len = self.receipts.write(now_ns, groups, &REPORTED, advice, &mut out);
            let (header, kind) = Header::parse(&out).unwrap();
            assert_eq!((kind, header.slot(), header.cookie()), (Kind::Receipt, 9, 2));
            assert_eq!((header.count(), header.time()), (3, 5));
            let body = ReceiptBody::parse(&out[HEADER_LEN..len]).unwrap();
            assert_eq!(body.delivered, self.groups.number());
            let in_words = body.words().flat_map(|word| {
                let bits = (0..64).filter(move |i| word.bits >> i & 1 == 1);
                bits.map(move |i| (word.group, word.index * 64 + i))
            });
            (0..body.cumulative).map(|id| (header.group(), id)).chain(in_words).collect()
        }
    }

    proptest! {
        // Three receipts in a row each name a change, so that two of them may be lost.
        #[test]
        fn write__names_each_change_in_three_receipts(
            ids in proptest::collection::btree_set((0u8..3, 0u32..1_000), 1..200),
            batch in 1usize..30,
        ) {
            let mut host = Host::new();
            let ids: Vec<_> = ids.into_iter().collect();
            let mut window: Vec<(Vec<(u8, u32)>, u32)> = vec![];
            for batch in ids.chunks(batch) {
                for &(group, id) in batch {
                    host.complete(0, group, id);
                }
                window.push((batch.to_vec(), 0));
                let named = host.write(0, 1_300);
                for (batch, receipts) in &mut window {
                    *receipts += 1;
                    prop_assert!(*receipts > 3 || batch.iter().all(|id| named.contains(id)));
                }
            }
            prop_assert_eq!(host.write(0, 1_300).len().min(ids.len()) > 0, true);
        }

        // Every complete message is named in time, even if the receipts are short.
        #[test]
        fn write__names_everything_in_time(
            ids in proptest::collection::btree_set(
                (prop_oneof![3 => Just(0u8), 1 => Just(200)], prop_oneof![9 => 0u32..6_000, 1 => 0u32..1 << 24]),
                1..300,
            ),
            words in 1usize..8,
        ) {
            let mut host = Host::new();
            for &(group, id) in &ids {
                host.complete(0, group, id);
            }
            let mut named = BTreeSet::new();
            for _ in 0..300 {
                named.extend(host.write(0, HEADER_LEN + 12 + words * 12));
            }
            prop_assert!(named.is_superset(&ids));
            prop_assert!(named.iter().all(|&(group, id)| host.groups.contains(group, id)));
        }
    }

    #[test]
    fn due_ns__after_the_delay_or_enough_messages_and_until_repeated() {
        let mut host = Host::new();
        assert_eq!(host.receipts.due_ns(Moved::No), None);
        host.complete(1_000, 0, 5);
        host.complete(9_000, 0, 6);
        assert_eq!(host.receipts.due_ns(Moved::No), Some(2_001_000));
        for id in 100..354 {
            host.complete(9_000, 0, id);
        }
        assert_eq!(host.receipts.due_ns(Moved::No), Some(0));
        host.write(10_000, 1_300);
        assert_eq!(host.receipts.due_ns(Moved::No), Some(2_010_000));
        let long = |host: &mut Host, id| {
            let group = host.groups.entry(0);
            group.delivered.insert(id);
            host.receipts.completed(2_000_000, group, id, UNREPORTED_BYTES_MAX / 2);
        };
        long(&mut host, 500);
        assert_eq!(host.receipts.due_ns(Moved::No), Some(4_000_000));
        long(&mut host, 501);
        assert_eq!(host.receipts.due_ns(Moved::No), Some(0));
        host.write(10_000, 1_300);
        host.write(2_010_000, 1_300);
        assert_eq!(host.receipts.due_ns(Moved::No), Some(2_010_000 + 4_000_000));
        host.write(6_010_000, 1_300);
        assert_eq!(host.receipts.due_ns(Moved::No), None);
        host.receipts.arrived(7_000_000);
        assert_eq!(host.receipts.due_ns(Moved::No), Some(23_000_000));
    }

    #[test]
    fn due_ns__earlier_the_farther_advice_has_moved() {
        let mut host = Host::new();
        host.write(64_000, 1_300);
        for (moved, due_ns) in
            [(Moved::No, None), (Moved::Some, Some(2_064_000)), (Moved::Far, Some(189_000))]
        {
            assert_eq!(host.receipts.due_ns(moved), due_ns);
        }
    }

    #[test]
    fn write__needs_room_for_a_header_and_counts() {
        let mut host = Host::new();
        host.complete(0, 0, 0);
        let (groups, advice) = (&mut host.groups, &mut GivenAdvice::default());
        assert_eq!(host.receipts.write(0, groups, &REPORTED, advice, &mut [0; 43]), 0);
        assert!(host.write(0, 44).contains(&(0, 0)));
    }
}
