//! A window while it is open, and once it is closed.

use crate::{
    offsets::Offsets,
    position::Position,
    record::{Base, RecordRef, encode},
    sampling::GroupId,
};
use std::collections::BTreeMap;

/// Encoded records of one stratum, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodedRecords {
    pub(crate) bytes: Vec<u8>,
    /// The end of each record.
    pub(crate) ends: Vec<usize>,
}

impl EncodedRecords {
    /// The records.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}

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
    bytes: usize,
    strata: BTreeMap<u8, EncodedRecords>,
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
            strata: BTreeMap::new(),
        }
    }

    pub(super) fn push(
        &mut self,
        record: &RecordRef<'_>,
        group: GroupId,
        is_late: bool,
        record_bytes_max: usize,
    ) {
        self.offsets.insert(record.offset);
        self.records += 1;
        self.late += u64::from(is_late);
        let mut encoded = Vec::new();
        encode(record, self.base, &mut encoded);
        if encoded.len() > record_bytes_max {
            self.refused.insert(record.offset);
            return;
        }
        self.bytes += encoded.len();
        let stratum = self.strata.entry(group.stratum(encoded.len())).or_default();
        stratum.bytes.extend_from_slice(&encoded);
        stratum.ends.push(stratum.bytes.len());
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The ranges of offsets, which the header names.
    pub(super) fn ranges(&self) -> usize {
        self.offsets.ranges_len()
    }

    /// The first offset.
    pub(super) fn first(&self) -> u64 {
        self.base.offset
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
    ) -> Cut {
        let Self { base, offsets, refused, late, bytes, strata, .. } = self;
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
            strata,
            bytes,
        }
    }
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
    pub(crate) base: Base,
    pub(crate) strata: BTreeMap<u8, EncodedRecords>,
    bytes: usize,
}

impl Cut {
    /// The encoded bytes of its records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
