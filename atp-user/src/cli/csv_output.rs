//! Writes a table that arrives as CSV: one header, and then the records. They may arrive before it,
//! in a group of their own.

use anyhow::{Result, bail};
use approx_answers::Table;
use approx_frames::FrameReader;
use std::{io::Write, net::SocketAddr};

/// The most bytes of records that wait for the header. A sender sends it first.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The header that was written, and the records that wait for one.
#[derive(Debug, Default)]
pub struct CsvOutput {
    header: Option<Vec<u8>>,
    held: Vec<u8>,
}

impl CsvOutput {
    /// Takes in a message of `source`: whole records, the header, or totals, which aren't written.
    ///
    /// # Errors
    /// The output fails. Or the table is none: the headers of two senders differ, or too many
    /// records came without one.
    pub fn take(
        &mut self,
        out: &mut impl Write,
        source: SocketAddr,
        place: (u8, u32),
        data: &[u8],
    ) -> Result<()> {
        match (place, &self.header) {
            ((Table::HEADER_GROUP, Table::HEADER_MESSAGE), _) if FrameReader::is_header(data) => {
                bail!(
                    "{source} sends a data frame, which isn't CSV: ask a query of it with --query"
                );
            }
            ((Table::HEADER_GROUP, Table::HEADER_MESSAGE), None) => {
                out.write_all(data)?;
                out.write_all(&std::mem::take(&mut self.held))?;
                self.header = Some(data.to_vec());
            }
            ((Table::HEADER_GROUP, Table::HEADER_MESSAGE), Some(header)) if header != data => {
                let [first, other] = [header, data].map(|it| String::from_utf8_lossy(it));
                bail!(
                    "the header of {source} is `{}`, and another sender's `{}`: receive one table \
                     at a time, with --from or --job",
                    other.trim_end(),
                    first.trim_end()
                );
            }
            ((Table::HEADER_GROUP, _), _) => {}
            (_, Some(_)) => out.write_all(data)?,
            (_, None) if self.held.len() + data.len() > HELD_BYTES_MAX => {
                bail!("{source} sends no CSV header: send the file with `atp-user send --csv`")
            }
            (_, None) => self.held.extend_from_slice(data),
        }
        Ok(())
    }

    /// Writes records that no header came for.
    ///
    /// # Errors
    /// The output fails.
    pub fn end(&mut self, out: &mut impl Write) -> Result<()> {
        if !self.held.is_empty() {
            tracing::warn!("no CSV header arrived: send the file with `atp-user send --csv`");
        }
        Ok(out.write_all(&std::mem::take(&mut self.held))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: (u8, u32) = (Table::HEADER_GROUP, Table::HEADER_MESSAGE);
    const TOTALS: (u8, u32) = (Table::HEADER_GROUP, Table::TOTALS_MESSAGE);

    fn taken(messages: &[((u8, u32), &str)]) -> Result<String> {
        let (mut output, mut out) = (CsvOutput::default(), Vec::new());
        let source = "192.0.2.1:7".parse().unwrap();
        for (place, data) in messages {
            output.take(&mut out, source, *place, data.as_bytes())?;
        }
        output.end(&mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn take__writes_the_header_first_and_once() {
        let early = [((0, 7), "a,1\n"), ((0, 0), "b,2\n"), (TOTALS, "x"), (HEADER, "k,v\n")];
        let rest = [((0, 3), "c,3\n"), (HEADER, "k,v\n"), ((0, 4), "d,4\n")];
        let table = taken(&[&early[..], &rest].concat()).unwrap();
        assert_eq!(table, "k,v\na,1\nb,2\nc,3\nd,4\n");
    }

    #[test]
    fn take__keeps_records_without_a_header() {
        assert_eq!(taken(&[((0, 7), "a,1\n"), ((0, 0), "b,2\n")]).unwrap(), "a,1\nb,2\n");
    }

    #[test]
    fn take__refuses_another_header_and_endless_records() {
        let error = taken(&[(HEADER, "k,v\n"), (HEADER, "v,k\n")]).unwrap_err();
        assert!(error.to_string().starts_with("the header of 192.0.2.1:7 is `v,k`"), "{error}");
        let long = "a,1\n".repeat(HELD_BYTES_MAX / 8);
        let error = taken(&[((0, 1), &long), ((0, 2), &long), ((0, 3), "b,2\n")]).unwrap_err();
        assert!(error.to_string().contains("no CSV header"), "{error}");
    }
}
