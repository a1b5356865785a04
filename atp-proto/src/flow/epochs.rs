//! The counters of a lane: packets sent and acknowledged, by epoch.

use crate::AckRing;
use atp_common::{
    laws::lane::{Counters, EPOCHS, EpochCount},
    maps::ack_ring,
};
use std::sync::Arc;

/// A ring of delivery bits that others may still write, and its number of words.
#[derive(Clone)]
pub struct SharedRing {
    ring: Arc<dyn AckRing + Send + Sync>,
    words: u32,
}

impl SharedRing {
    /// A ring of `words` words.
    pub fn new(ring: Arc<dyn AckRing + Send + Sync>, words: u32) -> Self {
        Self { ring, words }
    }
}

impl AckRing for SharedRing {
    fn word(&self, position: u32) -> u64 {
        self.ring.word(position)
    }
}

/// A ring of cells, one per epoch.
pub struct EpochRing {
    cells: [Cell; EPOCHS],
    /// Delivery bits, which programs that a daemon left behind may still write.
    ring: Option<SharedRing>,
}

#[derive(Default)]
struct Cell {
    epoch: u16,
    count: EpochCount,
    /// The slots of its packets, if there is a ring in which to look them up.
    slots: Vec<u32>,
}

impl EpochRing {
    pub fn new(ring: Option<SharedRing>) -> Self {
        Self { cells: Default::default(), ring }
    }

    /// Counts a packet that leaves in `epoch`.
    pub fn sent(&mut self, epoch: u16, slot: u32, bytes: u32) {
        let has_ring = self.ring.is_some();
        let Some(cell) = self.cell(epoch) else { return };
        if has_ring {
            cell.slots.push(slot);
        }
        cell.count.sent_packets += 1;
        cell.count.sent_bytes += u64::from(bytes);
    }

    /// Takes back the last packet counted in `epoch`: it did not leave.
    pub fn take_back(&mut self, epoch: u16, slot: u32, bytes: u32) {
        let Some(cell) = self.cell(epoch) else { return };
        cell.slots.pop_if(|last| *last == slot);
        cell.count.sent_packets = cell.count.sent_packets.saturating_sub(1);
        cell.count.sent_bytes = cell.count.sent_bytes.saturating_sub(u64::from(bytes));
    }

    /// Counts an ACK that names `epoch`, for a packet with or without the ECN mark. Ignores epochs
    /// whose cell is reused already.
    pub fn acked(&mut self, epoch: u16, marked: bool) {
        if let Some(cell) = self.cell(epoch) {
            cell.count.acked_packets += 1;
            cell.count.marked_packets += u64::from(marked);
        }
    }

    fn cell(&mut self, epoch: u16) -> Option<&mut Cell> {
        let cell = &mut self.cells[usize::from(epoch) % EPOCHS];
        (cell.epoch == epoch).then_some(cell)
    }

    fn acked_in_ring(&self, cell: &Cell) -> u64 {
        let Some(ring) = &self.ring else { return 0 };
        let acked = cell.slots.iter().filter(|&&slot| {
            ack_ring::contains(ring.word(ack_ring::position(slot, ring.words)), slot)
        });
        acked.count() as u64
    }
}

impl Counters for EpochRing {
    fn read(&self, epoch: u16) -> EpochCount {
        let cell = &self.cells[usize::from(epoch) % EPOCHS];
        if cell.epoch != epoch {
            return EpochCount::default();
        }
        let acked_packets = cell.count.acked_packets.max(self.acked_in_ring(cell));
        EpochCount { acked_packets, ..cell.count }
    }

    fn open(&mut self, epoch: u16) {
        self.cells[usize::from(epoch) % EPOCHS] = Cell { epoch, ..Cell::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read__counts_the_bits_that_programs_wrote_into_the_ring() {
        // The second lap of a ring of 128 slots: slots 130 to 137 without 132.
        let word = (130..138)
            .filter(|slot| *slot != 132)
            .fold(0, |word, slot| ack_ring::acknowledged(word, slot).unwrap());
        struct First(u64);
        impl AckRing for First {
            fn word(&self, position: u32) -> u64 {
                if position == 0 { self.0 } else { 0 }
            }
        }
        let mut ring = EpochRing::new(Some(SharedRing::new(Arc::new(First(word)), 4)));
        ring.open(5);
        for slot in 128..136 {
            ring.sent(5, slot, 100);
        }
        assert_eq!(ring.read(5).acked_packets, 5);
    }

    #[test]
    fn read__counts_only_packets_of_the_epoch() {
        let mut ring = EpochRing::new(None);
        ring.open(1);
        for slot in 0..10 {
            ring.sent(1, slot, 100);
        }
        ring.take_back(1, 9, 100);
        for acked in 0..7 {
            ring.acked(1, acked < 2);
        }
        ring.acked(17, true); // Not open.
        let expected =
            EpochCount { sent_packets: 9, sent_bytes: 900, acked_packets: 7, marked_packets: 2 };
        assert_eq!(ring.read(1), expected);
        ring.open(17);
        assert_eq!(ring.read(1), EpochCount::default());
        assert_eq!(ring.read(17), EpochCount::default());
    }
}
