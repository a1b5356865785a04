//! Memory of messages that were released, for those to come: still in the processor's cache, and without
//! a way through the allocator, which would give it back to the system and fetch it again.

/// What is kept at most: more would not stay in a cache.
const BYTES_MAX: usize = 1 << 20;

/// Boxes that hold nothing any more.
#[derive(Debug, Default)]
pub struct Spares {
    boxes: Vec<Box<[u8]>>,
    bytes: usize,
}

impl Spares {
    /// Keeps `empty`, if there is room for it.
    pub fn keep(&mut self, empty: Box<[u8]>) {
        if self.bytes + empty.len() <= BYTES_MAX {
            self.bytes += empty.len();
            self.boxes.push(empty);
        }
    }

    /// A copy of `data`, in the memory that was used last if that is as long.
    pub fn copy(&mut self, data: &[u8]) -> Box<[u8]> {
        match self.boxes.pop() {
            Some(mut spare) => {
                self.bytes -= spare.len();
                if spare.len() != data.len() {
                    return data.into();
                }
                spare.copy_from_slice(data);
                spare
            }
            None => data.into(),
        }
    }

    /// Takes everything from `other`, if there is nothing here.
    pub fn refill(&mut self, other: &mut Self) {
        if self.boxes.is_empty() {
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
        let used: Box<[u8]> = vec![7; 5].into();
        let address = used.as_ptr();
        released.keep(vec![9; 4].into());
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
            spares.keep(vec![0; 1 << 16].into());
        }
        assert_eq!((spares.boxes.len(), spares.bytes), (16, BYTES_MAX));
    }
}
