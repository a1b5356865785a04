//! Memory that the daemon writes and its clients can only read.

use anyhow::{Context, Result};
use memmap2::{MmapOptions, MmapRaw};
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    ffi::CStr,
    fs::File,
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd},
};

/// A table of `T`, mapped for writing; its descriptor is sealed against every new writer.
pub struct SealedMemory<T> {
    file: File,
    map: MmapRaw,
    len: usize,
    element: PhantomData<T>,
}

impl<T: bytemuck::Pod> SealedMemory<T> {
    /// A table of `len` elements, all zero.
    pub fn new(name: &CStr, len: usize) -> Result<Self> {
        let fd = memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)
            .context("can't create shared memory")?;
        let (file, bytes) = (File::from(fd), len * size_of::<T>());
        file.set_len(bytes as u64).context("can't size shared memory")?;
        let map =
            MmapOptions::new().len(bytes).map_raw(&file).context("can't map shared memory")?;
        // This mapping stays writable. A client with the descriptor can't write, shrink or unseal
        // the memory.
        let seals = SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE)
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).context("can't seal shared memory")?;
        Ok(Self { file, map, len, element: PhantomData })
    }

    /// Writes an element. A reader may see fields of two writes mixed.
    ///
    /// # Panics
    /// If `index` is not below the length.
    pub fn write(&self, index: usize, value: T) {
        assert!(index < self.len);
        let element = self.map.as_mut_ptr().cast::<T>().wrapping_add(index);
        // SAFETY: the mapping holds `len` elements and is page-aligned, `index` was just checked,
        // and no reference into it is ever made: all access is by volatile copies.
        unsafe { element.write_volatile(value) }
    }
}

impl<T> AsFd for SealedMemory<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
