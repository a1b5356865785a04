//! Maps the memory of an eBPF array, shared with programs or with a library.

use memmap2::{MmapOptions, MmapRaw};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicU32, AtomicU64},
};

/// A mapped array of `entries` elements. Others change it at any time, so all access is atomic.
#[derive(Debug)]
pub struct MappedArray {
    memory: MmapRaw,
    stride: usize,
    entries: usize,
}

impl MappedArray {
    /// Maps an array whose elements take `value_size` bytes: a multiple of eight, to which the
    /// kernel rounds up.
    pub fn new(map: BorrowedFd<'_>, value_size: usize, entries: u32) -> io::Result<Self> {
        assert_eq!(value_size % 8, 0, "elements of a mapped array are whole words");
        let entries = entries as usize;
        let memory = MmapOptions::new().len(value_size * entries).map_raw(map.as_raw_fd())?;
        Ok(Self { memory, stride: value_size, entries })
    }

    /// The u64 at `offset` of an element.
    pub fn u64(&self, element: usize, offset: usize) -> &AtomicU64 {
        // SAFETY: inside the mapping (checked), aligned (checked; the mapping is page-aligned and
        // the stride a multiple of eight), alive as long as `self`, and only accessed atomically
        // from this side; eBPF writes whole aligned words.
        unsafe { AtomicU64::from_ptr(self.address(element, offset, size_of::<u64>()).cast()) }
    }

    /// The u32 at `offset` of an element.
    pub fn u32(&self, element: usize, offset: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.address(element, offset, size_of::<u32>()).cast()) }
    }

    fn address(&self, element: usize, offset: usize, size: usize) -> *mut u8 {
        assert!(
            element < self.entries && offset.is_multiple_of(size) && offset + size <= self.stride
        );
        // SAFETY: below the length of the mapping, as just asserted.
        unsafe { self.memory.as_mut_ptr().add(element * self.stride + offset) }
    }
}
