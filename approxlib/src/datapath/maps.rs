//! Memory shared with the daemon and its programs. Every access is one volatile copy, because the
//! other side may write or read at any time.

use crate::control::INTERFACE_WORDS;
use atp_common::{
    maps::{
        ANSWER_WORDS, ArrivingLane, ArrivingLanes, GROUPS, GroupProgress, LaneStatus,
        RECEIVER_LANES, RING_TAIL_WORDS, ReceivedAdvice,
    },
    wire::Advice,
};
use atp_proto::AckRing;
use memmap2::{MmapOptions, MmapRaw};
use std::{
    io,
    mem::offset_of,
    os::fd::OwnedFd,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

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

/// The progress of each group and the advice to its lane, written for the daemon.
pub struct ProgressPage {
    progress: Table<GroupProgress>,
    /// The advice to each lane, in the memory of the progress, behind it. The elements have the
    /// same length.
    advice: Table<ReceivedAdvice>,
}

impl ProgressPage {
    pub fn map(fd: &OwnedFd) -> io::Result<Self> {
        let (progress, advice) = (Table::writable(fd, GROUPS)?, Table::writable(fd, 2 * GROUPS)?);
        Ok(Self { progress, advice })
    }

    pub fn write(&self, group: u8, progress: GroupProgress) {
        self.progress.write(usize::from(group), progress);
    }

    pub fn write_advice(&self, group: u8, advice: ReceivedAdvice) {
        self.advice.write(GROUPS + usize::from(group), advice);
    }
}

/// The lanes that arrive for a receiver, written for the daemon, and the daemon's advice to them.
pub struct ArrivingPage(MmapRaw);

impl ArrivingPage {
    pub fn map(fd: &OwnedFd) -> io::Result<Self> {
        MmapOptions::new().len(RECEIVER_LANES * size_of::<ArrivingLane>()).map_raw(fd).map(Self)
    }

    /// Writes what the library says of a lane.
    pub fn write(&self, element: usize, lane: &ArrivingLane) {
        let number = self.u32(element, offset_of!(ArrivingLane, number));
        number.store(0, Release);
        let words: &[u64] = bytemuck::cast_slice(bytemuck::bytes_of(lane));
        for (at, word) in words.iter().enumerate().take(LANE_WORDS) {
            self.u64(element, at * size_of::<u64>()).store(*word, Relaxed);
        }
        number.store(lane.number, Release);
        self.u64(0, offset_of!(ArrivingLanes, changes)).fetch_add(1, Release);
    }

    /// The advice to the lane with this number, if the daemon has written any.
    pub fn advice(&self, element: usize, number: u32) -> Option<Advice> {
        let advised = self.u32(element, offset_of!(ArrivingLane, advised)).load(Acquire);
        let advice = self.u32(element, offset_of!(ArrivingLane, advice)).load(Relaxed);
        (advised == number).then(|| Advice::from_wire(advice))
    }

    /// Whether the daemon has to be woken to look at arrivals.
    pub fn is_asleep(&self) -> bool {
        self.u64(0, offset_of!(ArrivingLanes, asleep)).load(Relaxed) != 0
    }

    fn u64(&self, element: usize, offset: usize) -> &AtomicU64 {
        assert!(element < RECEIVER_LANES && offset + size_of::<u64>() <= size_of::<ArrivingLane>());
        let at = self.0.as_mut_ptr().wrapping_add(element * size_of::<ArrivingLane>() + offset);
        // SAFETY: inside the mapping (checked), aligned (elements and offsets are whole words), as
        // long-lived as `self`, and only accessed atomically from this side.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    fn u32(&self, element: usize, offset: usize) -> &AtomicU32 {
        assert!(element < RECEIVER_LANES && offset + size_of::<u32>() <= size_of::<ArrivingLane>());
        let at = self.0.as_mut_ptr().wrapping_add(element * size_of::<ArrivingLane>() + offset);
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(at.cast()) }
    }
}

/// The words of an element that name its lane.
const LANE_WORDS: usize = offset_of!(ArrivingLane, reserved) / size_of::<u64>();

const _: () = assert!(LANE_WORDS == 3);

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
