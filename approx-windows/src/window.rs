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
    /// Offsets before the window that no window has brought: see [`Counted::skipped`].
    ///
    /// [`Counted::skipped`]: crate::Counted::skipped
    pub skipped: u64,
    /// The run and the window of the sender's job.
    pub(crate) key: (u64, u32),
}

/// The records of a stratum.
#[derive(Clone, Debug)]
pub struct ReceivedGroup {
    /// The stratum.
    pub header: GroupHeader,
    /// The records that arrived and count, message by message.
    pub records: Vec<Record>,
    /// The number of records that arrived, also of those that were counted before.
    pub arrived: u64,
    /// The end of each message's records in `records`, of all messages that arrived.
    ends: Vec<usize>,
}

impl ReceivedGroup {
    /// The messages that arrived, with those of their records that count. Messages are the clusters
    /// of the sample: a message arrives as a whole or not at all.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &[Record]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.records[std::mem::replace(&mut start, end)..end])
    }
}

impl ReceivedWindow {
    /// The records that are longer than the limit of their sender, and weren't counted before.
    pub fn refused(&self) -> Offsets {
        match &self.count {
            Count::Whole => self.header.refused.clone(),
            Count::Repeated => Offsets::default(),
            Count::Partly(new) => self.header.refused.without(&self.header.refused.without(new)),
        }
    }

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
            Count::Whole => true,
            Count::Repeated => false,
            Count::Partly(offsets) => offsets.contains(offset),
        };
        let empty = |group: &GroupHeader| ReceivedGroup {
            header: group.clone(),
            records: vec![],
            arrived: 0,
            ends: vec![],
        };
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
                groups[group].arrived += 1;
                if counts(record.offset) {
                    groups[group].records.push(record.to_record());
                }
            }
            let end = groups[group].records.len();
            groups[group].ends.push(end);
        }
        for ReceivedGroup { header, arrived, ends, .. } in &groups {
            if *arrived > header.records {
                return Err(MalformedError::WrongHeader("the number of a group's records"));
            }
            if ends.len() > header.messages as usize {
                return Err(MalformedError::WrongHeader("the number of a group's messages"));
            }
        }
        if let Count::Partly(offsets) = &count {
            expected = offsets.without(&header.refused);
        }
        let lost = expected.without(&arrived);
        Ok(Self { header, count, groups, lost, skipped: 0, key })
    }
}

/// The header, if this message is one.
pub(crate) fn parse_header(message: &[u8]) -> Option<Result<WindowHeader, MalformedError>> {
    match message.split_first() {
        Some((&HEADER, body)) => Some(WindowHeader::parse(body)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Cutter, Group, GroupId, Limits, PackedWindow, Position, RecordRef, Rule, Sampling, Stream,
    };

    /// A window of 40 records, every 10th of which is too long, with its messages.
    fn packed() -> PackedWindow {
        let limits = Limits { window_bytes_max: 1 << 20, record_bytes_max: 1_000 };
        let mut cutter = Cutter::new(Rule::Records(40), limits, Position::begin(0));
        for offset in 0..40 {
            let value = vec![1; if offset % 10 == 9 { 2_000 } else { 300 }];
            let record = RecordRef { offset, value: Some(&value), ..RecordRef::default() };
            cutter.push(&record, GroupId::at(0));
        }
        let sampling = Sampling::new(vec![Group { name: "all".into(), msr: 0.5 }]).unwrap();
        PackedWindow::new(&cutter.pop().unwrap(), &Stream::default(), &sampling, 7)
    }

    fn received(packed: &PackedWindow, messages: usize, count: Count) -> ReceivedWindow {
        let of_stratum = packed.strata[1].messages.iter().take(messages);
        let messages: Vec<_> = of_stratum.map(|message| (1, message.clone())).collect();
        ReceivedWindow::new((1, 0), packed.header().clone(), &messages, count).unwrap()
    }

    #[test]
    fn new__of_a_part_has_what_counts() {
        let packed = packed();
        let mut new = Offsets::default();
        new.insert_range(15..40);
        let window = received(&packed, 4, Count::Partly(new));
        let group = &window.groups[1];
        assert_eq!(group.messages().len(), 4);
        assert_eq!(group.messages().flatten().count(), group.records.len());
        assert!(group.records.iter().all(|record| record.offset >= 15));
        assert_eq!(group.arrived, received(&packed, 4, Count::Whole).received());
        // Those that can't be sent aren't lost.
        assert!(window.lost.without(&window.header.refused) == window.lost);
        assert_eq!(window.received() + window.lost.len() + 3, 25);
    }

    #[test]
    fn new__refuses_more_messages_than_the_header_has() {
        let packed = packed();
        let mut header = packed.header().clone();
        header.groups[1].messages = 2;
        let messages: Vec<_> =
            packed.strata[1].messages.iter().map(|message| (1, message.clone())).collect();
        let count = Count::Whole;
        let error = ReceivedWindow::new((1, 0), header, &messages, count).unwrap_err();
        assert!(error.to_string().contains("messages"), "{error}");
    }
}
