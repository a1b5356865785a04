//! Packs the records of a window into messages.

use crate::{
    cutter::Cut,
    header::{GroupHeader, RECORDS, WindowHeader},
    position::Position,
    sampling::{MESSAGE_BYTES, Sampling, Stratum},
    stream::Stream,
};
use approx_answers::division::{divided_evenly, filled};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// A window as messages, in the order in which they are sent.
#[derive(Debug)]
pub struct PackedWindow {
    pub(crate) header: WindowHeader,
    pub(crate) strata: Vec<PackedStratum>,
    pub(crate) position: Position,
}

/// The messages of a stratum.
#[derive(Debug)]
pub(crate) struct PackedStratum {
    pub(crate) id: u8,
    /// The number of messages that must arrive.
    pub(crate) needed: usize,
    pub(crate) messages: Vec<Vec<u8>>,
}

impl PackedWindow {
    /// Shuffles and packs the records of a window. `seed`: another one for each window.
    pub fn new(cut: &Cut, stream: &Stream, sampling: &Sampling, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut groups = Vec::new();
        let mut strata = Vec::new();
        for (id, stratum) in sampling.strata() {
            let packed = pack(cut, id, &stratum, rng);
            groups.push(GroupHeader {
                id,
                name: stratum.name.to_owned(),
                msr: stratum.msr,
                is_long: stratum.is_long,
                records: cut.strata.get(&id).map_or(0, |records| records.ends.len() as u64),
                messages: packed.messages.len() as u32,
            });
            strata.push(packed);
        }
        let header = WindowHeader {
            stream: stream.clone(),
            epoch: cut.position.epoch,
            number: cut.number,
            part: cut.part,
            is_last_part: cut.is_last_part,
            span_ms: cut.span_ms,
            offsets: cut.offsets.clone(),
            refused: cut.refused.clone(),
            late: cut.late,
            from: cut.from,
            resume: cut.position.offset,
            groups,
            base: cut.base,
        };
        Self { header, strata, position: cut.position }
    }

    /// The header.
    pub fn header(&self) -> &WindowHeader {
        &self.header
    }
}

fn pack(cut: &Cut, id: u8, stratum: &Stratum<'_>, rng: &mut ChaCha8Rng) -> PackedStratum {
    let empty = PackedStratum { id, needed: 0, messages: Vec::new() };
    let Some(encoded) = cut.strata.get(&id) else { return empty };
    let mut records: Vec<&[u8]> = encoded.iter().collect();
    let is_exact = stratum.msr == 1.0;
    if !is_exact {
        records.shuffle(rng);
    }
    let mut ends = vec![0];
    ends.extend(records.iter().scan(0, |end, record| {
        *end += record.len();
        Some(*end)
    }));
    let bytes = |part: Range<usize>| 1 + ends[part.end] - ends[part.start];
    let mut parts = match is_exact {
        true => filled(records.len(), MESSAGE_BYTES, bytes),
        // A shorter last message would nearly never arrive, and the others would stand for it.
        false => divided_evenly(records.len(), MESSAGE_BYTES, bytes),
    };
    if !is_exact {
        // Some messages have a record more than others, and the last ones arrive more rarely.
        parts.shuffle(rng);
    }
    let mut numbers: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
    let message = |part: Range<usize>| {
        let mut message = Vec::with_capacity(bytes(part.clone()));
        message.push(RECORDS);
        records[part].iter().for_each(|record| message.extend_from_slice(record));
        message
    };
    let messages = parts.into_iter().map(message).collect();
    let needed = needed(stratum.msr, &mut numbers);
    PackedStratum { id, needed, messages }
}

/// The least number of messages any choice of which has the needed share of the records. Messages
/// have different numbers of records.
fn needed(msr: f64, numbers: &mut [u64]) -> usize {
    let records: u64 = numbers.iter().sum();
    // Below 2^53, so that only the product is rounded.
    let need = (msr * records as f64).ceil() as u64;
    numbers.sort_unstable();
    let (mut sum, mut messages) = (0, 0);
    while sum < need && messages < numbers.len() {
        sum += numbers[messages];
        messages += 1;
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cutter, Group, GroupId, Limits, RecordRef, Rule, record::decode};
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn needed__any_choice_has_the_share() {
        assert_eq!(needed(0.8, &mut [10, 10, 10, 10, 10]), 4);
        // The three shortest have 7 of 17 records.
        assert_eq!(needed(0.5, &mut [10, 1, 1, 5]), 4);
        assert_eq!(needed(0.4, &mut [10, 1, 1, 5]), 3);
        assert_eq!((needed(0.0, &mut [1, 1]), needed(1.0, &mut [1, 1])), (0, 2));
        assert_eq!(needed(0.5, &mut []), 0);
    }

    /// A receiver expands those that arrive, so none may stand for more records than another.
    #[test]
    fn new__divides_the_records_of_a_stratum_evenly() {
        let limits = Limits { window_bytes_max: 1 << 20, record_bytes_max: 3_000 };
        let mut cutter = Cutter::new(Rule::Records(101), limits, Position::begin(0));
        for offset in 0..101 {
            let record = RecordRef { offset, value: Some(&[1; 120]), ..RecordRef::default() };
            cutter.push(&record, GroupId::at(0));
        }
        let (cut, stream) = (cutter.pop().unwrap(), Stream::default());
        let sampling = Sampling::new(vec![Group { name: "all".into(), msr: 0.5 }]).unwrap();
        let mut is_shuffled = false;
        for seed in 0..20 {
            let packed = PackedWindow::new(&cut, &stream, &sampling, seed);
            let messages = &packed.strata[1].messages;
            let records = messages.iter().map(|message| decode(&message[1..], cut.base).count());
            let records: Vec<_> = records.collect();
            assert_eq!(records.iter().sum::<usize>(), 101);
            let (least, most) = (*records.iter().min().unwrap(), *records.iter().max().unwrap());
            assert_eq!(most - least, 1, "{records:?}");
            is_shuffled |= !records.is_sorted_by(|a, b| a >= b);
        }
        assert!(is_shuffled, "the short messages are always the last ones");
    }

    proptest! {
        #[test]
        fn new__has_each_record_once(lengths in vec(0usize..4_000, 1..60), seed: u64) {
            let limits = Limits { window_bytes_max: 1 << 20, record_bytes_max: 3_000 };
            let records = lengths.len() as u64;
            let mut cutter = Cutter::new(Rule::Records(records), limits, Position::begin(5));
            for (offset, &bytes) in lengths.iter().enumerate() {
                let value = vec![1; bytes];
                let offset = 5 + offset as u64;
                let record = RecordRef { offset, value: Some(&value), ..RecordRef::default() };
                let group = if offset.is_multiple_of(7) { GroupId::EXACT } else { GroupId::at(0) };
                cutter.push(&record, group);
            }
            let cut = cutter.pop().unwrap();
            let sampling = Sampling::new(vec![Group { name: "all".into(), msr: 0.5 }]).unwrap();
            let stream = Stream {
                cluster: "c".into(),
                group: "g".into(),
                topic: "t".into(),
                ..Stream::default()
            };
            let packed = PackedWindow::new(&cut, &stream, &sampling, seed);
            let header = WindowHeader::parse(&packed.header.to_message()[1..]).unwrap();
            prop_assert_eq!(&header, packed.header());
            let mut seen: Vec<u64> = header.refused.ranges().flatten().collect();
            for message in packed.strata.iter().flat_map(|stratum| &stratum.messages) {
                prop_assert!(message.len() <= MESSAGE_BYTES || decode(&message[1..], cut.base).count() == 1);
                for record in decode(&message[1..], cut.base) {
                    seen.push(record.unwrap().offset);
                }
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (5..5 + records).collect::<Vec<_>>());
        }
    }
}
