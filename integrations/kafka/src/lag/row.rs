//! The state of one partition.

use super::Group;
use crate::{config::Start, send::Committed};
use approx_windows::{Position, Rule};
use serde::Serialize;

/// The brokers' answers about a partition.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    pub topic: &'a str,
    pub partition: i32,
    /// The first offset that is there, and the next one that is written.
    pub log: (u64, u64),
    pub committed: Option<u64>,
    /// The text beside the committed offset.
    pub text: &'a str,
}

/// A partition. A value that isn't known is `null`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub topic: String,
    pub partition: i32,
    /// The first offset that is there.
    pub start: u64,
    /// The next offset that is written.
    pub end: u64,
    pub committed: Option<u64>,
    /// Offsets from the committed one to the end. Each has a record, but for those of transactions:
    /// the mark of their end, and the records of aborted ones.
    pub lag: Option<u64>,
    /// The number of the next window.
    pub window: Option<i64>,
    /// The part of that window: above 0 if parts of it are confirmed.
    pub part: Option<u32>,
    /// How often the partition was assigned.
    pub epoch: Option<u64>,
    /// The end of the last confirmed window, milliseconds of event time since 1970.
    pub confirmed_until_ms: Option<i64>,
    /// The time of the commit, milliseconds since 1970.
    pub committed_at_ms: Option<u64>,
    /// Everything that an operator must know.
    pub notes: Vec<String>,
}

impl Row {
    pub fn new(found: Found<'_>, group: Group) -> Self {
        let Found { topic, partition, log: (start, end), committed, text } = found;
        let mut row = Self {
            topic: topic.to_owned(),
            partition,
            start,
            end,
            committed,
            lag: None,
            window: None,
            part: None,
            epoch: None,
            confirmed_until_ms: None,
            committed_at_ms: None,
            notes: Vec::new(),
        };
        match committed {
            Some(offset) => row.take(offset, Committed::parse(offset, text), text, group.rule),
            None => row.take_none(group.start),
        }
        row
    }

    fn take_none(&mut self, start: Start) {
        let note = match start {
            Start::Earliest => {
                self.lag = Some(self.end - self.start.min(self.end));
                "nothing committed: a bridge begins at the first record"
            }
            Start::Latest => "nothing committed: a bridge begins at the next record",
        };
        self.notes.push(note.to_owned());
    }

    fn take(&mut self, offset: u64, known: Option<Committed>, text: &str, rule: Rule) {
        let Self { start, end, .. } = *self;
        // A bridge can't read records before the first one that is there.
        self.lag = end.checked_sub(offset.max(start));
        if offset > end {
            self.notes.push(
                "the committed offset is behind the end: the topic was deleted and created again, \
                 give the bridge another `group`"
                    .to_owned(),
            );
        } else if offset < start {
            self.notes.push(format!("{} records expired before they were sent", start - offset));
        }
        let Some(known) = known else {
            self.notes.push(match text {
                "" => "committed by another program: windows begin anew at its offset".to_owned(),
                _ => format!(
                    "committed by another program, with the text {text:?}: windows begin anew at \
                     its offset"
                ),
            });
            return;
        };
        self.epoch = Some(known.position.epoch);
        self.committed_at_ms = known.at_ms;
        if let Some(before) = known.position.rule.filter(|before| !rule.can_follow(*before)) {
            self.notes.push(format!(
                "committed under the rule {before}, not {rule}: windows begin anew at its offset"
            ));
            return;
        }
        let Position { sent_below, parts, open_from, .. } = known.position;
        match rule {
            // The first window is 0.
            Rule::Records(_) => self.window = Some(sent_below.max(open_from).max(0)),
            Rule::Time { length_ms, .. } if sent_below > i64::MIN => {
                let length_ms = i64::try_from(length_ms).unwrap_or(i64::MAX);
                self.window = Some(sent_below);
                self.confirmed_until_ms = Some(sent_below.saturating_mul(length_ms));
            }
            Rule::Time { .. } => self.notes.push("no window is confirmed".to_owned()),
        }
        self.part = self.window.map(|_| parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule::Time { length_ms: 1_000, watermark_delay_ms: 0 };

    fn row(log: (u64, u64), committed: Option<u64>, text: &str, rule: Rule) -> Row {
        let found = Found { topic: "t", partition: 0, log, committed, text };
        Row::new(found, Group { rule, start: Start::Earliest })
    }

    fn text(sent_below: i64, parts: u32) -> String {
        let rule = Some(RULE);
        let position = Position { epoch: 4, rule, sent_below, parts, ..Position::begin(0) };
        format!("{position} at=5")
    }

    #[test]
    fn new__reads_the_position() {
        let row = row((10, 90), Some(50), &text(7, 2), RULE);
        assert_eq!(
            (row.lag, row.window, row.part, row.epoch),
            (Some(40), Some(7), Some(2), Some(4))
        );
        assert_eq!((row.confirmed_until_ms, row.committed_at_ms), (Some(7_000), Some(5)));
        assert!(row.notes.is_empty(), "{:?}", row.notes);
    }

    #[test]
    fn new__counts_records_and_numbers_windows_from_zero() {
        let rule = Rule::Records(5);
        let begun = Position::begin(0).to_string();
        let row = row((0, 3), Some(0), &begun, rule);
        assert_eq!((row.lag, row.window, row.confirmed_until_ms), (Some(3), Some(0), None));
        assert!(row.notes.is_empty());
    }

    #[test]
    fn new__says_what_is_odd() {
        let begun = Position::begin(9).to_string();
        for (log, committed, text, lag, note) in [
            ((4, 9), None, "", Some(5), "nothing committed: a bridge begins at the first"),
            ((0, 9), Some(3), "", Some(6), "committed by another program: windows begin anew"),
            ((0, 9), Some(3), "by hand", Some(6), "program, with the text \"by hand\": windows"),
            ((0, 9), Some(12), &text(7, 0), None, "the committed offset is behind the end"),
            ((5, 9), Some(3), &text(7, 0), Some(4), "2 records expired before they were sent"),
            ((0, 9), Some(9), &begun, Some(0), "no window is confirmed"),
            (
                (0, 9),
                Some(3),
                "atp1 epoch=2 rule=records:5 sent=0 parts=0 closed=0 open=0 time=0",
                Some(6),
                "under the rule records:5, not time:1000:0: windows begin anew",
            ),
        ] {
            let row = row(log, committed, text, RULE);
            assert_eq!(row.lag, lag, "{note}");
            assert!(row.notes.len() == 1 && row.notes[0].contains(note), "{:?}", row.notes);
        }
    }
}
