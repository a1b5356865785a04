//! A window while it is open, and once it is closed.

use crate::{
    draw::{Draw, Terms},
    header::{GroupHeader, WindowHeader},
    offsets::Offsets,
    position::Position,
    record::{Base, RecordRef, encode},
    sampling::{GroupId, Sampling},
    stream::Stream,
};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// A window that takes records.
#[derive(Debug)]
pub(super) struct Open {
    base: Base,
    /// The least open window and the greatest event time before the first record.
    before: (i64, i64),
    offsets: Offsets,
    refused: Offsets,
    late: u64,
    records: u64,
    /// The encoded bytes of its records.
    bytes: usize,
    memory_bytes: usize,
    groups: BTreeMap<u8, Draw>,
    encoded: Vec<u8>,
}

impl Open {
    pub(super) fn new(first: &RecordRef<'_>, before: (i64, i64)) -> Self {
        let base =
            Base { offset: first.offset, timestamp_ms: first.timestamp_ms.unwrap_or_default() };
        Self {
            base,
            before,
            offsets: Offsets::default(),
            refused: Offsets::default(),
            late: 0,
            records: 0,
            bytes: 0,
            memory_bytes: 0,
            groups: BTreeMap::new(),
            encoded: Vec::new(),
        }
    }

    pub(super) fn push(
        &mut self,
        record: &RecordRef<'_>,
        group: GroupId,
        is_late: bool,
        number: Option<f64>,
        terms: Terms,
        rng: &mut ChaCha8Rng,
    ) {
        self.offsets.insert(record.offset);
        self.records += 1;
        self.late += u64::from(is_late);
        self.encoded.clear();
        encode(record, self.base, &mut self.encoded);
        if self.encoded.len() > terms.record_bytes_max {
            self.refused.insert(record.offset);
            return;
        }
        self.bytes += self.encoded.len();
        let draw = self.groups.entry(group.id()).or_insert_with(|| Draw::new(terms));
        let before = draw.memory_bytes();
        draw.push(&self.encoded, number, rng);
        self.memory_bytes = self.memory_bytes + draw.memory_bytes() - before;
    }

    /// The messages that can be sent while the window is open, without those taken before.
    pub(super) fn take(&mut self) -> Vec<(u8, Vec<u8>)> {
        let groups = self.groups.iter_mut();
        groups.flat_map(|(id, draw)| with_id(*id, draw.take_full())).collect()
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory of its records.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The ranges of offsets, which the header names.
    pub(super) fn ranges(&self) -> usize {
        self.offsets.ranges_len()
    }

    /// The first offset.
    pub(super) fn first(&self) -> u64 {
        self.base.offset
    }

    /// Whether it has a record of this group.
    pub(super) fn has(&self, group: GroupId) -> bool {
        self.groups.contains_key(&group.id())
    }

    /// The records of each group, and the share of them that must be sent.
    pub(super) fn shares_needed(&self) -> impl Iterator<Item = (u8, (u64, f64))> {
        self.groups.iter().map(|(id, draw)| (*id, (draw.records(), draw.share_needed())))
    }

    pub(super) fn before(&self) -> (i64, i64) {
        self.before
    }

    pub(super) fn cut(
        self,
        number: i64,
        (part, is_last_part): (u32, bool),
        span_ms: Option<(i64, i64)>,
        from: u64,
        position: Position,
        (sampling, rng): (&Sampling, &mut ChaCha8Rng),
    ) -> Cut {
        let Self { base, offsets, refused, late, groups: mut draws, .. } = self;
        let (mut groups, mut messages, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (id, name, msr) in sampling.all() {
            let none = Terms { msr, rate: msr, accepted: None, record_bytes_max: 0 };
            let draw = draws.remove(&id).unwrap_or_else(|| Draw::new(none));
            let drawn = draw.end(id, name, rng);
            groups.push(drawn.header);
            messages.extend(with_id(id, drawn.messages));
            bytes += drawn.bytes;
        }
        Cut {
            number,
            part,
            is_last_part,
            span_ms,
            offsets,
            refused,
            late,
            from,
            position,
            base,
            groups,
            messages,
            bytes,
        }
    }
}

fn with_id(id: u8, messages: Vec<Vec<u8>>) -> impl Iterator<Item = (u8, Vec<u8>)> {
    messages.into_iter().map(move |message| (id, message))
}

/// Messages of a window that is still open.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) number: i64,
    pub(crate) part: u32,
    pub(crate) epoch: u64,
    /// The job's group of each message.
    pub(crate) messages: Vec<(u8, Vec<u8>)>,
}

/// A window that is closed: its records are known.
#[derive(Clone, Debug)]
pub struct Cut {
    /// As [`WindowHeader::number`](crate::WindowHeader::number).
    pub number: i64,
    /// As [`WindowHeader::part`](crate::WindowHeader::part).
    pub part: u32,
    /// As [`WindowHeader::is_last_part`](crate::WindowHeader::is_last_part).
    pub is_last_part: bool,
    /// As [`WindowHeader::span_ms`](crate::WindowHeader::span_ms).
    pub span_ms: Option<(i64, i64)>,
    /// The offsets of its records.
    pub offsets: Offsets,
    /// The records that are too long.
    pub refused: Offsets,
    /// As [`WindowHeader::late`](crate::WindowHeader::late).
    pub late: u64,
    /// As [`WindowHeader::from`](crate::WindowHeader::from).
    pub from: u64,
    /// Where the stream is read again once this window and all before it are confirmed.
    pub position: Position,
    base: Base,
    groups: Vec<GroupHeader>,
    /// The messages that weren't taken before, with the job's groups.
    pub(crate) messages: Vec<(u8, Vec<u8>)>,
    bytes: usize,
}

impl Cut {
    /// The encoded bytes of its records that are sent.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The header of this window of a stream.
    pub(crate) fn header(&self, stream: Stream) -> WindowHeader {
        WindowHeader {
            stream,
            epoch: self.position.epoch,
            number: self.number,
            part: self.part,
            is_last_part: self.is_last_part,
            span_ms: self.span_ms,
            offsets: self.offsets.clone(),
            refused: self.refused.clone(),
            late: self.late,
            from: self.from,
            resume: self.position.offset,
            groups: self.groups.clone(),
            base: self.base,
        }
    }
}
