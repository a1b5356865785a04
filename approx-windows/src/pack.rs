//! Packs the records of a window into messages.

use crate::{
    cutter::Cut,
    header::{GroupHeader, RECORDS, WindowHeader},
    position::Position,
    sampling::{MESSAGE_BYTES, Sampling, Stratum},
    stream::Stream,
};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

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
    let (mut messages, mut numbers) = (Vec::<Vec<u8>>::new(), Vec::<u64>::new());
    for record in records {
        let fits = |message: &&mut Vec<u8>| message.len() + record.len() <= MESSAGE_BYTES;
        match messages.last_mut().filter(fits) {
            Some(message) => {
                message.extend_from_slice(record);
                *numbers.last_mut().expect("one per message") += 1;
            }
            None => {
                let mut message = Vec::with_capacity(MESSAGE_BYTES.max(1 + record.len()));
                message.push(RECORDS);
                message.extend_from_slice(record);
                messages.push(message);
                numbers.push(1);
            }
        }
    }
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
                partition: 0,
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
