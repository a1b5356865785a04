//! A memory page that the daemon writes and a client reads: one [`LaneStatus`] per group of a flow.

use anyhow::{Context, Result};
use atp_common::maps::{GROUPS, LaneStatus};
use memmap2::{MmapOptions, MmapRaw};
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
};

/// The page, mapped for writing; its descriptor is sealed against every new writer.
pub struct StatusPage {
    file: File,
    page: MmapRaw,
}

impl StatusPage {
    const BYTES: usize = GROUPS * size_of::<LaneStatus>();

    /// A page of zeroes.
    pub fn new() -> Result<Self> {
        let fd = memfd_create(c"atp-status", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)
            .context("can't create a status page")?;
        let file = File::from(fd);
        file.set_len(Self::BYTES as u64).context("can't size a status page")?;
        let page = MmapOptions::new()
            .len(Self::BYTES)
            .map_raw(&file)
            .context("can't map a status page")?;
        // This mapping stays writable. A client with the descriptor can't write, shrink or unseal
        // the page.
        let seals = SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE)
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).context("can't seal a status page")?;
        Ok(Self { file, page })
    }

    /// Writes the status of `group`. A reader may see fields of two writes mixed. That is fine:
    /// each field is valid by itself, and readers use them for reports and for sizing buffers.
    pub fn write(&self, group: u8, status: LaneStatus) {
        let entry = self.page.as_mut_ptr().cast::<LaneStatus>().wrapping_add(usize::from(group));
        // SAFETY: the mapping holds GROUPS entries and is page-aligned, `group` is below GROUPS,
        // and no reference into it is ever made: all access is by volatile copies.
        unsafe { entry.write_volatile(status) }
    }
}

/// Tells the library that its lanes are closed.
impl Drop for StatusPage {
    fn drop(&mut self) {
        for group in 0..=u8::MAX {
            self.write(group, LaneStatus { closed: 1, ..LaneStatus::default() });
        }
    }
}

impl AsFd for StatusPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{mem::offset_of, os::unix::fs::FileExt};

    const CLOSED_AT: usize = 255 * size_of::<LaneStatus>() + offset_of!(LaneStatus, closed);

    #[test]
    fn new__others_can_read_but_not_write() {
        let page = StatusPage::new().unwrap();
        page.write(255, LaneStatus { rate_bytes_per_s: 7, ..LaneStatus::default() });
        let theirs = File::from(page.as_fd().try_clone_to_owned().unwrap());
        // SAFETY: a read-only mapping of a sealed memfd; only compared.
        let map = unsafe { MmapOptions::new().map(&theirs) }.unwrap();
        assert_eq!(map[255 * size_of::<LaneStatus>()], 7);
        assert!(theirs.write_at(&[1], 0).is_err());
        assert!(theirs.set_len(0).is_err());
        assert!(MmapOptions::new().map_raw(&theirs).is_err());
        assert_eq!(map[CLOSED_AT], 0);
        drop(page);
        assert_eq!(map[CLOSED_AT], 1);
    }
}
