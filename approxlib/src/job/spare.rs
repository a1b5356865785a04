//! Memory of messages that were released, for those to come: still in the processor's cache, and without
//! a way through the allocator, which would give it back to the system and fetch it again.

use super::data::Own;

/// What is kept at most: more would not stay in a cache.
const BYTES_MAX: usize = 1 << 20;

/// Copies that nobody needs any more.
#[derive(Debug, Default)]
pub struct Spares {
    copies: Vec<Own>,
    bytes: usize,
}

impl Spares {
    /// Keeps `used`, if there is room for it.
    pub fn keep(&mut self, used: Own) {
        if self.bytes + used.len() <= BYTES_MAX {
            self.bytes += used.len();
            self.copies.push(used);
        }
    }

    /// A copy of `data`, in the memory that was used last if that is as long.
    pub fn copy(&mut self, data: &[u8]) -> Own {
        let used = self.copies.pop();
        self.bytes -= used.as_ref().map_or(0, |used| used.len());
        Own::copy(data, used)
    }

    /// Takes everything from `other`, if there is nothing here.
    pub fn refill(&mut self, other: &mut Self) {
        if self.copies.is_empty() {
            std::mem::swap(self, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy__is_a_copy_in_used_memory_of_the_same_length() {
        let (mut spares, mut released) = (Spares::default(), Spares::default());
        let used = Own::copy(&[7; 5], None);
        let address = used.as_ptr();
        released.keep(Own::copy(&[9; 4], None));
        released.keep(used);
        spares.refill(&mut released);
        let copy = spares.copy(b"hello");
        assert_eq!((&*copy, copy.as_ptr()), (&b"hello"[..], address));
        assert_eq!(&*spares.copy(b"other length"), b"other length");
        assert_eq!(&*spares.copy(b""), b"");
        assert_eq!(spares.bytes, 0);
    }

    #[test]
    fn keep__no_more_than_a_cache_holds() {
        let mut spares = Spares::default();
        for _ in 0..100 {
            spares.keep(Own::copy(&vec![0; 1 << 16], None));
        }
        assert_eq!((spares.copies.len(), spares.bytes), (16, BYTES_MAX));
    }
}
