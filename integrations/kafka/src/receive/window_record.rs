//! The records of a window: its counts in the topic of windows, and the offsets that were counted
//! for a receiver that is started again. Both are JSON, under the stream as their key.

use approx_windows::{Count, CountedOffsets, Offsets, ReceivedWindow, Stream};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The record of a window. Times are milliseconds since 1970.
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
}

#[derive(Serialize)]
struct GroupRecord<'a> {
    name: &'a str,
    msr: f64,
    /// N, also of records that were counted before.
    records: u64,
    /// The records that arrived, also those that were counted before. Each of them stands for
    /// `records / arrived` of the group.
    arrived: u64,
    /// The records that arrived and count.
    received: usize,
}

/// The state for a receiver that is started again.
#[derive(Serialize, Deserialize)]
pub struct Stored {
    /// The stream.
    pub stream: Stream,
    /// The offsets that were counted.
    pub counted: CountedOffsets,
}

impl<'a> WindowRecord<'a> {
    /// The record of a window.
    pub fn new(window: &'a ReceivedWindow) -> Self {
        let header = &window.header;
        let new = match &window.count {
            Count::Whole => header.records(),
            Count::Partly(offsets) => offsets.len(),
            Count::Repeated => 0,
        };
        let group = |group: &'a approx_windows::ReceivedGroup| GroupRecord {
            name: &group.header.name,
            msr: group.header.msr,
            records: group.header.records,
            arrived: group.arrived,
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
            refused: ranges(&window.refused()),
            repeated: header.records() - new,
            late: header.late,
            skipped: window.skipped,
            groups: window.groups.iter().filter(with_records).map(group).collect(),
        }
    }
}

/// The key of a stream's records.
pub fn key(stream: &Stream) -> String {
    let Stream { cluster, group, topic, topic_id, partition } = stream;
    format!("{cluster}/{group}/{topic}/{topic_id}/{partition}")
}

fn ranges(offsets: &Offsets) -> Vec<[u64; 2]> {
    let inclusive = |range: std::ops::Range<u64>| range.start..=range.end - 1;
    offsets.ranges().map(inclusive).map(RangeInclusive::into_inner).map(|(a, b)| [a, b]).collect()
}
