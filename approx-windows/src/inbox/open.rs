//! The windows whose messages arrive, and their memory.

use crate::{
    error::MalformedError,
    header::{BEGIN, HEADER, WindowBegin, WindowHeader},
    stream::Stream,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Refused runs of which events may still come. The library hands over no event of a run that it
/// has forgotten, so those in its queue are the last ones.
const REFUSED_MAX: usize = 4_096;

/// The messages of a window so far.
#[derive(Debug, Default)]
pub(super) struct OpenWindow {
    pub(super) begin: Option<WindowBegin>,
    pub(super) header: Option<WindowHeader>,
    pub(super) messages: Vec<(u8, Vec<u8>)>,
    /// A sender asks whether windows are received here.
    pub(super) is_hello: bool,
    /// The memory of all that.
    pub(super) bytes: u64,
    /// When its last message came, and from whom.
    last: Option<(Instant, SocketAddr)>,
}

/// The windows that are open, by run and number.
#[derive(Debug)]
pub(super) struct OpenWindows {
    windows: BTreeMap<(u64, u32), OpenWindow>,
    /// The run of each stream's latest sender, and its epoch.
    senders: HashMap<Stream, (u64, u64)>,
    /// The stream of each run that has begun a window.
    streams: HashMap<u64, Stream>,
    refused: HashSet<u64>,
    refused_order: VecDeque<u64>,
    /// The bytes of these windows, and of those that were kept.
    bytes: u64,
    bytes_max: u64,
}

impl OpenWindows {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            windows: BTreeMap::new(),
            senders: HashMap::new(),
            streams: HashMap::new(),
            refused: HashSet::new(),
            refused_order: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Adds a message of a window. Returns the run that this one replaces.
    pub(super) fn add(
        &mut self,
        key: (u64, u32),
        source: SocketAddr,
        group: u8,
        data: Vec<u8>,
    ) -> Result<Option<u64>, MalformedError> {
        if self.refused.contains(&key.0) {
            return Ok(None);
        }
        let window = self.windows.entry(key).or_default();
        window.last = Some((Instant::now(), source));
        match data.split_first() {
            Some((&BEGIN, body)) if group == 0 => {
                let begin = WindowBegin::parse(body)?;
                if window.begin.replace(begin.clone()).is_some() {
                    return Err(MalformedError::HeaderCount);
                }
                self.take(key, cost(&data));
                Ok(self.replace(key.0, begin))
            }
            Some((&HEADER, body)) if group == 0 => {
                let header = WindowHeader::parse(body)?;
                // Offsets take more memory than bytes of the message.
                let ranges = header.offsets.memory_bytes() + header.refused.memory_bytes();
                // The exact group is in order.
                if window.begin.as_ref() != Some(&header.begin()) || window.header.is_some() {
                    return Err(MalformedError::HeaderCount);
                }
                window.header = Some(header);
                self.take(key, cost(&data) + ranges);
                Ok(None)
            }
            _ => {
                let bytes = cost(&data);
                window.messages.push((group, data));
                self.take(key, bytes);
                Ok(None)
            }
        }
    }

    /// Counts the memory of a window.
    fn take(&mut self, key: (u64, u32), bytes: u64) {
        self.bytes += bytes;
        if let Some(window) = self.windows.get_mut(&key) {
            window.bytes += bytes;
        }
    }

    /// Notes the run of a stream's sender. Returns the one that it replaces.
    fn replace(&mut self, run: u64, begin: WindowBegin) -> Option<u64> {
        let WindowBegin { stream, epoch, .. } = begin;
        self.streams.entry(run).or_insert_with(|| stream.clone());
        let (before, known) = *self.senders.entry(stream.clone()).or_insert((run, epoch));
        if before == run || epoch < known {
            return None;
        }
        self.senders.insert(stream, (run, epoch));
        Some(before)
    }

    /// Forgets the stream of a run that has ended, and returns it.
    pub(super) fn end(&mut self, run: u64) -> Option<Stream> {
        self.streams.remove(&run)
    }

    /// Notes that a sender asks whether windows are received here.
    pub(super) fn hello(&mut self, key: (u64, u32)) -> Result<Option<u64>, MalformedError> {
        if !self.refused.contains(&key.0) {
            self.windows.entry(key).or_default().is_hello = true;
        }
        Ok(None)
    }

    /// The run that has been silent longest, for `silence` at least, of those with windows of
    /// `bytes_min` at least. `awaits`: whether a run has a window that waits for the application.
    pub(super) fn silent_run(
        &self,
        silence: Duration,
        bytes_min: u64,
        awaits: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let mut runs: HashMap<u64, (Instant, u64)> = HashMap::new();
        for ((run, _), window) in &self.windows {
            let at = window.last.map_or_else(Instant::now, |(at, _)| at);
            let (last, bytes) = runs.entry(*run).or_insert((at, 0));
            *last = at.max(*last);
            *bytes += window.bytes;
        }
        let candidates =
            runs.into_iter().filter(|(run, (_, bytes))| *bytes >= bytes_min && !awaits(*run));
        let (run, (at, _)) = candidates.min_by_key(|(_, (at, _))| *at)?;
        (at.elapsed() >= silence).then_some(run)
    }

    /// The run whose open windows take most memory, and its sender.
    pub(super) fn largest_run(&self) -> Option<(u64, SocketAddr)> {
        let mut bytes: HashMap<(u64, SocketAddr), u64> = HashMap::new();
        for ((run, _), window) in &self.windows {
            if let Some((_, source)) = window.last {
                *bytes.entry((*run, source)).or_default() += window.bytes;
            }
        }
        bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(run, _)| run)
    }

    /// Removes a window.
    pub(super) fn remove(&mut self, key: (u64, u32)) -> Option<OpenWindow> {
        let window = self.windows.remove(&key)?;
        self.give_back(window.bytes);
        Some(window)
    }

    /// Removes the windows of a run.
    pub(super) fn remove_run(&mut self, run: u64) -> Vec<OpenWindow> {
        let keys: Vec<_> = self.windows.range((run, 0)..=(run, u32::MAX)).map(|w| *w.0).collect();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Removes the windows of a run, and takes no more of it.
    pub(super) fn refuse(&mut self, run: u64) {
        self.remove_run(run);
        self.senders.retain(|_, sender| sender.0 != run);
        self.streams.remove(&run);
        if self.refused.insert(run) {
            self.refused_order.push_back(run);
        }
        if self.refused_order.len() > REFUSED_MAX
            && let Some(oldest) = self.refused_order.pop_front()
        {
            self.refused.remove(&oldest);
        }
    }

    /// Counts the memory of a window that has ended and waits.
    pub(super) fn keep(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts this memory no more.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }
}

/// The memory of a message.
fn cost(data: &Vec<u8>) -> u64 {
    (size_of::<(u8, Vec<u8>)>() + data.capacity()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_run__is_the_longest_that_awaits_nothing() {
        let mut open = OpenWindows::new(1 << 20);
        let source = |run: u64| SocketAddr::from(([10, 0, 0, run as u8], 1));
        for (run, bytes) in [(1, 10), (2, 5_000), (3, 20)] {
            open.add((run, 0), source(run), 1, vec![0; bytes]).unwrap();
        }
        let silent = |open: &OpenWindows, awaiting| {
            open.silent_run(Duration::ZERO, 1, |run| run == awaiting)
        };
        assert_eq!((silent(&open, 0), silent(&open, 1)), (Some(1), Some(2)));
        assert_eq!(open.silent_run(Duration::MAX, 1, |_| false), None);
        assert_eq!(open.silent_run(Duration::ZERO, 5_000, |_| false), Some(2));
        assert_eq!(open.largest_run(), Some((2, source(2))));
        for run in [1, 2, 3] {
            open.refuse(run);
            // Its messages that are still under way take no room.
            open.add((run, 0), source(run), 1, vec![0; 10]).unwrap();
        }
        assert_eq!((open.bytes(), silent(&open, 0), open.largest_run()), (0, None, None));
    }
}
