//! Reuses the memory of released messages for new ones. It is still in the processor's cache, and
//! reusing it keeps the allocator from returning it to the system and fetching it again.

use super::data::MessageCopy;

/// The most memory that is kept: more would not stay in a cache.
const BYTES_MAX: usize = 1 << 20;

/// Copies of released messages, for reuse.
#[derive(Debug, Default)]
pub struct BufferPool {
    copies: Vec<MessageCopy>,
    bytes: usize,
}

impl BufferPool {
    /// Keeps the memory of `used`, if there is room for it.
    pub fn put(&mut self, used: MessageCopy) {
        if self.bytes + used.len() <= BYTES_MAX {
            self.bytes += used.len();
            self.copies.push(used);
        }
    }

    /// A copy of `data`. Uses the memory put last if it has the same length.
    pub fn copy(&mut self, data: &[u8]) -> MessageCopy {
        let used = self.copies.pop();
        self.bytes -= used.as_ref().map_or(0, |used| used.len());
        MessageCopy::copy(data, used)
    }

    /// Takes the larger of both pools, and leaves the other.
    pub fn refill(&mut self, other: &mut Self) {
        if self.copies.len() < other.copies.len() {
            std::mem::swap(self, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy__reuses_memory_of_the_same_length() {
        let (mut pool, mut released) = (BufferPool::default(), BufferPool::default());
        let used = MessageCopy::copy(&[7; 5], None);
        let address = used.as_ptr();
        released.put(MessageCopy::copy(&[9; 4], None));
        released.put(used);
        pool.refill(&mut released);
        let copy = pool.copy(b"hello");
        assert_eq!((&*copy, copy.as_ptr()), (&b"hello"[..], address));
        assert_eq!(&*pool.copy(b"other length"), b"other length");
        assert_eq!(&*pool.copy(b""), b"");
        assert_eq!(pool.bytes, 0);
    }

    #[test]
    fn put__keeps_no_more_than_a_cache_holds() {
        let mut pool = BufferPool::default();
        for _ in 0..100 {
            pool.put(MessageCopy::copy(&vec![0; 1 << 16], None));
        }
        assert_eq!((pool.copies.len(), pool.bytes), (16, BYTES_MAX));
    }
}
