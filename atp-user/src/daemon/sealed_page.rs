//! Memory that the daemon writes and that others, with its descriptor, can only read.

use anyhow::{Context, Result};
use memmap2::{MmapOptions, MmapRaw};
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    ffi::CStr,
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::AtomicU64,
};

/// A memfd, mapped for writing; its descriptor is sealed against every new writer.
pub struct SealedPage {
    file: File,
    memory: MmapRaw,
}

impl SealedPage {
    /// `bytes` of zeroes. `name` is for `/proc`.
    pub fn new(name: &CStr, bytes: usize) -> Result<Self> {
        let what = || name.to_string_lossy();
        let fd = memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)
            .with_context(|| format!("can't create the memory of {}", what()))?;
        let file = File::from(fd);
        file.set_len(bytes as u64)
            .with_context(|| format!("can't size the memory of {}", what()))?;
        let memory = MmapOptions::new()
            .len(bytes)
            .map_raw(&file)
            .with_context(|| format!("can't map the memory of {}", what()))?;
        // This mapping stays writable. A client with the descriptor can't write, shrink or unseal
        // the memory.
        let seals = SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE)
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))
            .with_context(|| format!("can't seal the memory of {}", what()))?;
        Ok(Self { file, memory })
    }

    /// The `bytes` at `offset`, both multiples of eight, as words.
    pub fn words(&self, offset: usize, bytes: usize) -> &[AtomicU64] {
        const WORD: usize = size_of::<AtomicU64>();
        assert!(offset.is_multiple_of(WORD) && offset + bytes <= self.memory.len());
        // SAFETY: inside the mapping and aligned (checked; the mapping is page-aligned), alive as
        // long as `self`, and only accessed atomically from this process.
        unsafe {
            let start = self.memory.as_mut_ptr().add(offset).cast::<AtomicU64>();
            std::slice::from_raw_parts(start, bytes / WORD)
        }
    }
}

impl AsFd for SealedPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::FileExt, sync::atomic::Ordering::Relaxed};

    #[test]
    fn new__others_can_read_but_not_write() {
        let page = SealedPage::new(c"atp-test", 16_384).unwrap();
        page.words(16_376, 8)[0].store(7, Relaxed);
        let theirs = File::from(page.as_fd().try_clone_to_owned().unwrap());
        // SAFETY: a read-only mapping of a sealed memfd; only compared.
        let map = unsafe { MmapOptions::new().map(&theirs) }.unwrap();
        assert_eq!(map[16_376], 7);
        assert!(theirs.write_at(&[1], 0).is_err());
        assert!(theirs.set_len(0).is_err());
        assert!(MmapOptions::new().map_raw(&theirs).is_err());
    }
}
