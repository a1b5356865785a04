//! A memory page that the daemon writes and a client reads: one [`LaneStatus`] per group of a flow.

use super::sealed_page::SealedPage;
use anyhow::Result;
use atp_common::maps::{GROUPS, LaneStatus};
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::Ordering::Relaxed,
};

/// The page of one flow.
pub struct StatusPage {
    page: SealedPage,
    /// The value of `closed` at the end.
    closed: u32,
}

impl StatusPage {
    /// A page of zeroes.
    pub fn new() -> Result<Self> {
        let page = SealedPage::new(c"atp-status", GROUPS * size_of::<LaneStatus>())?;
        Ok(Self { page, closed: LaneStatus::CLOSED })
    }

    /// Writes the status of `group`. A reader may see fields of two writes mixed. That is fine:
    /// each field is valid by itself, and readers use them for reports and for sizing buffers.
    pub fn write(&self, group: u8, status: LaneStatus) {
        const BYTES: usize = size_of::<LaneStatus>();
        let memory = self.page.words(usize::from(group) * BYTES, BYTES);
        let words: [u64; BYTES / 8] = bytemuck::cast(status);
        for (to, word) in memory.iter().zip(words) {
            to.store(word, Relaxed);
        }
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
        self.page.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap2::MmapOptions;
    use std::{fs::File, mem::offset_of};

    const CLOSED_AT: usize = 255 * size_of::<LaneStatus>() + offset_of!(LaneStatus, closed);

    #[test]
    fn drop__closes_every_group() {
        let page = StatusPage::new().unwrap();
        page.write(255, LaneStatus { rate_bytes_per_s: 7, ..LaneStatus::default() });
        let theirs = File::from(page.as_fd().try_clone_to_owned().unwrap());
        // SAFETY: a read-only mapping of a sealed memfd; only compared.
        let map = unsafe { MmapOptions::new().map(&theirs) }.unwrap();
        assert_eq!(map[255 * size_of::<LaneStatus>()], 7);
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
