//! Records the arrivals of a lane at its receiver until the sender's PROBE: a ring of delivery bits
//! like [`super::ack_ring`], and counts of the lane's last epochs.
//!
//! These functions run in two places. eBPF keeps the record in a map by [`ArrivalKey`] and
//! writes it with atomic operations. A receiving library without a daemon keeps it in its own
//! memory.

use super::ack_ring::{self, SLOTS_PER_WORD};
use crate::wire::{COUNT_WORDS, EpochArrivals, PROBE_EPOCHS, PROBE_WORDS, ProbeBody};
use bytemuck::{Pod, Zeroable};

/// Words of the ring: 8,192 slots, as many as 32 PROBEs cover.
pub const ARRIVAL_WORDS: u32 = 256;
/// Elements of a record: the ring's words, then one count for each of the last epochs.
pub const ARRIVALS_LEN: usize = ARRIVAL_WORDS as usize + PROBE_EPOCHS;
/// Lanes of admitted sources that a receiving host records, 2 KiB each. A further lane replaces the
/// least recently used record, and the sender of that record counts its arrivals as losses.
pub const ARRIVALS: u32 = 2048;
/// Lanes that a receiving host records of sources that no receiver has admitted yet. Strangers
/// replace each other's records here.
pub const NEWCOMERS: u32 = 256;
/// Admitted sources of all receivers of a host.
pub const ADMITTED: u32 = 4096;
/// Lanes of one admitted source among [`ARRIVALS`]. A receiver's sources (256 by default) can't
/// fill them. Further lanes stay newcomers.
pub const SOURCE_LANES_MAX: u32 = 7;
/// `group` in the [`ArrivalKey`] of a source, which has any number of lanes.
pub const ANY_GROUP: u32 = u32::MAX;

/// Elements of an LRU map that shall hold at least `number` on a host with `cpus` possible
/// processors. Each processor sets up to 128 free elements aside (`LOCAL_FREE_TARGET`,
/// kernel/bpf/bpf_lru_list.c), and another processor drops records before it takes those.
pub const fn lru_elements(number: u32, cpus: u32) -> u32 {
    number.saturating_add(128u32.saturating_mul(cpus))
}

/// A source's lanes with another lane. A word is their number in the lowest byte, then one group
/// per byte. Returns the same word if the lane is one of them, and `None` if there are
/// [`SOURCE_LANES_MAX`] others.
#[inline(always)]
pub const fn with_lane(lanes: u64, group: u8) -> Option<u64> {
    let number = lanes as u8 as u32;
    let mut i = 0;
    while i < SOURCE_LANES_MAX {
        let shift = u8::BITS * (1 + i);
        if i >= number {
            return Some((lanes + 1) | ((group as u64) << shift));
        }
        if (lanes >> shift) as u8 == group {
            return Some(lanes);
        }
        i += 1;
    }
    None
}
/// Slots that one call may record: the most packets that the kernel merges into a GRO buffer.
pub const RUN_MAX: u32 = 64;

/// A lane, as its receiver identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct ArrivalKey {
    /// The sender's address; IPv4 as `::ffff:a.b.c.d`.
    pub source: [u8; 16],
    /// The flow's secret.
    pub cookie: u32,
    /// The sender's port, host byte order.
    pub source_port: u16,
    /// The receiver's port, host byte order.
    pub local_port: u16,
    /// The group (8 bits used), or [`ANY_GROUP`].
    pub group: u32,
}

const _: () = assert!(size_of::<ArrivalKey>() == 28);

/// Packets of consecutive slots that arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first slot.
    pub slot: u32,
    /// The number of packets; at most [`RUN_MAX`] are recorded.
    pub packets: u32,
    /// The lane's epoch in which they left.
    pub epoch: u16,
    /// Whether they carry the ECN mark.
    pub marked: bool,
}

/// The memory of a lane's record, all zero at first.
pub trait ArrivalStore {
    /// The element at `index`, below [`ARRIVALS_LEN`].
    fn read(&self, index: usize) -> u64;

    /// Replaces the element `value` by `next(value)`, and returns both. Leaves the element
    /// unchanged if `next` returns `None`.
    fn update(&mut self, index: usize, next: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)>;
}

/// A record in one thread's own memory.
#[derive(Clone, Debug)]
pub struct Arrivals([u64; ARRIVALS_LEN]);

impl Default for Arrivals {
    fn default() -> Self {
        Self([0; ARRIVALS_LEN])
    }
}

impl ArrivalStore for Arrivals {
    fn read(&self, index: usize) -> u64 {
        self.0[index]
    }

    fn update(&mut self, index: usize, next: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        let old = self.0[index];
        let new = next(old)?;
        self.0[index] = new;
        Some((old, new))
    }
}

/// Records a run; returns how many of its slots were new.
#[inline(always)]
pub fn record(store: &mut impl ArrivalStore, run: &Run) -> u32 {
    let (mut slot, mut new) = (run.slot, 0);
    for bits in words_of(run) {
        let at = ack_ring::position(slot, ARRIVAL_WORDS) as usize;
        if let Some((before, _)) = store.update(at, |word| ack_ring::merged(word, slot, bits)) {
            new += (bits & !ack_ring::bits(before, slot)).count_ones();
        }
        slot = slot.wrapping_add(SLOTS_PER_WORD);
    }
    if new > 0 {
        let marked = if run.marked { new } else { 0 };
        store.update(cell_index(run.epoch), |cell| counted(cell, run.epoch, new, marked));
    }
    new
}

/// The delivery bits of a run in the words that it touches, at most three.
#[inline(always)]
const fn words_of(run: &Run) -> [u32; 3] {
    if run.packets == 0 {
        return [0; 3];
    }
    let packets = if run.packets < RUN_MAX { run.packets } else { RUN_MAX };
    let (ones, from) = (u64::MAX >> (RUN_MAX - packets), run.slot % SLOTS_PER_WORD);
    let (low, high) = (ones << from, (ones >> SLOTS_PER_WORD) << from >> SLOTS_PER_WORD);
    [low as u32, (low >> SLOTS_PER_WORD) as u32, high as u32]
}

/// The answer to a PROBE whose first slot is `slot`.
pub fn answer(store: &impl ArrivalStore, slot: u32) -> ProbeBody {
    let mut body = ProbeBody::default();
    answer_words(store, slot, |index, word| body.set_word(index, word));
    body
}

/// Gives the words of that answer, each with its index in the body.
#[inline(always)]
pub fn answer_words(store: &impl ArrivalStore, slot: u32, mut put: impl FnMut(usize, u32)) {
    for i in 0..PROBE_WORDS {
        let slot = slot.wrapping_add(i as u32 * SLOTS_PER_WORD);
        let at = ack_ring::position(slot, ARRIVAL_WORDS) as usize;
        put(i, ack_ring::bits(store.read(at), slot));
    }
    for i in 0..PROBE_EPOCHS {
        let [epoch, arrived, marked] = count_of(store.read(ARRIVAL_WORDS as usize + i)).words();
        let at = PROBE_WORDS + COUNT_WORDS * i;
        put(at, epoch);
        put(at + 1, arrived);
        put(at + 2, marked);
    }
}

/// The most packets that a cell counts. A cell is the epoch in 16 bits, then arrived and marked
/// packets in 24 bits each, so that all three change at once. 24 bits suffice for half a second at
/// 400 Gbit/s.
const COUNT_MAX: u32 = (1 << 24) - 1;

#[inline(always)]
const fn cell_index(epoch: u16) -> usize {
    ARRIVAL_WORDS as usize + epoch as usize % PROBE_EPOCHS
}

/// The cell after more arrivals; `None` if it counts a later epoch already.
#[inline(always)]
const fn counted(cell: u64, epoch: u16, arrived: u32, marked: u32) -> Option<u64> {
    let was = count_of(cell);
    let ahead = epoch.wrapping_sub(was.epoch);
    let (arrived, marked) = if cell != 0 && ahead == 0 {
        (was.arrived + arrived, was.marked + marked)
    } else if cell == 0 || ahead <= u16::MAX / 2 {
        (arrived, marked)
    } else {
        return None;
    };
    let arrived = if arrived < COUNT_MAX { arrived } else { COUNT_MAX };
    let marked = if marked < COUNT_MAX { marked } else { COUNT_MAX };
    Some((epoch as u64) << 48 | (arrived as u64) << 24 | marked as u64)
}

#[inline(always)]
const fn count_of(cell: u64) -> EpochArrivals {
    EpochArrivals {
        epoch: (cell >> 48) as u16,
        arrived: (cell >> 24) as u32 & COUNT_MAX,
        marked: cell as u32 & COUNT_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashSet};

    proptest! {
        // Against a set of slots and a table of counts, from anywhere in the sequence of slots.
        #[test]
        fn answer__has_the_recorded_slots_and_counts(
            start: u32,
            first_epoch: u16,
            runs in proptest::collection::vec((0u32..100, 0u32..60, 0u32..=RUN_MAX, 0u32..20, any::<bool>()), 1..80),
        ) {
            let mut arrivals = Arrivals::default();
            let (mut arrived, mut counts) = (HashSet::new(), BTreeMap::<u32, (u32, u32)>::new());
            // There is no lap before: `start` is the flow's first slot.
            let (mut head, mut epoch) = (0u32, 0u32);
            for (gap, back, packets, later, marked) in runs {
                head += gap;
                epoch += u32::from(later == 0);
                let from = head.saturating_sub(back);
                let run = Run {
                    slot: start.wrapping_add(from),
                    packets,
                    epoch: first_epoch.wrapping_add(epoch as u16),
                    marked,
                };
                let mut expected = 0;
                for slot in from..from + packets {
                    expected += u32::from(arrived.insert(slot));
                }
                prop_assert_eq!(record(&mut arrivals, &run), expected);
                if expected > 0 {
                    let count = counts.entry(epoch).or_default();
                    count.0 += expected;
                    count.1 += if marked { expected } else { 0 };
                }
                head = head.max(from + packets);
            }
            for base in (0..head + 64).step_by(128) {
                // PROBEs begin at multiples of 32 of the flow's slots.
                let slot = start.wrapping_add(base) & !31;
                let body = answer(&arrivals, slot);
                for (i, slot) in (0..256).map(|i| (i, slot.wrapping_add(i))) {
                    let known = arrived.contains(&slot.wrapping_sub(start));
                    let answered = body.word(i as usize / 32) >> (i % 32) & 1 == 1;
                    prop_assert_eq!(answered, known, "slot {}", slot.wrapping_sub(start));
                }
            }
            let body = answer(&arrivals, 0);
            for (&epoch, &(arrived, marked)) in counts.iter().rev().take(1) {
                let wire = first_epoch.wrapping_add(epoch as u16);
                let counted = body.epoch(usize::from(wire) % PROBE_EPOCHS);
                prop_assert_eq!(counted, Some(EpochArrivals { epoch: wire, arrived, marked }));
            }
        }

        // Against a list of groups.
        #[test]
        fn with_lane__keeps_the_first_lanes(groups in proptest::collection::vec(0u8..12, 0..40)) {
            let (mut lanes, mut model) = (0, Vec::new());
            for group in groups {
                let is_known = model.contains(&group);
                let next = with_lane(lanes, group);
                prop_assert_eq!(next.is_some(), is_known || model.len() < SOURCE_LANES_MAX as usize);
                prop_assert_eq!(next == Some(lanes), is_known);
                if let Some(next) = next.filter(|_| !is_known) {
                    model.push(group);
                    lanes = next;
                }
            }
        }

        // Any runs in any order: no slot is counted twice, and no more packets than were sent.
        #[test]
        fn record__counts_no_slot_twice(
            runs in proptest::collection::vec((any::<u32>(), any::<u32>(), any::<u16>(), any::<bool>()), 1..200),
        ) {
            let mut arrivals = Arrivals::default();
            for (slot, packets, epoch, marked) in runs {
                let run = Run { slot, packets, epoch, marked };
                prop_assert!(record(&mut arrivals, &run) <= RUN_MAX);
                prop_assert_eq!(record(&mut arrivals, &run), 0);
                let body = answer(&arrivals, slot & !31);
                for count in (0..PROBE_EPOCHS).filter_map(|i| body.epoch(i)) {
                    prop_assert!(count.marked <= count.arrived);
                }
            }
        }
    }

    #[test]
    fn record__forgets_a_lap_and_an_epoch_that_are_over() {
        let mut arrivals = Arrivals::default();
        let run = |slot, epoch| Run { slot, packets: 32, epoch, marked: false };
        let lap = ARRIVAL_WORDS * 32;
        assert_eq!(record(&mut arrivals, &run(lap, 8)), 32);
        assert_eq!(record(&mut arrivals, &run(0, 4)), 0, "an earlier lap");
        assert_eq!(record(&mut arrivals, &run(64, 4)), 32, "this word has no later lap yet");
        assert_eq!(answer(&arrivals, 0).word(0), 0);
        assert_eq!(answer(&arrivals, lap).word(0), u32::MAX);
        let counted = EpochArrivals { epoch: 8, arrived: 32, marked: 0 };
        assert_eq!(answer(&arrivals, 0).epoch(0), Some(counted), "epoch 4 is over");
    }

    #[test]
    fn counted__stops_at_the_maximum() {
        let cell = counted(0, 7, COUNT_MAX - 1, 3).unwrap();
        let cell = counted(cell, 7, 64, 64).unwrap();
        assert_eq!(count_of(cell), EpochArrivals { epoch: 7, arrived: COUNT_MAX, marked: 67 });
    }
}
