//! The record of a window in the topic of windows: JSON, under the stream as its key.

use approx_windows::{Count, CountedOffsets, Offsets, ReceivedWindow, Stream};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// What a window's record says. Times are milliseconds since 1970.
#[derive(Serialize)]
pub struct WindowRecord<'a> {
    stream: &'a Stream,
    number: i64,
    part: u32,
    is_last_part: bool,
    start_ms: Option<i64>,
    end_ms: Option<i64>,
    epoch: u64,
    /// N: the records of the window that were never counted before.
    records: u64,
    received: u64,
    /// First and last offsets of ranges.
    lost: Vec<[u64; 2]>,
    /// Records that are longer than the sender's limit.
    refused: Vec<[u64; 2]>,
    /// Records of the window that were counted before.
    repeated: u64,
    /// Records that came after their own window.
    late: u64,
    /// Offsets before the window that no window has brought.
    skipped: u64,
    groups: Vec<GroupRecord<'a>>,
    /// For a receiver that is started again.
    counted: CountedOffsets,
}

#[derive(Serialize)]
struct GroupRecord<'a> {
    name: &'a str,
    msr: f64,
    /// Records that take several packets: a stratum of their own.
    is_long: bool,
    records: u64,
    received: usize,
}

/// What a receiver that is started again needs.
#[derive(Deserialize)]
pub struct Stored {
    /// The stream.
    pub stream: Stream,
    /// The offsets that were counted.
    pub counted: CountedOffsets,
}

impl<'a> WindowRecord<'a> {
    /// The record of a window. `counted`: the offsets of its stream, with the window's.
    pub fn new(window: &'a ReceivedWindow, counted: CountedOffsets) -> Self {
        let header = &window.header;
        let (new, skipped) = match &window.count {
            Count::Whole { skipped } => (header.records(), *skipped),
            Count::Partly(offsets) => (offsets.len(), 0),
            Count::Repeated => (0, 0),
        };
        let group = |group: &'a approx_windows::ReceivedGroup| GroupRecord {
            name: &group.header.name,
            msr: group.header.msr,
            is_long: group.header.is_long,
            records: group.header.records,
            received: group.records.len(),
        };
        let with_records = |group: &&approx_windows::ReceivedGroup| group.header.records > 0;
        Self {
            stream: &header.stream,
            number: header.number,
            part: header.part,
            is_last_part: header.is_last_part,
            start_ms: header.span_ms.map(|span| span.0),
            end_ms: header.span_ms.map(|span| span.1),
            epoch: header.epoch,
            records: new,
            received: window.received(),
            lost: ranges(&window.lost),
            refused: ranges(&header.refused),
            repeated: header.records() - new,
            late: header.late,
            skipped,
            groups: window.groups.iter().filter(with_records).map(group).collect(),
            counted,
        }
    }

    /// The key: the topic of windows may be compacted to the last window of each stream.
    pub fn key(&self) -> String {
        let Stream { cluster, group, topic, partition } = self.stream;
        format!("{cluster}/{group}/{topic}/{partition}")
    }
}

fn ranges(offsets: &Offsets) -> Vec<[u64; 2]> {
    let inclusive = |range: std::ops::Range<u64>| range.start..=range.end - 1;
    offsets.ranges().map(inclusive).map(RangeInclusive::into_inner).map(|(a, b)| [a, b]).collect()
}
