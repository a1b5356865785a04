//! Assembles messages from packets, within limits of bytes and number.
//!
//! A new message without room replaces one that got no packet for a long time, compared with the
//! time that its packets took before. If there is no such message, the new packet is dropped, and
//! its sender notices that. Neither abandoned messages nor a flood of new ones can block a message
//! that makes progress for longer than ten seconds.

use super::{
    Account, ReceiverConfig, ReceiverStats,
    partial::{Partial, Piece},
    receipt::ARRIVAL_DELAYS,
};
use crate::list::{Links, List, NONE};
use slab::Slab;
use std::collections::HashMap;

/// The result of inserting a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Assembly {
    Complete(Vec<u8>),
    Incomplete,
    Duplicate,
    Contradiction,
    /// The piece has an earlier segmentation than the arrived ones.
    Stale,
    TooLarge,
    /// This sender's own limits are reached.
    NoRoom,
    /// The memory that all senders share is in use.
    BudgetUsed,
}

/// All incomplete messages of one sender.
#[derive(Debug)]
pub(crate) struct Assembler {
    config: ReceiverConfig,
    /// All of the bytes below, taken from the budget of all senders.
    account: Account,
    partials: Slab<Partial>,
    /// Keys into `partials` by group and message.
    keys: HashMap<(u8, u32), u32>,
    /// The keys, least recently touched first.
    order: List,
    links: Links,
    /// The cost of all incomplete messages.
    bytes: u64,
    /// The cost of complete messages that wait for earlier ones.
    aside_bytes: u64,
}

/// The number of longest idle messages that are searched for one to drop.
const CANDIDATES: usize = 8;
/// A message may be idle for this many times as long as its packets took so far.
const IDLE_FACTOR: u64 = 8;
/// The longest idle time, even of slow messages, because an idle message blocks its room.
const IDLE_NS_MAX: u64 = 10_000_000_000;
/// The idle time lasts at least as long as this many receipts.
const IDLE_RECEIPTS: u64 = 4;

/// The cost of a message beside its data.
const PARTIAL_BYTES: u64 = size_of::<Partial>() as u64;

impl Assembler {
    pub(crate) fn new(mut config: ReceiverConfig, account: Account) -> Self {
        // One message of the greatest length always fits, for any length of its packets.
        config.incomplete_bytes_max = config.incomplete_bytes_max.max(config.longest_cost_bytes());
        // The sender learns only from receipts that a packet is missing.
        let receipts_ns = (IDLE_RECEIPTS * ARRIVAL_DELAYS).saturating_mul(config.receipt_delay_ns);
        config.incomplete_idle_ns = config.incomplete_idle_ns.max(receipts_ns);
        Self {
            config,
            account,
            partials: Slab::new(),
            keys: HashMap::new(),
            order: List::EMPTY,
            links: Links::default(),
            bytes: 0,
            aside_bytes: 0,
        }
    }

    /// Inserts one piece (`index < count`) of an incomplete message.
    pub(crate) fn insert(
        &mut self,
        now_ns: u64,
        piece: &Piece<'_>,
        stats: &mut ReceiverStats,
    ) -> Assembly {
        let key = match self.settle_segmentation(piece) {
            Ok(key) => key,
            Err(evaluated) => return evaluated,
        };
        if piece.count == 1 {
            return self.take_single(piece);
        }
        let is_last = piece.is_last();
        let len = piece.data.len() as u64;
        // Only a message of one packet can be empty.
        if len == 0 {
            return Assembly::Contradiction;
        }
        let least_bytes = u64::from(piece.count - 1) * if is_last { 1 } else { len } + 1;
        if least_bytes > u64::from(self.config.message_bytes_max) {
            return Assembly::TooLarge;
        }
        let key = match key {
            Some(key) => key,
            None => match self.begin(now_ns, piece, stats) {
                Ok(key) => key,
                Err(refused) => return refused,
            },
        };
        let partial = &mut self.partials[key as usize];
        if partial.contains(piece.index) {
            return Assembly::Duplicate;
        }
        if !is_last
            && !partial.is_allocated()
            && let Err(refused) = self.reserve_data(now_ns, key, piece, stats)
        {
            return refused;
        }
        let partial = &mut self.partials[key as usize];
        if is_last && partial.end_bytes(piece) > u64::from(self.config.message_bytes_max) {
            return Assembly::TooLarge;
        }
        partial.put(piece);
        partial.touched_ns = now_ns;
        self.links.remove(&mut self.order, key);
        self.links.push_back(&mut self.order, key);
        if !partial.is_complete() {
            return Assembly::Incomplete;
        }
        Assembly::Complete(self.take_out(key).into_data())
    }

    /// Whether some packet of a message has arrived.
    pub(crate) fn has_begun(&self, group: u8, message: u32) -> bool {
        self.keys.contains_key(&(group, message))
    }

    /// The entry of a piece's message, if there is one. A piece of a later segmentation replaces
    /// the packets of the earlier one.
    fn settle_segmentation(&mut self, piece: &Piece<'_>) -> Result<Option<u32>, Assembly> {
        let Some(&key) = self.keys.get(&piece.key()) else { return Ok(None) };
        let partial = &self.partials[key as usize];
        match partial.segmentations_behind(piece) {
            0 if partial.contradicts(piece) => Err(Assembly::Contradiction),
            0 => Ok(Some(key)),
            1.. => {
                self.take_out(key);
                Ok(None)
            }
            _ => Err(Assembly::Stale),
        }
    }

    fn take_single(&self, piece: &Piece<'_>) -> Assembly {
        if piece.data.len() as u64 > u64::from(self.config.message_bytes_max) {
            return Assembly::TooLarge;
        }
        Assembly::Complete(piece.data.to_vec())
    }

    /// Reserves room for a complete message of `bytes` that waits for earlier ones. Waiting
    /// messages have a limit of their own, as large as that of incomplete ones, and half of what
    /// the budget has. They can't be dropped, and the earlier messages need room as well.
    pub(crate) fn set_aside(&mut self, bytes: u64) -> Result<(), Assembly> {
        let cost_bytes = bytes + PARTIAL_BYTES;
        if self.aside_bytes + cost_bytes > self.config.incomplete_bytes_max {
            return Err(Assembly::NoRoom);
        }
        if !self.account.fits_twice(cost_bytes) {
            return Err(Assembly::BudgetUsed);
        }
        self.aside_bytes += cost_bytes;
        self.account.take(cost_bytes);
        Ok(())
    }

    /// Frees the room of a waiting message, which was handed over.
    pub(crate) fn take_back(&mut self, bytes: u64) {
        self.aside_bytes -= bytes + PARTIAL_BYTES;
        self.account.give_back(bytes + PARTIAL_BYTES);
    }

    /// The memory of incomplete and waiting messages, bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.account.bytes()
    }

    /// Drops all incomplete messages.
    pub(crate) fn clear(&mut self) {
        let aside_bytes = self.aside_bytes;
        self.account.give_back(self.bytes);
        let account = std::mem::take(&mut self.account);
        *self = Self { aside_bytes, ..Self::new(self.config, account) };
    }

    /// Drops all messages that their sender seems to have abandoned: other senders need the room.
    pub(crate) fn drop_abandoned(&mut self, now_ns: u64, stats: &mut ReceiverStats) {
        while let Some(abandoned) = self.abandoned(now_ns, NONE) {
            self.take_out(abandoned);
            stats.messages_evicted += 1;
        }
    }

    /// Creates the entry of a new message, with room for its bitmap and for its last piece, which
    /// may come first.
    fn begin(
        &mut self,
        now_ns: u64,
        piece: &Piece<'_>,
        stats: &mut ReceiverStats,
    ) -> Result<u32, Assembly> {
        let bitmap_bytes = u64::from(piece.count).div_ceil(8);
        let cost_bytes = PARTIAL_BYTES + bitmap_bytes + piece.data.len() as u64;
        self.make_room(now_ns, cost_bytes, NONE, stats)?;
        let key = self.partials.insert(Partial::new(now_ns, piece, cost_bytes)) as u32;
        self.bytes += cost_bytes;
        self.account.take(cost_bytes);
        self.keys.insert(piece.key(), key);
        self.links.push_back(&mut self.order, key);
        Ok(key)
    }

    /// Reserves and allocates room for all packets, once their length is known.
    fn reserve_data(
        &mut self,
        now_ns: u64,
        key: u32,
        piece: &Piece<'_>,
        stats: &mut ReceiverStats,
    ) -> Result<(), Assembly> {
        let data_bytes = u64::from(piece.count) * piece.data.len() as u64;
        self.make_room(now_ns, data_bytes, key, stats)?;
        let partial = &mut self.partials[key as usize];
        partial.allocate(piece.data.len() as u32);
        partial.cost_bytes += data_bytes;
        self.bytes += data_bytes;
        self.account.take(data_bytes);
        Ok(())
    }

    /// Drops idle messages, oldest first, until `bytes` fit. Never drops `keep`.
    fn make_room(
        &mut self,
        now_ns: u64,
        bytes: u64,
        keep: u32,
        stats: &mut ReceiverStats,
    ) -> Result<(), Assembly> {
        let number_max = self.config.incomplete_messages_max as usize;
        loop {
            let is_full = self.bytes + bytes > self.config.incomplete_bytes_max
                || keep == NONE && self.partials.len() >= number_max;
            if !is_full && self.account.fits(bytes) {
                return Ok(());
            }
            let refused = if is_full { Assembly::NoRoom } else { Assembly::BudgetUsed };
            let abandoned = self.abandoned(now_ns, keep).ok_or(refused)?;
            self.take_out(abandoned);
            stats.messages_evicted += 1;
        }
    }

    /// Finds a message that its sender seems to have abandoned: one of the longest idle messages,
    /// idle for several times as long as its packets took. A shorter idle time proves nothing,
    /// because the sender may be busy with other messages. If each of a few long messages replaced
    /// the next, none would ever be complete.
    fn abandoned(&self, now_ns: u64, keep: u32) -> Option<u32> {
        self.links.keys(&self.order).take(CANDIDATES).find(|key| {
            let partial = &self.partials[*key as usize];
            let took_ns = partial.touched_ns.saturating_sub(partial.begun_ns);
            let idle_ns_min = IDLE_FACTOR.saturating_mul(took_ns).min(IDLE_NS_MAX);
            let idle_ns = now_ns.saturating_sub(partial.touched_ns);
            *key != keep && idle_ns >= self.config.incomplete_idle_ns.max(idle_ns_min)
        })
    }

    fn take_out(&mut self, key: u32) -> Partial {
        let partial = self.partials.remove(key as usize);
        self.bytes -= partial.cost_bytes;
        self.account.give_back(partial.cost_bytes);
        self.keys.remove(&(partial.group, partial.message));
        self.links.remove(&mut self.order, key);
        partial
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn config() -> ReceiverConfig {
        ReceiverConfig { message_bytes_max: 1_000, ..ReceiverConfig::default() }
    }

    fn insert(assembler: &mut Assembler, now_ns: u64, piece: &Piece<'_>) -> Assembly {
        assembler.insert(now_ns, piece, &mut ReceiverStats::default())
    }

    /// Keeps every piece separately and evaluates all of them each time.
    #[derive(Default)]
    struct Naive(BTreeMap<(u8, u32), NaiveMessage>);

    /// Count, pieces.
    type NaiveMessage = (u32, BTreeMap<u32, Vec<u8>>);

    impl Naive {
        fn insert(&mut self, piece: &Piece<'_>) -> Assembly {
            if piece.count == 1 && !self.0.contains_key(&piece.key()) {
                return Assembly::Complete(piece.data.to_vec());
            }
            let entry = (piece.count, BTreeMap::new());
            let (count, pieces) = self.0.entry(piece.key()).or_insert(entry);
            let mut all = pieces.clone();
            let repeated = all.insert(piece.index, piece.data.to_vec());
            let others: Vec<_> =
                all.iter().filter(|(i, _)| **i + 1 < *count).map(|(_, d)| d.len()).collect();
            let last = all.get(&(*count - 1)).map_or(0, Vec::len);
            let same_length = others.windows(2).all(|pair| pair[0] == pair[1]);
            let last_fits = others.first().is_none_or(|&len| last <= len);
            let changed = repeated.is_some_and(|before| before.len() != piece.data.len());
            if *count != piece.count || !same_length || !last_fits || changed {
                return Assembly::Contradiction;
            }
            if pieces.contains_key(&piece.index) {
                return Assembly::Duplicate;
            }
            pieces.insert(piece.index, piece.data.to_vec());
            if pieces.len() < *count as usize {
                return Assembly::Incomplete;
            }
            let data = pieces.values().flatten().copied().collect();
            self.0.remove(&piece.key());
            Assembly::Complete(data)
        }
    }

    fn pieces() -> impl Strategy<Value = Vec<(u32, u8, u32, u32, Vec<u8>)>> {
        let mostly =
            |usual: u32, other: std::ops::Range<u32>| prop_oneof![20 => Just(usual), 1 => other];
        let piece = (0u32..3, mostly(0, 0..3), mostly(5, 2..7), any::<u32>(), mostly(4, 1..6))
            .prop_flat_map(|(message, group, count, index, len)| {
                let index = index % count;
                // The last piece is shorter, mostly.
                let len = if index + 1 == count { len / 2 + 1 } else { len } as usize;
                let data = proptest::collection::vec(any::<u8>(), len);
                data.prop_map(move |data| (message, group as u8, index, count, data))
            });
        proptest::collection::vec(piece, 0..120)
    }

    proptest! {
        #[test]
        fn insert__does_what_a_naive_assembler_does(pieces in pieces()) {
            let mut assembler = Assembler::new(config(), Account::default());
            let mut naive = Naive::default();
            for (message, group, index, count, data) in &pieces {
                let piece = Piece { message: *message, group: *group, index: *index, count: *count, segmentation: 0, data };
                prop_assert_eq!(insert(&mut assembler, 0, &piece), naive.insert(&piece));
                prop_assert_eq!(assembler.partials.len(), naive.0.len());
            }
            // Nothing is left behind.
            for message in 0..3 {
                for group in 0..3 {
                    if let Some(&key) = assembler.keys.get(&(group, message)) {
                        assembler.take_out(key);
                    }
                }
            }
            prop_assert_eq!((assembler.bytes, assembler.partials.len()), (0, 0));
        }

        // No input makes it panic or exceed its limits.
        #[test]
        fn insert__stays_within_its_limits(
            pieces in proptest::collection::vec((0u32..1_000, 2u32..=0xff_ffff, any::<u32>(), 0usize..2_000), 0..200),
            step_ns in 0u64..200_000_000,
        ) {
            let config = ReceiverConfig {
                message_bytes_max: 50_000,
                incomplete_bytes_max: 0,
                incomplete_messages_max: 20,
                ..ReceiverConfig::default()
            };
            let mut assembler = Assembler::new(config, Account::default());
            let data = vec![7; 2_000];
            for (i, (message, count, index, len)) in pieces.into_iter().enumerate() {
                let index = index % count;
                let piece = Piece { message, group: 0, index, count, segmentation: 0, data: &data[..len] };
                insert(&mut assembler, i as u64 * step_ns, &piece);
                prop_assert!(assembler.bytes <= 50_000 + (1 << 22));
                prop_assert!(assembler.partials.len() <= 20);
            }
        }
    }

    #[test]
    fn insert__refuses_messages_that_are_too_large() {
        let mut assembler = Assembler::new(config(), Account::default());
        let piece =
            Piece { message: 0, group: 0, index: 0, count: 11, segmentation: 0, data: &[0; 100] };
        assert_eq!(insert(&mut assembler, 0, &piece), Assembly::TooLarge);
        assert_eq!(insert(&mut assembler, 0, &Piece { count: 10, ..piece }), Assembly::Incomplete);
        let claims = Piece { message: 1, index: 0xff_fffe, count: 0xff_ffff, data: &[1], ..piece };
        assert_eq!(insert(&mut assembler, 0, &claims), Assembly::TooLarge);
    }

    #[test]
    fn insert__idle_messages_make_room_busy_ones_do_not() {
        let limits = ReceiverConfig { incomplete_messages_max: 2, ..config() };
        let mut assembler = Assembler::new(limits, Account::default());
        let mut stats = ReceiverStats::default();
        let piece =
            |message| Piece { message, group: 0, index: 0, count: 2, segmentation: 0, data: &[1] };
        assert_eq!(assembler.insert(0, &piece(0), &mut stats), Assembly::Incomplete);
        assert_eq!(assembler.insert(50_000_000, &piece(1), &mut stats), Assembly::Incomplete);
        assert_eq!(assembler.insert(99_999_999, &piece(2), &mut stats), Assembly::NoRoom);
        assert_eq!(assembler.insert(100_000_000, &piece(2), &mut stats), Assembly::Incomplete);
        assert_eq!(stats.messages_evicted, 1);
        assert!(
            [(0, false), (1, true), (2, true)]
                .iter()
                .all(|(id, here)| assembler.keys.contains_key(&(0, *id)) == *here)
        );
    }

    #[test]
    fn insert__a_slow_message_is_kept_for_long() {
        const MS: u64 = 1_000_000;
        // Pieces of one message come at 0 and at `second_ns`. Another message gets its room
        // `idle_ns` later.
        for (second_ns, idle_ns) in
            [(MS, 100 * MS), (50 * MS, 400 * MS), (100_000 * MS, IDLE_NS_MAX)]
        {
            let limits = ReceiverConfig { incomplete_messages_max: 1, ..config() };
            let mut assembler = Assembler::new(limits, Account::default());
            let mut stats = ReceiverStats::default();
            let piece = |message, index| Piece {
                message,
                group: 0,
                index,
                count: 3,
                segmentation: 0,
                data: &[1],
            };
            assert_eq!(assembler.insert(0, &piece(0, 0), &mut stats), Assembly::Incomplete);
            assert_eq!(assembler.insert(second_ns, &piece(0, 1), &mut stats), Assembly::Incomplete);
            let free_ns = second_ns + idle_ns;
            assert_eq!(assembler.insert(free_ns - 1, &piece(1, 0), &mut stats), Assembly::NoRoom);
            assert_eq!(assembler.insert(free_ns, &piece(1, 0), &mut stats), Assembly::Incomplete);
        }
    }
}
