//! A memory page that the daemon writes and a client reads: one [`LaneStatus`] per group of a flow.

use super::sealed_memory::SealedMemory;
use anyhow::Result;
use atp_common::maps::{GROUPS, LaneStatus};
use std::os::fd::{AsFd, BorrowedFd};

/// The page of one flow.
pub struct StatusPage {
    memory: SealedMemory<LaneStatus>,
    /// The value of `closed` at the end.
    closed: u32,
}

impl StatusPage {
    /// A page of zeroes.
    pub fn new() -> Result<Self> {
        let memory = SealedMemory::new(c"atp-status", GROUPS)?;
        Ok(Self { memory, closed: LaneStatus::CLOSED })
    }

    /// Writes the status of `group`. A reader may see fields of two writes mixed. That is fine:
    /// each field is valid by itself, and readers use them for reports and for sizing buffers.
    pub fn write(&self, group: u8, status: LaneStatus) {
        self.memory.write(usize::from(group), status);
    }

    /// Tells the library that an operator ended the job, so that it doesn't register the flow
    /// again.
    pub fn close_by_operator(&mut self) {
        self.closed = LaneStatus::CLOSED_BY_OPERATOR;
        self.write_closed();
    }

    fn write_closed(&self) {
        for group in 0..=u8::MAX {
            self.write(group, LaneStatus { closed: self.closed, ..LaneStatus::default() });
        }
    }
}

/// Tells the library that its lanes are closed.
impl Drop for StatusPage {
    fn drop(&mut self) {
        self.write_closed();
    }
}

impl AsFd for StatusPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap2::MmapOptions;
    use std::{fs::File, mem::offset_of, os::unix::fs::FileExt};

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

    #[test]
    fn close_by_operator__lasts_until_the_end() {
        let mut page = StatusPage::new().unwrap();
        let theirs = File::from(page.as_fd().try_clone_to_owned().unwrap());
        // SAFETY: a read-only mapping of a sealed memfd; only compared.
        let map = unsafe { MmapOptions::new().map(&theirs) }.unwrap();
        page.close_by_operator();
        assert_eq!(map[CLOSED_AT], 2);
        drop(page);
        assert_eq!(map[CLOSED_AT], 2);
    }
}
