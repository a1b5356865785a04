//! Doubly linked lists of small keys, with all links in one vector. Every operation is O(1) and
//! allocates only when a key is larger than all before.

/// No key.
pub(crate) const NONE: u32 = u32::MAX;

/// The links of all keys. A key is in at most one list at a time.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<(u32, u32)>);

/// The two ends of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    tail: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(crate) const fn is_empty(self) -> bool {
        self.head == NONE
    }
}

impl Links {
    /// Appends `key`, which is in no list.
    pub(crate) fn push_back(&mut self, list: &mut List, key: u32) {
        if self.0.len() <= key as usize {
            self.0.resize(key as usize + 1, (NONE, NONE));
        }
        self.0[key as usize] = (list.tail, NONE);
        match list.tail {
            NONE => list.head = key,
            tail => self.0[tail as usize].1 = key,
        }
        list.tail = key;
    }

    /// The keys of `list`, from head to tail.
    pub(crate) fn keys(&self, list: &List) -> impl Iterator<Item = u32> + '_ {
        let key = |key: u32| (key != NONE).then_some(key);
        std::iter::successors(key(list.head), move |at| key(self.0[*at as usize].1))
    }

    /// Removes `key`, which is in `list`.
    pub(crate) fn remove(&mut self, list: &mut List, key: u32) {
        let (previous, next) = self.0[key as usize];
        match previous {
            NONE => list.head = next,
            previous => self.0[previous as usize].1 = next,
        }
        match next {
            NONE => list.tail = previous,
            next => self.0[next as usize].0 = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn links__behave_as_vectors(steps in proptest::collection::vec((0u32..20, 0usize..3), 0..200)) {
            let mut links = Links::default();
            let mut lists = [List::EMPTY; 3];
            let mut model = [vec![], vec![], vec![]];
            for (key, list) in steps {
                match model.iter().position(|keys| keys.contains(&key)) {
                    Some(at) => {
                        links.remove(&mut lists[at], key);
                        model[at].retain(|&k| k != key);
                    }
                    None => {
                        links.push_back(&mut lists[list], key);
                        model[list].push(key);
                    }
                }
                for (list, keys) in lists.iter().zip(&model) {
                    prop_assert_eq!(&links.keys(list).collect::<Vec<_>>(), keys);
                }
            }
        }
    }
}
