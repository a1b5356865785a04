//! An iterator in a random order, within a buffer.

use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// Draws each item from a buffer of those that follow.
pub struct Shuffled<I, T> {
    rest: I,
    buffer: Vec<T>,
    /// An item was taken from the buffer, and the next one isn't in its place yet.
    has_gap: bool,
    draws: ChaCha8Rng,
}

impl<T, E, I: Iterator<Item = Result<T, E>>> Shuffled<I, T> {
    /// Fills the buffer with up to `size` items; at 1 the order stays.
    ///
    /// # Errors
    /// That of the first item in the buffer that is one.
    pub fn new(mut items: I, size: usize) -> Result<Self, E> {
        let buffer = items.by_ref().take(size).collect::<Result<Vec<T>, E>>()?;
        let draws = ChaCha8Rng::seed_from_u64(rand::random());
        Ok(Self { rest: items, buffer, has_gap: false, draws })
    }

    /// Items in the buffer.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }
}

impl<T, E, I: Iterator<Item = Result<T, E>>> Iterator for Shuffled<I, T> {
    type Item = Result<T, E>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.has_gap) {
            match self.rest.next() {
                Some(Ok(next)) => self.buffer.push(next),
                Some(Err(error)) => return Some(Err(error)),
                None => {}
            }
        }
        if self.buffer.is_empty() {
            return None;
        }
        let drawn = self.draws.random_range(0..self.buffer.len());
        self.has_gap = true;
        Some(Ok(self.buffer.swap_remove(drawn)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shuffled__gives_every_item_once_and_none_early(items in 0u32..300, size in 1usize..50) {
            let all: Vec<Result<u32, ()>> = (0..items).map(Ok).collect();
            let shuffled = Shuffled::new(all.into_iter(), size).unwrap();
            prop_assert_eq!(shuffled.len(), size.min(items as usize));
            let mut given: Vec<u32> = shuffled.map(Result::unwrap).collect();
            for (at, item) in given.iter().enumerate() {
                prop_assert!((*item as usize) < at + size, "{item} at {at}");
            }
            prop_assert!(size > 1 || given.is_sorted());
            given.sort_unstable();
            prop_assert!(given.into_iter().eq(0..items));
        }
    }

    #[test]
    fn shuffled__gives_errors() {
        let items = [Ok(1), Ok(2), Err("broken"), Ok(3)];
        assert_eq!(Shuffled::new(items.into_iter(), 4).err(), Some("broken"));
        let given: Vec<_> = Shuffled::new(items.into_iter(), 2).unwrap().collect();
        assert!(given.contains(&Err("broken")), "{given:?}");
    }
}
