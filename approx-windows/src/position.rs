//! A place in a stream from which its windows are cut again in the same way.
//!
//! Windows by event time overlap in the stream: the first records of a window come before the last
//! ones of the window before. So the offset behind a window isn't enough to go on. A stream is read
//! again from the first record of the oldest window that is still open. On the way it meets records
//! that were sent, and must give each record the same window as before.
//!
//! An example, with windows of 10 ms and a watermark delay of 3 ms. Record 3 closes window 0:
//!
//! | offset | 0 | 1 | 2 | 3 |
//! |---|---|---|---|---|
//! | event time, ms | 1 | 11 | 9 | 13 |
//! | window | 0 | 1 | 0 | 1 |
//!
//! The position behind window 0 has `offset` 1, the first record of window 1. Record 2 is read
//! again. It is before `closed_at`, which is 4, and its window is below `sent_below`, which is 1:
//! it was sent, and is skipped. A late record of window 0 from offset 4 on wasn't sent, and goes
//! into window 1. `open_from` and `time_max_ms` are those before record 1, from which the watermark
//! takes the same way as before.

use crate::rule::Rule;
use std::{collections::HashMap, fmt, str::FromStr};

/// Where a stream is read again after the windows so far, and what a [`Cutter`](crate::Cutter)
/// must know of the records before. As a text it fits the metadata of a committed offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The first offset to read: all records before are in the windows so far.
    pub offset: u64,
    /// How often the stream was assigned to a sender.
    pub epoch: u64,
    /// The rule of the windows so far; `None` before the first.
    pub rule: Option<Rule>,
    /// Windows below this number are sent, but for their records from `closed_at` on.
    pub sent_below: i64,
    /// The parts of the window `sent_below` that are sent.
    pub parts: u32,
    /// The offset at which the windows so far were closed. Records before it that belong to them
    /// were sent.
    pub closed_at: u64,
    /// The least number of a window that was open at `offset`.
    pub open_from: i64,
    /// The greatest event time before `offset`; `i64::MIN` for none.
    pub time_max_ms: i64,
}

const VERSION: &str = "atp1";

impl Position {
    /// The position of a stream of which nothing was sent.
    pub fn begin(offset: u64) -> Self {
        Self {
            offset,
            open_from: i64::MIN,
            sent_below: i64::MIN,
            time_max_ms: i64::MIN,
            ..Self::default()
        }
    }

    /// The position with this offset, in the text of [`Position`]'s `Display`. `None` if the text
    /// is another program's, or of another version.
    pub fn parse(offset: u64, text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next() != Some(VERSION) {
            return None;
        }
        let fields: HashMap<&str, &str> =
            words.map(|word| word.split_once('=')).collect::<Option<_>>()?;
        fn field<T: FromStr>(fields: &HashMap<&str, &str>, name: &str) -> Option<T> {
            fields.get(name)?.parse().ok()
        }
        Some(Self {
            offset,
            epoch: field(&fields, "epoch")?,
            // Windows by a rule that this version doesn't know can't be followed.
            rule: match fields.get("rule") {
                None => None,
                Some(rule) => Some(rule.parse().ok()?),
            },
            sent_below: field(&fields, "sent")?,
            parts: field(&fields, "parts")?,
            closed_at: field(&fields, "closed")?,
            open_from: field(&fields, "open")?,
            time_max_ms: field(&fields, "time")?,
        })
    }
}

/// All but the offset.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, sent_below, parts, closed_at, open_from, time_max_ms, .. } = self;
        write!(f, "{VERSION} epoch={epoch}")?;
        if let Some(rule) = self.rule {
            write!(f, " rule={rule}")?;
        }
        write!(
            f,
            " sent={sent_below} parts={parts} closed={closed_at} open={open_from} \
             time={time_max_ms}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse__reads_what_display_writes() {
        let rule = Some(Rule::Records(5));
        let position = Position { epoch: 3, rule, sent_below: -7, parts: 2, ..Position::begin(9) };
        assert_eq!(Position::parse(9, &position.to_string()), Some(position));
        for other in ["", "committed by hand", "atp2 epoch=1", "atp1 epoch=1", "atp1 epoch"] {
            assert_eq!(Position::parse(9, other), None, "{other}");
        }
    }
}
