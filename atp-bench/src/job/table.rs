//! The table of the job: a CSV file that was checked, with its rows as text.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use csv::{ErrorKind, StringRecord};

use super::answer::{Answers, parse_number};
use super::query::{Query, QuerySpec};

/// The maximum size of the rows, which every process of a run holds in memory.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// A checked table: every value that a query uses is a number or missing.
#[derive(Debug)]
pub struct Table {
    pub columns: Vec<String>,
    pub queries: Vec<Query>,
    /// The answers of the whole table.
    pub answers: Answers,
    text: Vec<u8>,
    /// The end of each row in `text`, including its newline.
    ends: Vec<usize>,
}

impl Table {
    /// Reads the CSV file at `path`, which begins with a line of column names.
    ///
    /// # Errors
    /// One sentence with the file, and the line and column if known: the file is unreadable or
    /// empty, a column is missing, or a value is neither a number nor missing (empty or `NA`).
    pub fn load(path: &Path, spec: &QuerySpec) -> Result<Table> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("{name} can't be read"))?;
        ensure!(!file.metadata()?.is_dir(), "{name} is a folder, not a CSV file");
        let mut reader = csv::Reader::from_reader(file);
        let header = reader.headers().map_err(|error| complaint(&name, error))?;
        let columns: Vec<String> = header.iter().map(str::to_owned).collect();
        ensure!(
            columns.iter().any(|column| !column.is_empty()),
            "{name} is empty: it needs a line of column names and at least one row"
        );
        let queries = spec.queries(&columns).map_err(|error| anyhow!("{name} {error}"))?;
        let mut table = Table {
            answers: Answers::new(queries.len()),
            columns,
            queries,
            text: Vec::new(),
            ends: Vec::new(),
        };
        table.read_rows(&name, &mut reader)?;
        table.check_answers(&name)?;
        Ok(table)
    }

    fn read_rows(&mut self, name: &dyn fmt::Display, reader: &mut csv::Reader<File>) -> Result<()> {
        let mut record = StringRecord::new();
        let mut writer = csv::Writer::from_writer(Vec::new());
        while reader.read_record(&mut record).map_err(|error| complaint(name, error))? {
            self.check_numbers(name, &record)?;
            self.answers.add(&self.queries, &record);
            // Rewriting makes quotes and line endings uniform.
            writer.write_record(&record)?;
            writer.flush()?;
            let end = writer.get_ref().len();
            ensure!(
                end <= TEXT_BYTES_MAX,
                "{name} has more than {} MiB of rows, which is all that a run holds",
                TEXT_BYTES_MAX >> 20
            );
            self.ends.push(end);
        }
        ensure!(!self.ends.is_empty(), "{name} has column names but no row");
        self.text = writer.into_inner()?;
        Ok(())
    }

    fn check_numbers(&self, name: &dyn fmt::Display, record: &StringRecord) -> Result<()> {
        for column in self.queries.iter().filter_map(Query::value) {
            let text = &record[column];
            if parse_number(text).is_err() {
                let line = record.position().map_or(0, csv::Position::line);
                bail!(
                    "{name}, line {line}: column `{}` holds `{text}`, which is not a number",
                    self.columns[column]
                );
            }
        }
        Ok(())
    }

    fn check_answers(&self, name: &dyn fmt::Display) -> Result<()> {
        for (index, query) in self.queries.iter().enumerate() {
            let Some(column) = query.value() else { continue };
            ensure!(
                self.answers.values(index) > 0,
                "{name}: column `{}` has no number in any of its {} rows",
                self.columns[column],
                self.rows()
            );
        }
        Ok(())
    }

    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// A row as CSV, with its newline.
    pub fn row(&self, index: usize) -> &[u8] {
        &self.text[self.row_range(index)]
    }

    fn row_range(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[index]
    }
}

/// Turns the parser's errors into sentences about the file.
fn complaint(name: &dyn fmt::Display, error: csv::Error) -> anyhow::Error {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        ErrorKind::Io(error) => anyhow!("{name} can't be read: {error}"),
        ErrorKind::Utf8 { .. } => anyhow!("{name}, line {line}: not UTF-8 text"),
        ErrorKind::UnequalLengths { expected_len, len, .. } => anyhow!(
            "{name}, line {line}: {len} fields, where the line of column names has {expected_len}"
        ),
        _ => anyhow!("{name}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn averages(value: &str, keys: &[&str]) -> QuerySpec {
        let keys = keys.iter().map(|&key| key.to_owned()).collect();
        QuerySpec::Averages { value: value.to_owned(), keys }
    }

    fn load(text: &str, spec: &QuerySpec) -> Result<Table> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Table::load(file.path(), spec)
    }

    fn refusal(text: &str, spec: &QuerySpec) -> String {
        format!("{:#}", load(text, spec).unwrap_err())
    }

    #[test]
    fn load__keeps_rows_as_they_are() {
        let text = "k,v\r\na,1\r\n\"b,c\",NA\r\n";
        let table = load(text, &averages("v", &["k"])).unwrap();
        assert_eq!(table.rows(), 2);
        assert_eq!(table.row(0), b"a,1\n");
        assert_eq!(table.row(1), b"\"b,c\",NA\n");
        assert_eq!(table.columns, ["k", "v"]);
    }

    #[test]
    fn load__one_query_for_each_key() {
        let table = load("a,b,v\nx,y,1\n", &averages("v", &["a", "b"])).unwrap();
        let average = |key| Query::Average { value: 2, key };
        assert_eq!(table.queries, [average(0), average(1)]);
        let flights = load("dest,carrier,dep_delay\nIAH,UA,2\n", &QuerySpec::Flights).unwrap();
        let frequent = Query::MostFrequent { key: 0, count: 15 };
        assert_eq!(flights.queries, [Query::Average { value: 2, key: 1 }, frequent]);
    }

    #[test]
    fn load__says_what_is_wrong_and_where() {
        let v_by_k = averages("v", &["k"]);
        for (text, said) in [
            ("", "is empty: it needs a line of column names and at least one row"),
            ("k,v\n", "has column names but no row"),
            ("k,w\na,1\n", "has no column `v`; it has k, w"),
            ("v,k,v\n1,a,1\n", "has more than one column `v`"),
            ("k,v\na,1\nb,soon\n", ", line 3: column `v` holds `soon`, which is not a number"),
            ("k,v\na,inf\n", ", line 2: column `v` holds `inf`, which is not a number"),
            ("k,v\na,1\nb\n", ", line 3: 1 fields, where the line of column names has 2"),
            ("k,v\na,NA\nb,\n", ": column `v` has no number in any of its 2 rows"),
        ] {
            let refusal = refusal(text, &v_by_k);
            assert!(refusal.contains(said), "{text:?}: {refusal}");
        }
    }

    #[test]
    fn load__names_a_file_that_it_cannot_read() {
        let spec = averages("v", &["k"]);
        let missing = Table::load(Path::new("/no/such.csv"), &spec).unwrap_err();
        assert!(format!("{missing:#}").starts_with("/no/such.csv can't be read: No such file"));
        let folder = Table::load(Path::new("/"), &spec).unwrap_err();
        assert_eq!(folder.to_string(), "/ is a folder, not a CSV file");
        let mut binary = tempfile::NamedTempFile::new().unwrap();
        binary.write_all(b"k,v\na,1\n\xff\xfe,2\n").unwrap();
        let refusal = Table::load(binary.path(), &spec).unwrap_err().to_string();
        assert!(refusal.ends_with("line 3: not UTF-8 text"), "{refusal}");
    }
}
