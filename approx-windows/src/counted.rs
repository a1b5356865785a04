//! The offsets that a receiver has counted.

use crate::{header::WindowHeader, offsets::Offsets, stream::Stream};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The offsets of each stream that were counted.
///
/// A window that its sender repeats after a crash is recognized by them, whatever the two senders
/// made of it. Keep it with the results: a receiver that has lost it counts repeated windows again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counted {
    #[serde(with = "as_list")]
    streams: HashMap<Stream, CountedOffsets>,
}

/// The offsets of one stream that were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedOffsets {
    /// All offsets below were counted, were skipped, or don't exist.
    base: u64,
    /// The counted offsets from `base` on.
    above: Offsets,
}

/// How many records of a window count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// All: none was counted before.
    Whole,
    /// None: all were counted before.
    Repeated,
    /// These, and the others were counted before. The sender cut the windows differently before it
    /// was started again. The sampling rate holds for the whole window, not for this part.
    Partly(Offsets),
}

impl Counted {
    /// How many records of a window count.
    pub fn count(&self, header: &WindowHeader) -> Count {
        let Some(counted) = self.streams.get(&header.stream) else {
            return Count::Whole;
        };
        let mut rest = header.offsets.without(&counted.above);
        rest.remove_below(counted.base);
        match rest {
            rest if rest == header.offsets => Count::Whole,
            rest if rest.is_empty() => Count::Repeated,
            rest => Count::Partly(rest),
        }
    }

    /// The number of offsets before a window that no window has brought: another receiver counted
    /// them, somebody moved the committed offset of the sender, or records have expired.
    pub fn skipped(&self, header: &WindowHeader) -> u64 {
        let Some(counted) = self.streams.get(&header.stream) else { return 0 };
        let mut before = Offsets::default();
        before.insert_range(counted.base..header.from.max(counted.base));
        before.without(&counted.above).len()
    }

    /// Counts the records of a window.
    pub fn insert(&mut self, header: &WindowHeader) {
        let counted = self.with(header);
        self.streams.insert(header.stream.clone(), counted);
    }

    /// The offsets of a window's stream, with those of the window: for applications that store them
    /// together with its result.
    pub fn with(&self, header: &WindowHeader) -> CountedOffsets {
        let begin = || CountedOffsets { base: header.from, above: Offsets::default() };
        let mut counted = self.streams.get(&header.stream).cloned().unwrap_or_else(begin);
        counted.above.extend(&header.offsets);
        // Earlier windows end first, so those below `from` were counted, or are skipped.
        counted.base = counted.base.max(header.resume);
        counted.above.remove_below(counted.base);
        counted
    }

    /// Adds offsets of a stream that were stored, in any order.
    pub fn restore(&mut self, stream: Stream, stored: CountedOffsets) {
        let counted = self.streams.entry(stream).or_default();
        counted.above.extend(&stored.above);
        counted.base = counted.base.max(stored.base);
        counted.above.remove_below(counted.base);
    }

    /// The streams, and the offset below which everything was counted.
    pub fn positions(&self) -> impl Iterator<Item = (&Stream, u64)> {
        self.streams.iter().map(|(stream, counted)| (stream, counted.base))
    }
}

/// As a list: formats such as JSON have no keys of several fields.
mod as_list {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        streams: &HashMap<Stream, CountedOffsets>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut list: Vec<_> = streams.iter().collect();
        list.sort_by_key(|(stream, _)| *stream);
        serializer.collect_seq(list)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<HashMap<Stream, CountedOffsets>, D::Error> {
        let list = Vec::<(Stream, CountedOffsets)>::deserialize(deserializer)?;
        Ok(list.into_iter().collect())
    }
}
