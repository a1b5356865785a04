//! The records that two libraries send each other over TCP, with the programs' bytes or an end.
//!
//! An end of a stream alone proves nothing: the kernel ends the connections of a killed process as
//! well. So both ends of a program's bytes, the good one and the reset, are told in words.

use std::io::{self, ErrorKind, Read, Write};

/// The most bytes of one record.
pub const BYTES_MAX: usize = 65_536;

const END: u32 = 0;
const RESET: u32 = u32::MAX;
const CONFIRMED: u32 = u32::MAX - 1;

/// A part of what one library tells the other: four bytes, big-endian, and for [`Record::Bytes`] so
/// many bytes.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// Bytes of the program; at least one.
    Bytes(Vec<u8>),
    /// The program has ended its bytes, and all of them were told.
    End,
    /// The program's connection was reset, after the bytes that were told.
    Reset,
    /// The other library's `End` or `Reset` is here, and everything before it.
    Confirmed,
}

impl Record {
    /// Writes the record with one call, so that it shares no packet with a part of another one.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let (word, bytes) = match self {
            Self::Bytes(bytes) => (bytes.len() as u32, &bytes[..]),
            Self::End => (END, &[][..]),
            Self::Reset => (RESET, &[][..]),
            Self::Confirmed => (CONFIRMED, &[][..]),
        };
        to.write_all(&[&word.to_be_bytes(), bytes].concat())
    }

    /// The next record. A connection that ends without one gives `UnexpectedEof`.
    pub fn read(mut from: impl Read) -> io::Result<Self> {
        let mut word = [0; 4];
        from.read_exact(&mut word)?;
        Ok(match u32::from_be_bytes(word) {
            END => Self::End,
            RESET => Self::Reset,
            CONFIRMED => Self::Confirmed,
            len if len as usize <= BYTES_MAX => {
                let mut bytes = vec![0; len as usize];
                from.read_exact(&mut bytes)?;
                Self::Bytes(bytes)
            }
            _ => return Err(io::Error::new(ErrorKind::InvalidData, "it isn't a record")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read__gives_what_was_written() {
        let records = || {
            let bytes = [vec![7], vec![8; BYTES_MAX]].map(Record::Bytes);
            bytes.into_iter().chain([Record::Confirmed, Record::Reset, Record::End])
        };
        let mut written = Vec::new();
        records().for_each(|record| record.write(&mut written).unwrap());
        let mut from = &written[..];
        records().for_each(|record| assert_eq!(Record::read(&mut from).unwrap(), record));
        assert!(from.is_empty(), "{} bytes more", from.len());
    }

    /// A connection that breaks off is no end, wherever it does.
    #[test]
    fn read__takes_no_missing_bytes_for_an_end() {
        let mut written = Vec::new();
        Record::Bytes(vec![1, 2, 3]).write(&mut written).unwrap();
        for len in 0..written.len() {
            let error = Record::read(&written[..len]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "after {len} bytes");
        }
        let error = Record::read(&[0, 1, 0, 1][..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
