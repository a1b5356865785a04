//! A memory page that the daemon writes and a client reads: one [`LaneStatus`] per group of a flow.

use super::sealed_page::SealedPage;
use anyhow::Result;
use atp_common::maps::{GROUPS, LaneStatus};
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::Ordering::Relaxed,
};

/// The page of one flow.
pub struct StatusPage(SealedPage);

impl StatusPage {
    /// A page of zeroes.
    pub fn new() -> Result<Self> {
        SealedPage::new(c"atp-status", GROUPS * size_of::<LaneStatus>()).map(Self)
    }

    /// Writes the status of `group`. A reader may see fields of two writes mixed. That is fine:
    /// each field is valid by itself, and readers use them for reports and for sizing buffers.
    pub fn write(&self, group: u8, status: LaneStatus) {
        const BYTES: usize = size_of::<LaneStatus>();
        let memory = self.0.words(usize::from(group) * BYTES, BYTES);
        let words: [u64; BYTES / 8] = bytemuck::cast(status);
        for (to, word) in memory.iter().zip(words) {
            to.store(word, Relaxed);
        }
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
        self.0.as_fd()
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
}
