//! The memory of keys: a bound keeps hostile rows from filling it.

/// The most that keys and what is counted of them may take.
pub(crate) const BYTES_MAX: usize = 256 << 20;

/// The most that values may take before cells keep summaries in place of all of them.
const EXACT_BYTES_MAX: usize = 64 << 20;

/// Beyond the bound, keys are dropped until this share of it is taken, so that drops are few.
const SHARE_KEPT: f64 = 7.0 / 8.0;

/// The bytes of all keys, and their bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The bytes of keys, their cells, and the values in the cells.
    pub bytes: usize,
    pub bytes_max: usize,
    /// The bytes of the values in cells.
    pub held_bytes: usize,
    pub exact_bytes_max: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: 0, bytes_max: BYTES_MAX, held_bytes: 0, exact_bytes_max: EXACT_BYTES_MAX }
    }
}

impl Room {
    /// The room of one of several, which share the bounds.
    pub fn one_of(self, several: usize) -> Self {
        let (bytes_max, exact_bytes_max) =
            (self.bytes_max / several.max(1), self.exact_bytes_max / several.max(1));
        Self { bytes_max, exact_bytes_max, ..self }
    }

    pub fn fits(&self, more: usize) -> bool {
        self.bytes + more <= self.bytes_max
    }

    /// The keys to drop, so that at most `keys_max` stay and their bytes fit: those with the least
    /// weight. One key stays in any case. `keys` are weights and bytes.
    pub fn excess<'a, K: Ord>(
        &self,
        keys: impl Iterator<Item = (u64, &'a K, usize)>,
        keys_max: usize,
    ) -> Vec<&'a K> {
        let mut keys: Vec<(u64, &K, usize)> = keys.collect();
        keys.sort_unstable();
        let is_over = self.bytes > self.bytes_max;
        let bytes_kept =
            if is_over { (SHARE_KEPT * self.bytes_max as f64) as usize } else { self.bytes_max };
        let (mut left, mut bytes) = (keys.len(), self.bytes);
        let is_excess = move |&(_, _, own): &(u64, &K, usize)| {
            let is_excess = left > keys_max || (bytes > bytes_kept && left > 1);
            left -= usize::from(is_excess);
            bytes -= if is_excess { own } else { 0 };
            is_excess
        };
        let excess = keys.into_iter().take_while(is_excess);
        excess.map(|(_, key, _)| key).collect()
    }
}
