//! The page from which receivers know the interfaces whose packets the programs acknowledge.

use super::sealed_memory::SealedMemory;
use anyhow::Result;
use approxlib::control::INTERFACE_WORDS;
use std::os::fd::{AsFd, BorrowedFd};

/// The number of covered interfaces, then their indices. All receivers share it.
pub struct InterfacePage {
    memory: SealedMemory<u32>,
    written: Vec<u32>,
}

impl InterfacePage {
    /// A page without interfaces.
    pub fn new() -> Result<Self> {
        let memory = SealedMemory::new(c"atp-interfaces", INTERFACE_WORDS)?;
        Ok(Self { memory, written: Vec::new() })
    }

    /// Writes the interfaces, if they changed. Receivers acknowledge packets of an interface
    /// beyond the page's length themselves.
    ///
    /// While the page changes, a reader sees fewer interfaces: two ACKs for a packet do less harm
    /// than none.
    pub fn write(&mut self, interfaces: &[u32]) {
        if interfaces == self.written {
            return;
        }
        self.memory.write(0, 0);
        let fitting = &interfaces[..interfaces.len().min(INTERFACE_WORDS - 1)];
        for (index, interface) in (1..).zip(fitting) {
            self.memory.write(index, *interface);
        }
        self.memory.write(0, fitting.len() as u32);
        self.written = interfaces.to_vec();
    }
}

/// From now on receivers acknowledge by themselves.
impl Drop for InterfacePage {
    fn drop(&mut self) {
        self.memory.write(0, 0);
    }
}

impl AsFd for InterfacePage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
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
        let words = |n: usize| -> Vec<u32> {
            let words = map.chunks_exact(4).take(n);
            words.map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
        };
        page.write(&[7, 9]);
        assert_eq!(words(3), [2, 7, 9]);
        page.write(&[9]);
        assert_eq!(words(2), [1, 9]);
        page.write(&vec![3; 2 * INTERFACE_WORDS]);
        assert_eq!(words(1), [INTERFACE_WORDS as u32 - 1]);
        drop(page);
        assert_eq!(words(1), [0]);
    }
}
