//! What arrived of a lane at its receiver, kept until its sender asks: a ring of delivery bits like
//! [`super::ack_ring`], and counts of the lane's last epochs.
//!
//! One law, two bodies: eBPF keeps it in a map by [`ArrivalKey`] and writes it with atomic operations,
//! a receiving library without a daemon in its own memory.

use super::ack_ring::{self, SLOTS_PER_WORD};
use crate::wire::{EpochArrivals, PROBE_EPOCHS, PROBE_WORDS, ProbeBody};
use bytemuck::{Pod, Zeroable};

/// Words of the ring: 8,192 slots, 32 questions' worth.
pub const ARRIVAL_WORDS: u32 = 256;
/// Elements: the ring's words, then one count for each of the last epochs.
pub const ARRIVALS_LEN: usize = ARRIVAL_WORDS as usize + PROBE_EPOCHS;
/// Lanes of other hosts that a receiving host remembers, 2 KiB each; beyond that the one that was heard
/// of least lately is forgotten, which its sender takes for losses.
pub const ARRIVALS: u32 = 2048;
/// Slots that one call may record: as many packets as the kernel merges.
pub const RUN_MAX: u32 = 64;

/// Which lane, seen from its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct ArrivalKey {
    /// The sender's address; IPv4 as `::ffff:a.b.c.d`.
    pub source: [u8; 16],
    /// The flow's secret.
    pub cookie: u32,
    /// The sender's port, host byte order.
    pub source_port: u16,
    /// The receiver's, likewise.
    pub local_port: u16,
    /// The group (8 bits used).
    pub group: u32,
}

const _: () = assert!(size_of::<ArrivalKey>() == 28);

/// Packets of consecutive slots that arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first slot.
    pub slot: u32,
    /// How many; at most [`RUN_MAX`] are recorded.
    pub packets: u32,
    /// The lane's epoch in which they left.
    pub epoch: u16,
    /// Whether they carry the ECN mark.
    pub marked: bool,
}

/// Where the elements live. All zero at first.
pub trait Memory {
    /// The element at `index`, below [`ARRIVALS_LEN`].
    fn read(&self, index: usize) -> u64;

    /// Replaces the element by `next` of it, and returns what it was and what it became; leaves it
    /// alone where `next` says `None`.
    fn update(&mut self, index: usize, next: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)>;
}

/// In one thread's own memory.
#[derive(Clone, Debug)]
pub struct Arrivals([u64; ARRIVALS_LEN]);

impl Default for Arrivals {
    fn default() -> Self {
        Self([0; ARRIVALS_LEN])
    }
}

impl Memory for Arrivals {
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
pub fn record(memory: &mut impl Memory, run: &Run) -> u32 {
    let mut left = if run.packets < RUN_MAX { run.packets } else { RUN_MAX };
    let (mut slot, mut new) = (run.slot, 0);
    // Bounded by what the verifier can see: the words that a run may touch.
    for _ in 0..RUN_MAX / SLOTS_PER_WORD + 1 {
        if left == 0 {
            break;
        }
        let room = SLOTS_PER_WORD - slot % SLOTS_PER_WORD;
        let n = if left < room { left } else { room };
        let bits = (u32::MAX >> (SLOTS_PER_WORD - n)) << (slot % SLOTS_PER_WORD);
        let at = ack_ring::position(slot, ARRIVAL_WORDS) as usize;
        if let Some((before, after)) = memory.update(at, |word| ack_ring::merged(word, slot, bits))
        {
            let known = ack_ring::bits(before, slot) & bits;
            new += (ack_ring::bits(after, slot) & bits & !known).count_ones();
        }
        slot = slot.wrapping_add(n);
        left -= n;
    }
    if new > 0 {
        let marked = if run.marked { new } else { 0 };
        memory.update(cell_index(run.epoch), |cell| counted(cell, run.epoch, new, marked));
    }
    new
}

/// Answers the question that begins with `slot`.
pub fn answer(memory: &impl Memory, slot: u32) -> ProbeBody {
    let mut body = ProbeBody::default();
    fill_in(memory, slot, &mut body);
    body
}

/// The same, where the answer is to stand.
#[inline(always)]
pub fn fill_in(memory: &impl Memory, slot: u32, body: &mut ProbeBody) {
    for i in 0..PROBE_WORDS {
        let slot = slot.wrapping_add(i as u32 * SLOTS_PER_WORD);
        let at = ack_ring::position(slot, ARRIVAL_WORDS) as usize;
        body.set_word(i, ack_ring::bits(memory.read(at), slot));
    }
    for i in 0..PROBE_EPOCHS {
        body.set_epoch(i, count_of(memory.read(ARRIVAL_WORDS as usize + i)));
    }
}

/// A cell is the epoch in 16 bits, then arrived and marked packets in 24 each, so that all three change
/// at once. 24 bits are an epoch of half a second at 400 Gbit/s; more stays at the most.
const COUNT_MAX: u32 = (1 << 24) - 1;

#[inline(always)]
const fn cell_index(epoch: u16) -> usize {
    ARRIVAL_WORDS as usize + epoch as usize % PROBE_EPOCHS
}

/// The cell with so many more; `None` if it counts a later epoch already.
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
        fn answer__says_what_was_recorded(
            start: u32,
            first_epoch: u16,
            runs in proptest::collection::vec((0u32..100, 0u32..60, 0u32..=RUN_MAX, 0u32..20, any::<bool>()), 1..80),
        ) {
            let mut memory = Arrivals::default();
            let (mut arrived, mut counts) = (HashSet::new(), BTreeMap::<u32, (u32, u32)>::new());
            // The lap before begins nowhere: `start` is the flow's first slot.
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
                prop_assert_eq!(record(&mut memory, &run), expected);
                if expected > 0 {
                    let count = counts.entry(epoch).or_default();
                    count.0 += expected;
                    count.1 += if marked { expected } else { 0 };
                }
                head = head.max(from + packets);
            }
            for base in (0..head + 64).step_by(128) {
                // Questions begin at multiples of 32 of the flow's slots.
                let slot = start.wrapping_add(base) & !31;
                let body = answer(&memory, slot);
                for (i, slot) in (0..256).map(|i| (i, slot.wrapping_add(i))) {
                    let known = arrived.contains(&slot.wrapping_sub(start));
                    let said = body.word(i as usize / 32) >> (i % 32) & 1 == 1;
                    prop_assert_eq!(said, known, "slot {}", slot.wrapping_sub(start));
                }
            }
            let body = answer(&memory, 0);
            for (&epoch, &(arrived, marked)) in counts.iter().rev().take(1) {
                let wire = first_epoch.wrapping_add(epoch as u16);
                let said = body.epoch(usize::from(wire) % PROBE_EPOCHS);
                prop_assert_eq!(said, Some(EpochArrivals { epoch: wire, arrived, marked }));
            }
        }

        // Whatever comes, in whatever order: nothing is counted twice, and no more than was sent.
        #[test]
        fn record__counts_no_slot_twice(
            runs in proptest::collection::vec((any::<u32>(), any::<u32>(), any::<u16>(), any::<bool>()), 1..200),
        ) {
            let mut memory = Arrivals::default();
            for (slot, packets, epoch, marked) in runs {
                let run = Run { slot, packets, epoch, marked };
                prop_assert!(record(&mut memory, &run) <= RUN_MAX);
                prop_assert_eq!(record(&mut memory, &run), 0);
                let body = answer(&memory, slot & !31);
                for count in (0..PROBE_EPOCHS).filter_map(|i| body.epoch(i)) {
                    prop_assert!(count.marked <= count.arrived);
                }
            }
        }
    }

    #[test]
    fn record__forgets_a_lap_and_an_epoch_that_are_over() {
        let mut memory = Arrivals::default();
        let run = |slot, epoch| Run { slot, packets: 32, epoch, marked: false };
        let lap = ARRIVAL_WORDS * 32;
        assert_eq!(record(&mut memory, &run(lap, 8)), 32);
        assert_eq!(record(&mut memory, &run(0, 4)), 0, "an earlier lap");
        assert_eq!(record(&mut memory, &run(64, 4)), 32, "no news of this word's lap yet");
        assert_eq!(answer(&memory, 0).word(0), 0);
        assert_eq!(answer(&memory, lap).word(0), u32::MAX);
        let counted = EpochArrivals { epoch: 8, arrived: 32, marked: 0 };
        assert_eq!(answer(&memory, 0).epoch(0), Some(counted), "epoch 4 is over");
    }

    #[test]
    fn counted__stays_at_the_most() {
        let cell = counted(0, 7, COUNT_MAX - 1, 3).unwrap();
        let cell = counted(cell, 7, 64, 64).unwrap();
        assert_eq!(count_of(cell), EpochArrivals { epoch: 7, arrived: COUNT_MAX, marked: 67 });
    }
}
