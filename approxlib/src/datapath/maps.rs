//! Memory shared with the daemon and its programs. Every access is one volatile copy, because the
//! other side may write or read at any time.

use crate::control::INTERFACE_WORDS;
use atp_common::maps::{ANSWER_WORDS, GROUPS, GroupProgress, LaneStatus, RING_TAIL_WORDS};
use atp_proto::AckRing;
use memmap2::{MmapOptions, MmapRaw};
use std::{io, os::fd::OwnedFd};

/// A table of `len` elements of `T` in a mapping.
struct Table<T> {
    map: MmapRaw,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Copy> Table<T> {
    fn read_only(fd: &OwnedFd, len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(len * size_of::<T>()).map_raw_read_only(fd)?;
        Ok(Self { map, len, element: std::marker::PhantomData })
    }

    fn writable(fd: &OwnedFd, len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(len * size_of::<T>()).map_raw(fd)?;
        Ok(Self { map, len, element: std::marker::PhantomData })
    }

    fn read(&self, index: usize) -> T {
        assert!(index < self.len);
        let element = self.map.as_ptr().cast::<T>().wrapping_add(index);
        // SAFETY: the mapping holds `len` elements, is page-aligned, and `index` was just checked;
        // every `T` here is plain old data, valid for any bytes; no reference is made.
        unsafe { element.read_volatile() }
    }

    /// Only for tables from `writable`.
    fn write(&self, index: usize, value: T) {
        assert!(index < self.len);
        let element = self.map.as_mut_ptr().cast::<T>().wrapping_add(index);
        // SAFETY: as in `read`, and the mapping is writable.
        unsafe { element.write_volatile(value) }
    }
}

/// The flow's ring of delivery bits, and after it the numbers of answered probes and the count of
/// packets seen. The daemon's programs write them.
pub struct SharedAckRing(Table<u64>);

impl SharedAckRing {
    pub fn map(fd: &OwnedFd, words: u32) -> io::Result<Self> {
        if !words.is_power_of_two() {
            return Err(io::Error::other("the ACK ring's size is not a power of two"));
        }
        Table::read_only(fd, (words + RING_TAIL_WORDS) as usize).map(Self)
    }

    pub fn words(&self) -> u32 {
        self.0.len as u32 - RING_TAIL_WORDS
    }

    /// Whether the answer to probe `number` has arrived.
    pub fn is_answered(&self, number: u32) -> bool {
        let position = self.words() + number % ANSWER_WORDS;
        self.0.read(position as usize) == u64::from(number) + 1
    }

    /// A count that changes whenever the egress program sees packets of this flow.
    pub fn seen(&self) -> u64 {
        self.0.read(self.0.len - 1)
    }
}

impl AckRing for SharedAckRing {
    fn word(&self, position: u32) -> u64 {
        self.0.read(position as usize)
    }
}

/// The progress of each group, written for the daemon.
pub struct ProgressPage(Table<GroupProgress>);

impl ProgressPage {
    pub fn map(fd: &OwnedFd) -> io::Result<Self> {
        Table::writable(fd, GROUPS).map(Self)
    }

    pub fn write(&self, group: u8, progress: GroupProgress) {
        self.0.write(usize::from(group), progress);
    }
}

/// The interfaces that the daemon's programs cover, written by the daemon: their number, then their
/// indices.
pub struct InterfacePage(Table<u32>);

impl InterfacePage {
    pub fn map(fd: &OwnedFd) -> io::Result<Self> {
        Table::read_only(fd, INTERFACE_WORDS).map(Self)
    }

    /// Whether the programs see packets that arrive over this interface.
    pub fn covers(&self, interface: u32) -> bool {
        let interfaces = (self.0.read(0) as usize).min(INTERFACE_WORDS - 1);
        (1..=interfaces).any(|index| self.0.read(index) == interface)
    }
}

/// The status of each group's lane, written by the daemon.
pub struct StatusPage(Table<LaneStatus>);

impl StatusPage {
    pub fn map(fd: &OwnedFd) -> io::Result<Self> {
        Table::read_only(fd, GROUPS).map(Self)
    }

    pub fn read(&self, group: u8) -> LaneStatus {
        self.0.read(usize::from(group))
    }
}
