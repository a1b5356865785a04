//! The records of a message: what a query takes from each row of text.

use super::{Function, Query};
use crate::QueryError;
use std::marker::PhantomData;

/// The values of a row, by the positions of their columns.
pub(super) trait Row {
    fn value(&self, position: usize) -> Option<&str>;
    /// The number of values.
    fn len(&self) -> usize;
}

impl<S: AsRef<str>> Row for [S] {
    fn value(&self, position: usize) -> Option<&str> {
        self.get(position).map(AsRef::as_ref)
    }

    fn len(&self) -> usize {
        <[S]>::len(self)
    }
}

/// The two numbers of a record; `None` if the row lacks one.
pub(super) type Numbers = Option<(f64, f64)>;

/// The records of one message. They are gone through one by one, so that a message of many short
/// rows takes no more memory than its text.
pub(super) trait Records {
    /// Calls `on` with each record: its key, and its numbers. The first error ends it.
    fn each(
        &mut self,
        on: impl FnMut(&str, Numbers) -> Result<(), QueryError>,
    ) -> Result<(), QueryError>;

    /// The rows that `each` went through last.
    fn counted(&self) -> Counted;
}

/// The rows of messages, and the values of the column that `count(column)` counts. `NA` and `null`
/// are missing among numbers, and may be values among text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// All rows, with and without values.
    pub rows: u64,
    /// Rows that lack one of the query's numbers.
    pub missing: u64,
    /// Rows with a word for a missing value.
    pub na_rows: u64,
    /// A value is no number.
    pub has_text: bool,
}

impl Counted {
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.missing += other.missing;
        self.na_rows += other.na_rows;
        self.has_text |= other.has_text;
    }

    /// Notes a value; whether it is one.
    fn note(&mut self, value: &str) -> bool {
        let value = value.trim();
        let is_missing = is_missing(value);
        self.na_rows += u64::from(is_missing_word(value));
        self.has_text = self.has_text || !is_missing && value.parse::<f64>().is_err();
        !is_missing
    }
}

/// The columns of a query, and what it takes from them.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    key: Option<Column>,
    /// The denominator of a ratio.
    x: Option<Column>,
    y: Option<Column>,
    /// `count(column)` takes text as well.
    is_count: bool,
    /// A row without the key of a ranking has no part in it.
    needs_key: bool,
    /// The number of the table's columns.
    len: usize,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    position: usize,
}

impl Columns {
    /// # Errors
    /// The table lacks a column of the query.
    pub fn new<S: AsRef<str>>(query: &Query, columns: &[S]) -> Result<Self, QueryError> {
        let find = |name: &String| find(columns, name);
        let (x, y) = match &query.function {
            Function::Sum { column } | Function::Average { column } => (None, Some(column)),
            Function::Count { column } => (None, column.as_ref()),
            Function::Quantile { column, .. } => (None, Some(column)),
            Function::Ratio { numerator, denominator } => (Some(denominator), Some(numerator)),
            Function::Top { .. } => (None, None),
        };
        let key = match &query.function {
            Function::Top { column, .. } => Some(column),
            _ => query.by.as_ref(),
        };
        Ok(Self {
            key: key.map(find).transpose()?,
            x: x.map(find).transpose()?,
            y: y.map(find).transpose()?,
            is_count: matches!(query.function, Function::Count { .. }),
            needs_key: matches!(query.function, Function::Top { .. }),
            len: columns.len(),
        })
    }

    /// The number of the table's columns.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The positions of the columns, in no particular order.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        [&self.key, &self.x, &self.y].into_iter().flatten().map(|column| column.position)
    }

    /// The key and the numbers of a row; `None` for a row that has no part in the answer.
    pub fn record<'row, R: Row + ?Sized>(
        &self,
        row: &'row R,
        counted: &mut Counted,
    ) -> Result<Option<(&'row str, Numbers)>, QueryError> {
        let Self { key, x, y, .. } = self;
        let mut number = |column: &Option<Column>| match column {
            Some(column) if self.is_count => {
                Ok(Some(1.0).filter(|_| counted.note(column.of(row).unwrap_or_default())))
            }
            Some(column) => column.number(row),
            None => Ok(Some(1.0)),
        };
        if let Some(short) = [key, x, y].into_iter().flatten().find(|c| c.of(row).is_none()) {
            return Err(QueryError::Row { found: row.len(), column: short.name.clone() });
        }
        let numbers = number(x)?.zip(number(y)?);
        counted.rows += 1;
        counted.missing += u64::from(numbers.is_none());
        let has_no_part = numbers.is_none() && key.is_none();
        let key = key.as_ref().and_then(|column| column.of(row)).unwrap_or_default();
        let lacks_key = self.needs_key && key.trim().is_empty();
        Ok(Some((key, numbers)).filter(|_| !(has_no_part || lacks_key)))
    }
}

fn find<S: AsRef<str>>(columns: &[S], name: &str) -> Result<Column, QueryError> {
    let mut positions = (0..columns.len()).filter(|&at| columns[at].as_ref() == name);
    let position = positions.next();
    if positions.next().is_some() {
        return Err(QueryError::SameName { column: name.to_owned() });
    }
    let missing = || {
        let columns: Vec<&str> = columns.iter().map(AsRef::as_ref).collect();
        // The error is one line.
        let columns = columns.join(", ").replace(char::is_control, " ");
        QueryError::Column { column: name.to_owned(), columns }
    };
    let position = position.ok_or_else(missing)?;
    Ok(Column { name: name.to_owned(), position })
}

/// Missing numbers in tables of R, of spreadsheets, and of databases. NaN isn't among them: it may
/// be a number that went wrong.
const MISSING: [&str; 4] = ["NA", "N/A", "null", "\\N"];

/// Whether a value of a column of numbers is missing: empty, or a word that stands for that.
pub fn is_missing(text: &str) -> bool {
    text.trim().is_empty() || is_missing_word(text)
}

pub(super) fn is_missing_word(text: &str) -> bool {
    MISSING.iter().any(|word| word.eq_ignore_ascii_case(text.trim()))
}

impl Column {
    fn of<'row, R: Row + ?Sized>(&self, row: &'row R) -> Option<&'row str> {
        row.value(self.position)
    }

    /// The number in this column; `None` if it is missing.
    fn number<R: Row + ?Sized>(&self, row: &R) -> Result<Option<f64>, QueryError> {
        let text = self.of(row).unwrap_or_default();
        if is_missing(text) {
            return Ok(None);
        }
        let number: Option<f64> =
            text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        let (column, given) = (&self.name, text);
        number.map(Some).ok_or_else(|| QueryError::Number {
            column: column.clone(),
            given: given.chars().take(40).collect(),
        })
    }
}

/// The records of rows that were read.
pub(super) struct Kept {
    records: Vec<(String, Numbers)>,
    counted: Counted,
}

/// The records of rows that come once.
pub(super) struct Once<'a, I, S> {
    columns: &'a Columns,
    rows: I,
    counted: Counted,
    _value: PhantomData<S>,
}

impl<'a, I, R, S> Once<'a, I, S>
where
    I: Iterator<Item = R>,
    R: AsRef<[S]>,
    S: AsRef<str>,
{
    pub fn new(columns: &'a Columns, rows: I) -> Self {
        Self { columns, rows, counted: Counted::default(), _value: PhantomData }
    }

    /// The records, to be gone through several times.
    pub fn kept(mut self) -> Result<Kept, QueryError> {
        let mut records = Vec::new();
        self.each(|key, numbers| {
            records.push((key.to_owned(), numbers));
            Ok(())
        })?;
        Ok(Kept { records, counted: self.counted })
    }
}

impl<I, R, S> Records for Once<'_, I, S>
where
    I: Iterator<Item = R>,
    R: AsRef<[S]>,
    S: AsRef<str>,
{
    fn each(
        &mut self,
        mut on: impl FnMut(&str, Numbers) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        for row in self.rows.by_ref() {
            if let Some((key, numbers)) = self.columns.record(row.as_ref(), &mut self.counted)? {
                on(key, numbers)?;
            }
        }
        Ok(())
    }

    fn counted(&self) -> Counted {
        self.counted
    }
}

impl Records for Kept {
    fn each(
        &mut self,
        mut on: impl FnMut(&str, Numbers) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        self.records.iter().try_for_each(|(key, numbers)| on(key, *numbers))
    }

    fn counted(&self) -> Counted {
        self.counted
    }
}
