//! A window as its receiver gets it.

use crate::{
    counted::Count,
    error::MalformedError,
    header::{GroupHeader, RECORDS, WindowHeader},
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
    /// The groups, by id.
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

/// The records of a group.
#[derive(Clone, Debug)]
pub struct ReceivedGroup {
    /// The group.
    pub header: GroupHeader,
    /// The records that arrived and count.
    pub records: Vec<Record>,
    /// The number of records that arrived, also of those that were counted before.
    pub arrived: u64,
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
        }
        // A sample from which some are missing isn't the one that was drawn.
        let is_whole = |group: &ReceivedGroup| match group.header.msr {
            0.0 => group.arrived <= group.header.sent,
            _ => group.arrived == group.header.sent,
        };
        if !groups.iter().all(is_whole) {
            return Err(MalformedError::WrongHeader("the number of records that were sent"));
        }
        if let Count::Partly(offsets) = &count {
            expected = offsets.without(&header.refused);
        }
        let lost = expected.without(&arrived);
        Ok(Self { header, count, groups, lost, skipped: 0, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        GroupId, OutgoingWindow,
        testing::{received, sampling, window},
    };

    /// A window of 40 records, every 10th of which is too long.
    fn sent(msr: f64) -> OutgoingWindow {
        let value = |offset| Some(vec![1; if offset % 10 == 9 { 4_000 } else { 300 }]);
        let values: Vec<_> = (0..40).map(value).collect();
        window(&values, sampling(&[("all", msr)]), |_| GroupId::at(0), 7)
    }

    #[test]
    fn new__of_a_part_has_what_counts() {
        let mut new = Offsets::default();
        new.insert_range(15..40);
        let sent = sent(0.5);
        let window = received(&sent, |_, _| true, Count::Partly(new)).unwrap();
        let group = &window.groups[1];
        assert!(group.records.iter().all(|record| record.offset >= 15));
        assert_eq!(group.arrived, group.header.sent);
        assert_eq!(window.sample().count() as u64, group.arrived);
        assert_eq!(window.sample().flat_map(|(_, record)| record).count(), group.records.len());
        // Those that can't be sent aren't lost.
        assert!(window.lost.without(&window.header.refused) == window.lost);
        assert_eq!(window.received() + window.lost.len() + 3, 25);
    }

    /// Without a part of them the others are no random sample.
    #[test]
    fn new__refuses_a_sample_that_is_not_whole() {
        let sent = sent(0.5);
        let error = received(&sent, |_, at| at != 1, Count::Whole).unwrap_err();
        assert!(error.to_string().contains("were sent"), "{error}");
        assert!(received(&self::sent(0.0), |_, at| at != 1, Count::Whole).is_ok());
    }

    #[test]
    fn new__refuses_records_twice() {
        let mut sent = sent(0.5);
        let again = sent.messages[0].clone();
        sent.messages.push(again);
        let error = received(&sent, |_, _| true, Count::Whole).unwrap_err();
        assert!(matches!(error, MalformedError::Foreign(_)), "{error}");
    }
}
