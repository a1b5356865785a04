//! A window as its receiver gets it.

use crate::{
    counted::Count,
    error::MalformedError,
    header::{GroupHeader, HEADER, RECORDS, WindowHeader},
    offsets::Offsets,
    record::{Record, decode},
};

/// A window that has ended, with the records that arrived. It awaits
/// [`Inbox::confirm`](crate::Inbox::confirm).
#[derive(Clone, Debug)]
pub struct ReceivedWindow {
    /// The header.
    pub header: WindowHeader,
    /// How many of its records count: those that were counted before aren't here.
    pub count: Count,
    /// One entry per stratum, by id.
    pub groups: Vec<ReceivedGroup>,
    /// The records that count and didn't arrive.
    pub lost: Offsets,
    /// The run and the window of the sender's job.
    pub(crate) key: (u64, u32),
}

/// The records of a stratum.
#[derive(Clone, Debug)]
pub struct ReceivedGroup {
    /// The stratum.
    pub header: GroupHeader,
    /// Its records that arrived and count, in no order.
    pub records: Vec<Record>,
}

impl ReceivedWindow {
    /// The records that arrived and count.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.groups.iter().flat_map(|group| &group.records)
    }

    /// The number of records that arrived and count.
    pub fn received(&self) -> u64 {
        self.groups.iter().map(|group| group.records.len() as u64).sum()
    }

    /// Puts the messages of an ended window together.
    pub(crate) fn new(
        key: (u64, u32),
        header: WindowHeader,
        messages: &[(u8, Vec<u8>)],
        count: Count,
    ) -> Result<Self, MalformedError> {
        let mut expected = header.offsets.without(&header.refused);
        let counts = |offset| match &count {
            Count::Whole { .. } => true,
            Count::Repeated => false,
            Count::Partly(offsets) => offsets.contains(offset),
        };
        let empty = |group: &GroupHeader| ReceivedGroup { header: group.clone(), records: vec![] };
        let mut groups: Vec<_> = header.groups.iter().map(empty).collect();
        let mut arrived = Offsets::default();
        for (id, message) in messages {
            let group = groups.binary_search_by_key(id, |group| group.header.id);
            let Ok(group) = group else { return Err(MalformedError::Kind) };
            let Some((&RECORDS, records)) = message.split_first() else {
                return Err(MalformedError::Kind);
            };
            for record in decode(records, header.base) {
                let record = record?;
                if !expected.contains(record.offset) || arrived.contains(record.offset) {
                    return Err(MalformedError::Foreign(record.offset));
                }
                arrived.insert(record.offset);
                if counts(record.offset) {
                    groups[group].records.push(record.to_record());
                }
            }
        }
        for group in &groups {
            if group.records.len() as u64 > group.header.records {
                return Err(MalformedError::WrongHeader("the number of a group's records"));
            }
        }
        if let Count::Partly(offsets) = &count {
            expected = offsets.clone();
        }
        let lost = expected.without(&arrived);
        Ok(Self { header, count, groups, lost, key })
    }
}

/// The header, if this message is one.
pub(crate) fn parse_header(message: &[u8]) -> Option<Result<WindowHeader, MalformedError>> {
    match message.split_first() {
        Some((&HEADER, body)) => Some(WindowHeader::parse(body)),
        _ => None,
    }
}
