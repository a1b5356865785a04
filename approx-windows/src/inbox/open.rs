//! The windows whose messages arrive, and their memory.

use crate::{error::MalformedError, header::WindowHeader, stream::Stream, window::parse_header};
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

/// Refused runs of which events may still come. The library hands over no event of a run that it
/// has forgotten, so those in its queue are the last ones.
const REFUSED_MAX: usize = 4_096;

/// The messages of a window so far.
#[derive(Debug, Default)]
pub(super) struct OpenWindow {
    pub(super) header: Option<WindowHeader>,
    pub(super) messages: Vec<(u8, Vec<u8>)>,
    /// A sender asks whether windows are received here.
    pub(super) is_hello: bool,
    /// The memory of header and messages.
    pub(super) bytes: u64,
    /// When its last message came.
    last: Option<Instant>,
}

/// The windows that are open, by run and number.
#[derive(Debug)]
pub(super) struct OpenWindows {
    windows: BTreeMap<(u64, u32), OpenWindow>,
    /// The run of each stream's latest sender, and its epoch.
    senders: HashMap<Stream, (u64, u64)>,
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
        group: u8,
        data: Vec<u8>,
    ) -> Result<Option<u64>, MalformedError> {
        if self.refused.contains(&key.0) {
            return Ok(None);
        }
        let window = self.windows.entry(key).or_default();
        window.last = Some(Instant::now());
        let Some(header) = parse_header(&data).filter(|_| group == 0) else {
            self.bytes += cost(&data);
            window.bytes += cost(&data);
            window.messages.push((group, data));
            return Ok(None);
        };
        if window.header.is_some() {
            return Err(MalformedError::HeaderCount);
        }
        let header = header?;
        // Offsets take more memory than bytes of the message.
        let ranges = header.offsets.memory_bytes() + header.refused.memory_bytes();
        self.bytes += cost(&data) + ranges;
        window.bytes += cost(&data) + ranges;
        let (stream, epoch) = (header.stream.clone(), header.epoch);
        window.header = Some(header);
        let (run, known) = *self.senders.entry(stream.clone()).or_insert((key.0, epoch));
        if run == key.0 || epoch < known {
            return Ok(None);
        }
        self.senders.insert(stream, (key.0, epoch));
        Ok(Some(run))
    }

    /// Notes that a sender asks whether windows are received here.
    pub(super) fn hello(&mut self, key: (u64, u32)) -> Result<Option<u64>, MalformedError> {
        if !self.refused.contains(&key.0) {
            self.windows.entry(key).or_default().is_hello = true;
        }
        Ok(None)
    }

    /// A run with open windows, all of which have been silent for so long; the longest first.
    pub(super) fn silent_run(&self, silence: Duration) -> Option<u64> {
        let mut last: HashMap<u64, Instant> = HashMap::new();
        for ((run, _), window) in &self.windows {
            let at = window.last.unwrap_or_else(Instant::now);
            last.entry(*run).and_modify(|last| *last = at.max(*last)).or_insert(at);
        }
        let (run, at) = last.into_iter().min_by_key(|(_, at)| *at)?;
        (at.elapsed() >= silence).then_some(run)
    }

    /// The run whose open windows take most memory.
    pub(super) fn largest_run(&self) -> Option<u64> {
        let mut bytes: HashMap<u64, u64> = HashMap::new();
        for ((run, _), window) in &self.windows {
            *bytes.entry(*run).or_default() += window.bytes;
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
