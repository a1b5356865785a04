//! A CSV file as messages of whole records, for senders whose messages a query reads.
//!
//! The header and the totals travel in an exact group, a message each. A receiver needs no more
//! than the header to read the records of any message, and no more than the totals to know how many
//! records are missing.

use std::fmt;
use std::io::Read;
use std::iter;
use std::ops::Range;

use csv::{ByteRecord, ReaderBuilder, WriterBuilder};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::csv_text::CsvText;
use crate::division::{MESSAGE_BYTES, divided_evenly, even_parts, filled};
use crate::{QuoteError, Totals};

/// A CSV file in memory, divided into messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The record with the names of the columns, for a group of its own.
    pub header: Vec<u8>,
    /// Whole records each. They may differ in their number of packets, so send them without MRDF:
    /// it would deliver the short ones.
    pub messages: Vec<Vec<u8>>,
    /// The table's numbers of records and messages.
    pub totals: Totals,
    /// Records with a value of several lines.
    pub long_records: LongRecords,
    /// A name of a column that is a number: the file may have no header.
    pub number_in_header: Option<String>,
}

/// Records with a value of several lines. A stray quote may have made one of several records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongRecords {
    /// Their number.
    pub number: u64,
    /// The line on which the first one begins.
    pub first_line: u64,
}

/// The sentence for a user whose table has records of several lines.
impl fmt::Display for LongRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, first_line } = self;
        write!(
            f,
            "{number} records have values of several lines, the first at line {first_line}: if \
             they should not, a quote is stray there"
        )
    }
}

/// A CSV file that can't be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file has no first line.
    #[error("the CSV file is empty: its first line must name the columns")]
    Empty,
    /// A quote hides rows.
    #[error(transparent)]
    Quote(QuoteError),
    /// The file can't be read, or isn't CSV.
    #[error("reading the CSV {part}")]
    Read {
        /// The header, or a record.
        part: &'static str,
        /// The reader's error.
        source: csv::Error,
    },
}

/// The order of a table's records in its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordOrder {
    /// Shuffled by a random seed, so that any part of the messages is a fair sample.
    #[default]
    Shuffled,
    /// Shuffled by this seed.
    ShuffledBy(u64),
    /// That of the file.
    OfFile,
}

impl RecordOrder {
    /// The seed of the shuffling, a new one each time if none was chosen; `None` without shuffling.
    pub fn seed(self) -> Option<u64> {
        match self {
            Self::Shuffled => Some(rand::random()),
            Self::ShuffledBy(seed) => Some(seed),
            Self::OfFile => None,
        }
    }
}

impl Table {
    /// The group of [`Table::heads`], which is exact.
    pub const HEADER_GROUP: u8 = 255;
    /// The message of the header in its group.
    pub const HEADER_MESSAGE: u32 = 0;
    /// The message of the totals in that group.
    pub const TOTALS_MESSAGE: u32 = 1;
    /// The group of the records, [`Table::messages`].
    pub const ROWS_GROUP: u8 = 0;

    /// Reads a file with a header. A message has at most `rows` records, or as many as fit a
    /// packet. Shuffled records of like lengths are divided evenly.
    ///
    /// In a file of one column, an empty line is a record whose value is missing: its message has
    /// `""`. Other empty lines are no records, and neither is the end of the last line.
    ///
    /// # Errors
    /// The input can't be read, is empty or isn't CSV, or a quote hides rows.
    pub fn read(
        input: impl Read,
        rows: Option<u32>,
        order: RecordOrder,
    ) -> Result<Self, TableError> {
        let mut reader = ReaderBuilder::new().from_reader(CsvText::new(input));
        let columns = reader.byte_headers().map_err(|error| of(error, "header"))?;
        if columns.is_empty() {
            return Err(TableError::Empty);
        }
        let (header, number_in_header) = (line(columns)?, number_in(columns));
        let (mut lines, mut long_records) = (Vec::new(), LongRecords::default());
        for record in reader.byte_records() {
            let record = record.map_err(|error| of(error, "records"))?;
            if record.iter().any(|value| value.contains(&b'\n')) {
                if long_records.number == 0 {
                    long_records.first_line = record.position().map_or(0, csv::Position::line);
                }
                long_records.number += 1;
            }
            lines.push(line(&record)?);
        }
        let mut draws = order.seed().map(ChaCha8Rng::seed_from_u64);
        if let Some(draws) = &mut draws {
            lines.shuffle(draws);
        }
        let ends = ends(&lines);
        let bytes = |part: Range<usize>| ends[part.end] - ends[part.start];
        let number = lines.len();
        let parts = match (rows, &draws) {
            (Some(rows), _) => even_parts(number, number.div_ceil(rows.max(1) as usize)).collect(),
            (None, Some(_)) => divided_evenly(number, MESSAGE_BYTES, bytes),
            (None, None) => filled(number, MESSAGE_BYTES, bytes),
        };
        let mut messages: Vec<_> = parts.into_iter().map(|part| lines[part].concat()).collect();
        // Some messages have a record more than others. The last ones nearly never arrive of a job
        // that ends at its MSR, so these must not be the others.
        if let Some(draws) = &mut draws {
            messages.shuffle(draws);
        }
        let count = |number: usize| Some(number as u64);
        let totals = Totals { records: count(lines.len()), messages: count(messages.len()) };
        Ok(Self { header, messages, totals, long_records, number_in_header })
    }

    /// A note for its user before the table is sent, in a line; `None` if nothing looks odd.
    pub fn note(&self) -> Option<String> {
        let no_header = self.number_in_header.as_ref().map(|number| {
            format!(
                "the first line names the columns, and one name is the number {number}: if the \
                 file has no header, give it one, or its first record isn't counted"
            )
        });
        let long = (self.long_records.number > 0).then(|| self.long_records.to_string());
        let notes: Vec<String> = no_header.into_iter().chain(long).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The messages of the group [`Table::HEADER_GROUP`], in their order: the header, and the
    /// totals as [`Totals`] writes them. Receivers that know no totals need the header alone.
    pub fn heads(&self) -> [Vec<u8>; 2] {
        [self.header.clone(), self.totals.to_string().into_bytes()]
    }
}

/// The first of these values that is a number, but for years, which may name their columns.
fn number_in(columns: &ByteRecord) -> Option<String> {
    let values = columns.iter().filter_map(|value| str::from_utf8(value).ok()).map(str::trim);
    let is_year = |value: &str| value.parse().is_ok_and(|year: u32| (1800..2200).contains(&year));
    let is_number = |value: &str| value.parse().is_ok_and(f64::is_finite);
    values.filter(|value| !is_year(value)).find(|value| is_number(value)).map(str::to_owned)
}

/// Where each line begins and the last one ends, in bytes.
fn ends(lines: &[Vec<u8>]) -> Vec<usize> {
    let mut end = 0;
    let after = |line: &Vec<u8>| {
        end += line.len();
        end
    };
    iter::once(0).chain(lines.iter().map(after)).collect()
}

/// An error of the reader. That of a quote says where it is.
fn of(error: csv::Error, part: &'static str) -> TableError {
    let quote = match error.kind() {
        csv::ErrorKind::Io(error) => {
            error.get_ref().and_then(|error| error.downcast_ref::<QuoteError>()).copied()
        }
        _ => None,
    };
    quote.map_or(TableError::Read { part, source: error }, TableError::Quote)
}

/// A record as a line of CSV.
fn line(record: &ByteRecord) -> Result<Vec<u8>, TableError> {
    let failed = |source| TableError::Read { part: "records", source };
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    writer.write_byte_record(record).map_err(failed)?;
    writer.into_inner().map_err(|error| failed(error.into_error().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answering, Confidence};
    use rand::RngExt;

    const FILE: &str = "name,\"delay, min\"\nUA,1\n\"A\"\"B\",2\nDL,3\n";

    #[test]
    fn read__whole_records_in_messages() {
        let table = Table::read(FILE.as_bytes(), Some(2), RecordOrder::OfFile).unwrap();
        assert_eq!(table.header, b"name,\"delay, min\"\n");
        assert_eq!(table.messages, [b"UA,1\n\"A\"\"B\",2\n".to_vec(), b"DL,3\n".to_vec()]);
        let whole = Table::read(FILE.as_bytes(), None, RecordOrder::OfFile).unwrap();
        assert_eq!((whole.messages.len(), whole.long_records), (1, LongRecords::default()));
        let inches =
            Table::read(&b"k,v\n0,a\n1,\"b\n2,c\n3,5\"\n4,d\n"[..], None, RecordOrder::OfFile)
                .unwrap();
        assert_eq!(inches.long_records, LongRecords { number: 1, first_line: 3 });
    }

    #[test]
    fn read__empty_lines_of_a_single_column_are_records() {
        for (file, expected, records) in [
            ("v\n1\n\n3\n", "1\n\"\"\n3\n", 3.0),
            ("v\r\n1\r\n\r\n3\r\n", "1\n\"\"\n3\n", 3.0),
            ("v\n\"a\n\nb\"\n\n", "\"a\n\nb\"\n\"\"\n", 2.0),
            ("k,v\n1,2\n\n3,4\n", "1,2\n3,4\n", 2.0),
        ] {
            let table = Table::read(file.as_bytes(), None, RecordOrder::OfFile).unwrap();
            assert_eq!(String::from_utf8(table.messages.concat()).unwrap(), expected, "{file:?}");
            let count = "count(*)".parse().unwrap();
            let mut answering = Answering::of_csv(count, &table.header).unwrap();
            answering.set_messages_sent(0, 1).unwrap();
            answering.push_csv(0, &table.messages[0]).unwrap();
            let rows = answering.answers(Confidence::P95).unwrap().rows;
            assert_eq!(rows[0].estimate.value, records, "{file:?}");
        }
    }

    #[test]
    fn read__shuffles_and_loses_nothing() {
        let rows: Vec<String> = (0..1_000).map(|row| format!("{row}\n")).collect();
        let file = format!("n\n{}", rows.concat());
        let table = Table::read(file.as_bytes(), None, RecordOrder::Shuffled).unwrap();
        assert!(table.messages.iter().all(|message| message.len() <= MESSAGE_BYTES));
        let text = String::from_utf8(table.messages.concat()).unwrap();
        let mut read: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(!read.is_sorted());
        read.sort_unstable();
        assert!(read.into_iter().eq(0..1_000));
    }

    /// Messages that don't arrive are those at the end, so those of fewer records must not be there
    /// as a rule.
    #[test]
    fn read__divides_evenly_and_puts_the_shorter_anywhere() {
        let rows: String = (0..95).map(|row| format!("{row}\n")).collect();
        let file = format!("n\n{rows}");
        let read = |order| Table::read(file.as_bytes(), Some(10), order).unwrap().messages;
        let records = |message: &Vec<u8>| message.iter().filter(|byte| **byte == b'\n').count();
        let mut short = [0; 10];
        for seed in 0..1_000 {
            for (place, message) in read(RecordOrder::ShuffledBy(seed)).iter().enumerate() {
                assert!((9..=10).contains(&records(message)));
                short[place] += usize::from(records(message) == 9);
            }
        }
        assert!(short.iter().all(|times| (420..=580).contains(times)), "{short:?}");
        assert_eq!(read(RecordOrder::OfFile)[9], b"86\n87\n88\n89\n90\n91\n92\n93\n94\n");
    }

    /// One long record, or lengths that differ, must leave no other message short.
    #[test]
    fn read__divides_evenly_beside_long_records() {
        let mut draws = ChaCha8Rng::seed_from_u64(1);
        let mut files = vec![("like", vec![12; 4_000])];
        for long in [400, 700, 1_500] {
            let lens = (0..4_000).map(|i| if i == 9 { long } else { 12 });
            files.push(("one long", lens.collect()));
        }
        files.push(("uneven", (0..4_000).map(|_| draws.random_range(60..240)).collect()));
        for (name, lens) in files {
            let rows: String = lens.iter().map(|len| "x".repeat(*len) + "\n").collect();
            let file = format!("n\n{rows}");
            let table = Table::read(file.as_bytes(), None, RecordOrder::ShuffledBy(3)).unwrap();
            let records = |message: &Vec<u8>| message.iter().filter(|b| **b == b'\n').count();
            let counts: Vec<usize> = table.messages.iter().map(records).collect();
            let mean = 4_000 / counts.len();
            // The long record's part may be divided around it.
            let short = counts.iter().filter(|&&records| records < mean / 2).count();
            assert!(short <= 3, "{name}: {short} of {counts:?}");
        }
    }

    #[test]
    fn read__refuses_bad_files() {
        let hidden = format!("v,k\n1,a\n2,\"b\n{}", "3,c\n".repeat(50_000));
        for (file, words) in [
            ("", "is empty"),
            ("a,b\n1\n", "reading the CSV records"),
            (&hidden, "line 3: a quote opens a value and has no end"),
            ("v,k\n1,\"b\n2,c\n3,\"d\n", "ends in the middle of one of line 4"),
            ("v,\"k\n1,b\n", "line 1: a quote"),
            ("\u{feff}\"v,k\n1,b\n", "line 1: a quote"),
        ] {
            let error = Table::read(file.as_bytes(), None, RecordOrder::OfFile).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn note__names_a_number_in_the_header() {
        let note =
            |file: &str| Table::read(file.as_bytes(), None, RecordOrder::OfFile).unwrap().note();
        for (file, number) in [
            ("AA,12.5\nUA,7\n", "12.5"),
            ("UA,1530\n", "1530"),
            ("7\n8\n", "7"),
            ("a, -1e3 \n", "-1e3"),
        ] {
            let note = note(file).unwrap();
            assert!(note.contains(&format!("is the number {number}: ")), "{note}");
        }
        for file in ["carrier,delay\nUA,7\n", "country,2024,2025\nDE,1,2\n", "nan,inf\n1,2\n"] {
            assert_eq!(note(file), None);
        }
        let both = note("1\n\"2\n3\"\n").unwrap();
        assert!(both.contains("number 1:") && both.contains("; 1 records have"), "{both}");
    }

    #[test]
    fn read__the_same_seed_gives_the_same_messages() {
        let rows: String = (0..500).map(|row| format!("{row}\n")).collect();
        let read = |order| Table::read(format!("n\n{rows}").as_bytes(), Some(7), order).unwrap();
        assert_eq!(read(RecordOrder::ShuffledBy(7)), read(RecordOrder::ShuffledBy(7)));
        assert_ne!(read(RecordOrder::ShuffledBy(7)), read(RecordOrder::ShuffledBy(8)));
    }
}
