//! A table by 32-bit index that uses memory only near written entries.
//!
//! Message ids come from the network, and one packet can claim any id. In a vector up to the
//! largest id, that packet's sender would decide the length.

/// Entries of one leaf, and leaves of one branch.
const FAN: usize = 64;
const FAN_BITS: u32 = FAN.trailing_zeros();

type Leaf<T> = Box<[T; FAN]>;
type Branch<T> = Box<[Option<Leaf<T>>; FAN]>;

/// A table of three levels. An entry that was never written reads as `T::default()`. With 2^18
/// entries (2^24 message ids) the first level has 64 branches. A single entry costs less than 2
/// KiB.
#[derive(Debug)]
pub(crate) struct Sparse<T> {
    branches: Vec<Option<Branch<T>>>,
    /// The bytes of all branches and leaves.
    bytes: u64,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { branches: Vec::new(), bytes: 0 }
    }
}

impl<T: Copy + Default> Sparse<T> {
    pub(crate) fn read(&self, index: u32) -> T {
        let (branch, leaf, at) = split(index);
        self.leaf(branch, leaf).map_or_else(T::default, |leaf| leaf[at])
    }

    /// The entry at `index`, for writing.
    pub(crate) fn entry(&mut self, index: u32) -> &mut T {
        let (branch, leaf, at) = split(index);
        if self.branches.len() <= branch {
            self.bytes +=
                ((branch + 1 - self.branches.len()) * size_of::<Option<Branch<T>>>()) as u64;
            self.branches.resize_with(branch + 1, || None);
        }
        let bytes = &mut self.bytes;
        let mut grow = |by: usize| *bytes += by as u64;
        let branch = self.branches[branch].get_or_insert_with(|| {
            grow(size_of::<[Option<Leaf<T>>; FAN]>());
            Box::new([const { None }; FAN])
        });
        &mut branch[leaf].get_or_insert_with(|| {
            grow(size_of::<[T; FAN]>());
            Box::new([T::default(); FAN])
        })[at]
    }

    /// The bytes of the table on the heap.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether writing the entry at `index` needs no more memory.
    pub(crate) fn has_entry(&self, index: u32) -> bool {
        let (branch, leaf, _) = split(index);
        self.leaf(branch, leaf).is_some()
    }

    /// The first index, from `index` on, in a leaf with a written entry. The skipped ones were not
    /// written.
    pub(crate) fn skip_unwritten(&self, index: u32) -> Option<u32> {
        let (mut branch, mut leaf, _) = split(index);
        if self.leaf(branch, leaf).is_some() {
            return Some(index);
        }
        while branch < self.branches.len() {
            let leaves = self.branches[branch].as_ref().map_or(&[][..], |leaves| &leaves[..]);
            let later = leaves.iter().skip(leaf).position(Option::is_some);
            if let Some(skipped) = later {
                let leaf = (branch << FAN_BITS) + leaf + skipped;
                return Some((leaf as u32) << FAN_BITS);
            }
            (branch, leaf) = (branch + 1, 0);
        }
        None
    }

    fn leaf(&self, branch: usize, leaf: usize) -> Option<&Leaf<T>> {
        self.branches.get(branch)?.as_ref()?[leaf].as_ref()
    }
}

/// The branch, the leaf in the branch, and the entry in the leaf.
const fn split(index: u32) -> (usize, usize, usize) {
    let (leaf, at) = (index as usize >> FAN_BITS, index as usize % FAN);
    (leaf >> FAN_BITS, leaf % FAN, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Indices near each other and far from each other.
    fn indices() -> impl Strategy<Value = Vec<u32>> {
        let index = prop_oneof![0u32..300, 4_000u32..4_200, 0u32..1 << 18];
        proptest::collection::vec(index, 0..100)
    }

    proptest! {
        #[test]
        fn sparse__is_a_map_with_a_default(written in indices(), read in indices()) {
            let mut sparse = Sparse::default();
            let mut model = HashMap::new();
            for (value, &index) in (1u64..).zip(&written) {
                *sparse.entry(index) = value;
                model.insert(index, value);
            }
            for index in written.iter().chain(&read) {
                prop_assert_eq!(sparse.read(*index), model.get(index).copied().unwrap_or(0));
            }
        }

        #[test]
        fn skip_unwritten__leaves_out_nothing_that_was_written(
            written in indices(),
            from in 0u32..1 << 18,
        ) {
            let mut sparse = Sparse::default();
            for &index in &written {
                *sparse.entry(index) = true;
            }
            let next = written.iter().copied().filter(|&index| index >= from).min();
            match (sparse.skip_unwritten(from), next) {
                (Some(at), Some(next)) => prop_assert!(from <= at && at <= next),
                (None, next) => prop_assert_eq!(next, None),
                // An entry of the same leaf before `from` was written.
                (Some(at), None) => prop_assert!(at >= from && at - from < FAN as u32),
            }
        }
    }
}
