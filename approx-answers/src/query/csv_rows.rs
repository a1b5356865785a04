//! Queries of tables that arrive as CSV.

use super::{Answering, Query};
use crate::QueryError;
use csv::{ReaderBuilder, StringRecord};

impl Answering {
    /// A query of a table in CSV, whose columns `header` names: one record.
    ///
    /// # Errors
    /// The header isn't one record of CSV in UTF-8, or lacks a column of the query.
    pub fn of_csv(query: Query, header: &[u8]) -> Result<Self, QueryError> {
        let records = records(header)?;
        let [columns] = records.as_slice() else {
            return Err(QueryError::Header { records: records.len() });
        };
        Self::new(query, &columns.iter().collect::<Vec<_>>())
    }

    /// Adds the rows of one message: whole records of CSV, without a header.
    ///
    /// ```
    /// use approx_answers::{Answering, Confidence};
    ///
    /// let query = "avg(delay_min) by carrier".parse()?;
    /// let mut answering = Answering::of_csv(query, b"carrier,delay_min\n")?;
    /// answering.set_messages_sent(0, 1)?;
    /// answering.push_csv(0, b"UA,4\n\"AA\",NA\nUA,8\n")?;
    /// assert_eq!(answering.answers(Confidence::P95)?.rows[0].1.value, 6.0);
    /// # Ok::<(), approx_answers::QueryError>(())
    /// ```
    ///
    /// # Errors
    /// The message isn't CSV in UTF-8, or as [`Answering::push_message`]. It is then left out.
    pub fn push_csv(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        let records = records(message)?;
        self.push_message(stratum, records.iter().map(|row| row.iter().collect::<Vec<_>>()))
    }
}

fn records(text: &[u8]) -> Result<Vec<StringRecord>, QueryError> {
    let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
    let records: Result<_, csv::Error> = reader.into_records().collect();
    records.map_err(|error| QueryError::Csv { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Confidence;

    fn answering(header: &[u8]) -> Result<Answering, QueryError> {
        Answering::of_csv("sum(\"b, c\") by a".parse().unwrap(), header)
    }

    #[test]
    fn push_csv__reads_quotes_and_missing_values() {
        let mut answering = answering(b"a,\"b, c\"\r\n").unwrap();
        answering.set_messages_sent(0, 2).unwrap();
        answering.push_csv(0, b"\"x\"\"y\",2\r\nz,\n").unwrap();
        answering.push_csv(0, b"\"x\"\"y\",3").unwrap();
        let rows = answering.answers(Confidence::P95).unwrap().rows;
        assert_eq!((rows[0].0.as_deref(), rows[0].1.value), (Some("x\"y"), 5.0));
        assert_eq!(answering.messages(), 2);
    }

    #[test]
    fn of_csv__refuses_what_is_no_header() {
        for (header, words) in [
            (&b""[..], "0 records"),
            (b"a,\"b, c\"\n1,2\n", "2 records"),
            (b"a,\"b\nc\"\n", "no column"),
            (b"a,\xff\n", "isn't CSV"),
        ] {
            let error = answering(header).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn push_csv__leaves_out_bad_messages() {
        let mut answering = answering(b"a,\"b, c\"\n").unwrap();
        for (message, words) in
            [(&b"x,\xff\n"[..], "isn't CSV"), (b"x\n", "lacks column"), (b"x,1\ny,soon\n", "soon")]
        {
            let error = answering.push_csv(0, message).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
        assert_eq!(answering.messages(), 0);
    }
}
