//! A CSV file as messages of whole records, for `send --csv`.
//!
//! The header travels alone in an exact group. A receiver needs no more than that to read the
//! records of any message.

use anyhow::{Context, Result, ensure};
use approx_answers::{CsvQuotes, QuoteError};
use csv::{ByteRecord, ReaderBuilder, WriterBuilder};
use rand::{SeedableRng, seq::SliceRandom};
use std::io::{self, Read};

/// The group of the header: exact, one message.
pub const HEADER_GROUP: u8 = 255;
/// The name of the header's group.
pub const HEADER_NAME: &str = "header";
/// The group of the records.
pub const ROWS_GROUP: u8 = 0;
/// The name of the records' group.
pub const ORDERED_NAME: &str = "rows in order";
/// The name of the records' group if they are shuffled.
pub const SHUFFLED_NAME: &str = "rows, shuffled";

/// Records of a message as long as fit here, so that it fits a packet of most paths.
const MESSAGE_BYTES: usize = 1_400;

/// A CSV file in memory, divided into messages.
#[derive(Debug)]
pub struct Table {
    pub header: Vec<u8>,
    pub messages: Vec<Vec<u8>>,
    pub long_records: LongRecords,
}

/// Records with a value of several lines. A stray quote may have made one of several records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongRecords {
    pub number: u64,
    /// The line on which the first one begins.
    pub first_line: u64,
}

impl Table {
    /// Reads a file with a header. A message has `rows` records, or as many as fit a packet.
    /// `shuffle` changes the order of the records, by a random seed.
    pub fn read(input: impl Read, rows: Option<u32>, shuffle: bool) -> Result<Self> {
        let mut reader = ReaderBuilder::new().from_reader(Strict::new(input));
        let columns = reader.byte_headers().map_err(|error| of(error, "reading the CSV header"))?;
        ensure!(!columns.is_empty(), "the CSV file is empty: its first line must name the columns");
        let header = line(columns)?;
        let (mut lines, mut long_records) = (Vec::new(), LongRecords::default());
        for record in reader.byte_records() {
            let record = record.map_err(|error| of(error, "reading a CSV record"))?;
            if record.iter().any(|value| value.contains(&b'\n')) {
                if long_records.number == 0 {
                    long_records.first_line = record.position().map_or(0, csv::Position::line);
                }
                long_records.number += 1;
            }
            lines.push(line(&record)?);
        }
        if shuffle {
            lines.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(rand::random()));
        }
        let mut messages: Vec<Vec<u8>> = Vec::new();
        let mut in_last = 0;
        for line in lines {
            let fits = |last: &Vec<u8>| match rows {
                Some(rows) => in_last < rows,
                None => last.len() + line.len() <= MESSAGE_BYTES,
            };
            match messages.last_mut().filter(|last| fits(last)) {
                Some(last) => {
                    last.extend(line);
                    in_last += 1;
                }
                None => {
                    messages.push(line);
                    in_last = 1;
                }
            }
        }
        Ok(Self { header, messages, long_records })
    }
}

/// Text of CSV. Quotes that hide rows from its reader are an error.
struct Strict<R> {
    input: R,
    quotes: CsvQuotes,
}

impl<R: Read> Strict<R> {
    fn new(input: R) -> Self {
        Self { input, quotes: CsvQuotes::of_file() }
    }
}

impl<R: Read> Read for Strict<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(out)?;
        let checked = match len {
            0 if !out.is_empty() => self.quotes.end(),
            _ => self.quotes.push(&out[..len]),
        };
        checked.map(|()| len).map_err(io::Error::other)
    }
}

/// An error of the reader. That of a quote says where it is.
fn of(error: csv::Error, doing: &'static str) -> anyhow::Error {
    let quote = match error.kind() {
        csv::ErrorKind::Io(error) => {
            error.get_ref().and_then(|error| error.downcast_ref::<QuoteError>()).copied()
        }
        _ => None,
    };
    quote.map_or_else(|| anyhow::Error::new(error).context(doing), anyhow::Error::new)
}

/// A record as a line of CSV.
fn line(record: &ByteRecord) -> Result<Vec<u8>> {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    writer.write_byte_record(record)?;
    writer.into_inner().context("writing a CSV record")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name,\"delay, min\"\nUA,1\n\"A\"\"B\",2\nDL,3\n";

    #[test]
    fn read__whole_records_in_messages() {
        let table = Table::read(FILE.as_bytes(), Some(2), false).unwrap();
        assert_eq!(table.header, b"name,\"delay, min\"\n");
        assert_eq!(table.messages, [b"UA,1\n\"A\"\"B\",2\n".to_vec(), b"DL,3\n".to_vec()]);
        let whole = Table::read(FILE.as_bytes(), None, false).unwrap();
        assert_eq!((whole.messages.len(), whole.long_records), (1, LongRecords::default()));
        let inches = Table::read(&b"k,v\n0,a\n1,\"b\n2,c\n3,5\"\n4,d\n"[..], None, false).unwrap();
        assert_eq!(inches.long_records, LongRecords { number: 1, first_line: 3 });
    }

    #[test]
    fn read__shuffles_and_loses_nothing() {
        let rows: Vec<String> = (0..1_000).map(|row| format!("{row}\n")).collect();
        let file = format!("n\n{}", rows.concat());
        let table = Table::read(file.as_bytes(), None, true).unwrap();
        assert!(table.messages.iter().all(|message| message.len() <= MESSAGE_BYTES));
        let text = String::from_utf8(table.messages.concat()).unwrap();
        let mut read: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(!read.is_sorted());
        read.sort_unstable();
        assert!(read.into_iter().eq(0..1_000));
    }

    #[test]
    fn read__refuses_bad_files() {
        let hidden = format!("v,k\n1,a\n2,\"b\n{}", "3,c\n".repeat(50_000));
        for (file, words) in [
            ("", "is empty"),
            ("a,b\n1\n", "reading a CSV record"),
            (&hidden, "line 3: a quote opens a value and has no end"),
            ("v,k\n1,\"b\n2,c\n3,\"d\n", "ends in the middle of one of line 4"),
            ("v,\"k\n1,b\n", "line 1: a quote"),
            ("\u{feff}\"v,k\n1,b\n", "line 1: a quote"),
        ] {
            let error = Table::read(file.as_bytes(), None, false).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{error:#}");
        }
    }
}
