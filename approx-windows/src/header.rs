//! A window's first message, which tells which one it is, and its last, which tells which records
//! it has.

use crate::{
    error::MalformedError, offsets::Offsets, record::Base, sampling::needed, stream::Stream,
};
use serde::{Deserialize, Serialize};

/// The first byte of a message: its kind, and the version of its format.
pub(crate) const HEADER: u8 = 0x14;
/// The first byte of a window's first message.
pub(crate) const BEGIN: u8 = 0x13;
/// The only byte of a message that asks whether windows are received here.
pub(crate) const HELLO: u8 = 0x12;
/// The first byte of a message of records.
pub(crate) const RECORDS: u8 = 0x11;

/// The most records of a window: answers count them in floats.
const RECORDS_MAX: u64 = 1 << 53;

/// A window that has begun: which one it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowBegin {
    /// The stream.
    pub stream: Stream,
    /// As [`WindowHeader::epoch`].
    pub epoch: u64,
    /// As [`WindowHeader::number`].
    pub number: i64,
    /// As [`WindowHeader::part`].
    pub part: u32,
}

/// The header of a window, which is sent at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowHeader {
    /// The stream.
    pub stream: Stream,
    /// How often the stream was assigned to a sender, this time included.
    pub epoch: u64,
    /// The window's number: of windows by event time, the time divided by their length.
    pub number: i64,
    /// The part of the window, from 0 on. A window that is larger than its sender's memory has
    /// several.
    pub part: u32,
    /// Whether no part follows.
    pub is_last_part: bool,
    /// Event times of the window, milliseconds since 1970, the end excluded; `None` for windows by
    /// number.
    pub span_ms: Option<(i64, i64)>,
    /// The offsets of all records of the window.
    pub offsets: Offsets,
    /// The records that can't be sent: they are longer than the sender's limit.
    pub refused: Offsets,
    /// The number of records whose own window had ended before they came.
    pub late: u64,
    /// Earlier windows have all records below this offset.
    pub from: u64,
    /// This window and earlier ones have all records below this offset.
    pub resume: u64,
    /// The groups, by id.
    pub groups: Vec<GroupHeader>,
    pub(crate) base: Base,
}

/// A group of a window's records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupHeader {
    /// The id of the job's group.
    pub id: u8,
    /// The name.
    pub name: String,
    /// The minimal sampling rate of its records.
    pub msr: f64,
    /// The number of records.
    pub records: u64,
    /// The number of those that were drawn and sent. All of them arrive, unless `msr` is 0.
    pub sent: u64,
    /// Whether records that were sent take several packets each.
    pub has_long: bool,
}

impl WindowBegin {
    /// Reads the message behind its first byte.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, MalformedError> {
        postcard::from_bytes(bytes).map_err(MalformedError::Header)
    }

    /// Writes the message.
    pub(crate) fn to_message(&self) -> Vec<u8> {
        // Writing into memory fails for no value of these types.
        postcard::to_extend(self, vec![BEGIN]).expect("numbers and texts")
    }
}

impl WindowHeader {
    /// Reads the header behind the first byte of its message.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, MalformedError> {
        let header: Self = postcard::from_bytes(bytes).map_err(MalformedError::Header)?;
        header.check().map_err(MalformedError::WrongHeader)?;
        Ok(header)
    }

    /// Writes the message.
    pub(crate) fn to_message(&self) -> Vec<u8> {
        // Writing into memory fails for no value of these types.
        postcard::to_extend(self, vec![HEADER]).expect("numbers and texts")
    }

    /// Which window it is.
    pub fn begin(&self) -> WindowBegin {
        let Self { stream, epoch, number, part, .. } = self;
        WindowBegin { stream: stream.clone(), epoch: *epoch, number: *number, part: *part }
    }

    /// The number of records, those that can't be sent included.
    pub fn records(&self) -> u64 {
        self.offsets.len()
    }

    fn has_time(&self) -> bool {
        self.span_ms.is_none_or(|(start_ms, end_ms)| start_ms < end_ms)
    }

    fn check(&self) -> Result<(), &'static str> {
        let is_sorted = self.groups.is_sorted_by(|a, b| a.id < b.id);
        let records =
            self.groups.iter().try_fold(0u64, |sum, group| sum.checked_add(group.records));
        let sent = self.offsets.without(&self.refused);
        let is_least = |first| first >= self.from;
        let checks = [
            (is_sorted, "its groups aren't in order"),
            (self.groups.iter().all(|group| (0.0..=1.0).contains(&group.msr)), "an MSR"),
            (records == Some(sent.len()), "the number of its records"),
            (
                self.groups.iter().all(GroupHeader::has_needed),
                "the number of records that were sent",
            ),
            (self.refused.without(&self.offsets).is_empty(), "the records that can't be sent"),
            (self.from <= self.resume, "the offsets before it"),
            (self.offsets.first().is_none_or(is_least), "its first offset"),
            (self.records() <= RECORDS_MAX, "too many records"),
            (self.has_time(), "its event times"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(why))
    }
}

impl GroupHeader {
    fn has_needed(&self) -> bool {
        (needed(self.msr, self.records)..=self.records).contains(&self.sent)
    }
}

/// The window in the words of a log: `readings [3], window 17`.
impl std::fmt::Display for WindowBegin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, window {}", self.stream, self.number)?;
        if self.part > 0 { write!(f, ", part {}", self.part + 1) } else { Ok(()) }
    }
}

/// The window in the words of a log: `readings [3], window 17`.
impl std::fmt::Display for WindowHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, window {}", self.stream, self.number)?;
        match (self.part, self.is_last_part) {
            (0, true) => Ok(()),
            (part, _) => write!(f, ", part {}", part + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check__refuses_times_and_numbers_that_can_t_be() {
        let header = |span_ms, end| {
            let mut offsets = Offsets::default();
            offsets.insert_range(0..end);
            WindowHeader {
                stream: Stream::default(),
                epoch: 0,
                number: 0,
                part: 0,
                is_last_part: true,
                span_ms,
                refused: offsets.clone(),
                offsets,
                late: 0,
                from: 0,
                resume: end,
                groups: vec![],
                base: Base::default(),
            }
        };
        for (span_ms, end, expected) in [
            (None, 5, Ok(())),
            (Some((-7, 3)), 5, Ok(())),
            (Some((3, 3)), 5, Err("its event times")),
            (Some((0, i64::MIN)), 5, Err("its event times")),
            (None, 1 << 54, Err("too many records")),
        ] {
            assert_eq!(header(span_ms, end).check(), expected, "{span_ms:?}, {end}");
        }
    }
}
