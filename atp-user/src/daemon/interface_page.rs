//! The page from which receivers know the interfaces whose packets the programs acknowledge.

use super::sealed_page::SealedPage;
use anyhow::Result;
use approxlib::control::INTERFACE_WORDS;
use std::{
    collections::BTreeSet,
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

/// The number of covered interfaces, then their indices. All receivers share it.
pub struct InterfacePage {
    page: SealedPage,
    written: BTreeSet<u32>,
}

impl InterfacePage {
    /// A page without interfaces.
    pub fn new() -> Result<Self> {
        let page = SealedPage::new(c"atp-interfaces", INTERFACE_WORDS * size_of::<u32>())?;
        Ok(Self { page, written: BTreeSet::new() })
    }

    /// Writes the interfaces if they changed. Receivers acknowledge packets of an interface beyond
    /// the page's length themselves.
    ///
    /// While the page changes, a reader sees no interfaces: two ACKs for a packet do less harm
    /// than none.
    pub fn write(&mut self, interfaces: &BTreeSet<u32>) {
        if *interfaces == self.written {
            return;
        }
        let mut indices = [0; INTERFACE_WORDS];
        let count = interfaces.len().min(INTERFACE_WORDS - 1);
        indices[0] = count as u32;
        for (to, interface) in indices[1..].iter_mut().zip(interfaces) {
            *to = *interface;
        }
        let words = self.words();
        words[0].store(0, Release);
        let pairs: &[u64] = bytemuck::cast_slice(&indices);
        for (to, pair) in words.iter().zip(pairs).skip(1) {
            to.store(*pair, Relaxed);
        }
        words[0].store(pairs[0], Release);
        self.written.clone_from(interfaces);
    }

    fn words(&self) -> &[AtomicU64] {
        self.page.words(0, INTERFACE_WORDS * size_of::<u32>())
    }
}

/// From now on receivers acknowledge by themselves.
impl Drop for InterfacePage {
    fn drop(&mut self) {
        self.words()[0].store(0, Release);
    }
}

impl AsFd for InterfacePage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.page.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap2::MmapOptions;
    use std::fs::File;

    #[test]
    fn write__readers_see_the_present_interfaces() {
        let mut page = InterfacePage::new().unwrap();
        let theirs = File::from(page.as_fd().try_clone_to_owned().unwrap());
        // SAFETY: a read-only mapping of a sealed memfd; only compared.
        let map = unsafe { MmapOptions::new().map(&theirs) }.unwrap();
        let words = |n: usize| bytemuck::cast_slice::<u8, u32>(&map[..4 * n]).to_vec();
        page.write(&[7, 9].into());
        assert_eq!(words(3), [2, 7, 9]);
        page.write(&[9].into());
        assert_eq!(words(2), [1, 9]);
        page.write(&(0..2 * INTERFACE_WORDS as u32).collect());
        assert_eq!(words(1), [INTERFACE_WORDS as u32 - 1]);
        drop(page);
        assert_eq!(words(1), [0]);
    }
}
