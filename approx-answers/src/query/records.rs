//! The records of a message: what the functions of a query take from each row.

use super::{
    Condition, Function, InputRow, Query, Value,
    condition::Values,
    input_row::{is_missing, is_missing_word},
    names::join,
};
use crate::QueryError;
use std::marker::PhantomData;

/// The values that a function takes from a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken<'row> {
    /// The denominator of a ratio, or one.
    pub x: f64,
    pub y: f64,
    /// The column as a text.
    pub text: &'row str,
    /// The code of the row's key ([`InputRow::code`]).
    pub code: Option<usize>,
}

impl Taken<'_> {
    /// One record.
    const ONE: Self = Self { x: 1.0, y: 1.0, text: "", code: None };
}

/// The records of one message. They are gone through one by one, so that a message of many short
/// rows takes no more memory than its text.
pub(super) trait Records {
    /// Calls `on` with each record: its key, the number of a function of the query, and what that
    /// function takes from the row; `None` if the row lacks it. The first error ends it.
    fn each(
        &mut self,
        on: impl FnMut(&str, usize, Option<Taken<'_>>) -> Result<(), QueryError>,
    ) -> Result<(), QueryError>;

    /// The rows that `each` went through last.
    fn counted(&self) -> &Counted;

    /// Whether `each` may be called again, for the same records.
    fn is_repeatable(&self) -> bool;
}

/// The rows of messages, and the values of the columns of text that are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// All rows, with and without values.
    pub rows: u64,
    /// Rows that meet the condition and lack one of the query's numbers.
    pub missing: u64,
    /// The texts of each function.
    pub texts: Vec<Texts>,
}

/// The values of a column that `count(column)` counts. `NA` and `null` are missing among numbers,
/// and may be values among text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Texts {
    /// Rows with a word for a missing value.
    pub na_rows: u64,
    /// A value is no number.
    pub has_text: bool,
}

impl Counted {
    /// No rows.
    pub fn of(columns: &Columns) -> Self {
        Self { texts: vec![Texts::default(); columns.functions.len()], ..Self::default() }
    }
}

impl Texts {
    pub fn add(&mut self, other: Self) {
        self.na_rows += other.na_rows;
        self.has_text |= other.has_text;
    }

    /// Notes a value without a type; whether it is one.
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
    keys: Vec<Column>,
    filter: Option<Condition<Column>>,
    functions: Vec<Of>,
    /// A row without the key of a ranking has no part in it.
    needs_key: bool,
    /// All columns above, in order and each once.
    all: Vec<Column>,
    /// The number of the table's columns.
    len: usize,
}

/// The value that a function takes from a row.
#[derive(Clone, Debug)]
enum Of {
    /// The row.
    Row,
    Number(Column),
    /// Any value.
    Value(Column),
    /// The text of any value.
    Text(Column),
    Ratio {
        x: Column,
        y: Column,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Column {
    name: String,
    position: usize,
}

impl Columns {
    /// # Errors
    /// The table lacks a column of the query.
    pub fn new<S: AsRef<str>>(query: &Query, columns: &[S]) -> Result<Self, QueryError> {
        let mut all = Vec::new();
        let mut find = |name: &String| {
            let column = find(columns, name)?;
            all.push(column.clone());
            Ok(column)
        };
        let mut of = |function: &Function| {
            Ok::<_, QueryError>(match function {
                Function::Count { column: None } | Function::Top { .. } => Of::Row,
                Function::Count { column: Some(column) } => Of::Value(find(column)?),
                Function::Distinct { column } => Of::Text(find(column)?),
                Function::Ratio { numerator, denominator } => {
                    Of::Ratio { x: find(denominator)?, y: find(numerator)? }
                }
                Function::Sum { column }
                | Function::Average { column }
                | Function::Quantile { column, .. }
                | Function::Deviation { column }
                | Function::Variance { column }
                | Function::Minimum { column }
                | Function::Maximum { column } => Of::Number(find(column)?),
            })
        };
        let functions = query.functions.iter().map(&mut of).collect::<Result<Vec<_>, _>>()?;
        let ranked = query.functions.iter().filter_map(|function| match function {
            Function::Top { column, .. } => Some(column),
            _ => None,
        });
        let keys = ranked.chain(&query.by).map(&mut find).collect::<Result<Vec<_>, _>>()?;
        let filter = query.filter.as_ref();
        let filter = filter.map(|filter| filter.with_columns(&mut find, 0)).transpose()?;
        all.sort_by_key(|column| column.position);
        all.dedup_by_key(|column| column.position);
        let needs_key = query.functions.iter().any(|one| matches!(one, Function::Top { .. }));
        Ok(Self { keys, filter, functions, needs_key, all, len: columns.len() })
    }

    /// The number of the table's columns.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The positions of the columns, in order and each once.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(|column| column.position)
    }

    /// Calls `on` as [`Records::each`] does, for the functions in which a row has a part. `key` is
    /// memory for keys of several columns.
    pub fn record<R: InputRow + ?Sized>(
        &self,
        row: &R,
        counted: &mut Counted,
        key: &mut String,
        mut on: impl FnMut(&str, usize, Option<Taken<'_>>) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let found = row.columns();
        if let Some(short) = self.all.iter().find(|column| column.position >= found) {
            return Err(QueryError::Row { found, column: short.name.clone() });
        }
        counted.rows += 1;
        if let Some(filter) = &self.filter
            && filter.holds(&Filtered(row))? != Some(true)
        {
            return Ok(());
        }
        let (key, code) = match &self.keys[..] {
            [] => ("", None),
            [one] => (row.text(one.position), row.code(one.position)),
            several => {
                join(several.iter().map(|column| row.text(column.position)), key);
                (&**key, None)
            }
        };
        if self.needs_key && self.keys.iter().any(|column| column.text(row).is_none()) {
            return Ok(());
        }
        let mut is_whole = true;
        for (at, of) in self.functions.iter().enumerate() {
            let taken = of.take(row, &mut counted.texts[at])?;
            is_whole &= taken.is_some();
            if taken.is_some() || !self.keys.is_empty() {
                on(key, at, taken.map(|taken| Taken { code, ..taken }))?;
            }
        }
        counted.missing += u64::from(!is_whole);
        Ok(())
    }
}

impl Of {
    #[inline(always)]
    fn take<'row, R: InputRow + ?Sized>(
        &self,
        row: &'row R,
        texts: &mut Texts,
    ) -> Result<Option<Taken<'row>>, QueryError> {
        Ok(match self {
            Self::Row => Some(Taken::ONE),
            Self::Number(column) => column.number(row)?.map(|y| Taken { y, ..Taken::ONE }),
            Self::Value(column) => column.is_value(row, texts).then_some(Taken::ONE),
            Self::Text(column) => column
                .is_value(row, texts)
                .then(|| Taken { text: row.text(column.position), ..Taken::ONE }),
            Self::Ratio { x, y } => {
                let numbers = x.number(row)?.zip(y.number(row)?);
                numbers.map(|(x, y)| Taken { x, y, ..Taken::ONE })
            }
        })
    }
}

/// A row to which a condition applies.
struct Filtered<'a, R: ?Sized>(&'a R);

impl<R: InputRow + ?Sized> Values<Column> for Filtered<'_, R> {
    fn number(&self, column: &Column) -> Result<Option<f64>, QueryError> {
        column.number(self.0)
    }

    fn text(&self, column: &Column) -> Option<&str> {
        column.text(self.0)
    }

    fn is_null(&self, column: &Column) -> bool {
        match self.0.value(column.position) {
            Value::Missing => true,
            Value::Untyped => is_missing(self.0.text(column.position)),
            Value::Number(_) | Value::Text => false,
        }
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

impl Column {
    /// The text in this column; `None` if it is missing.
    fn text<'row, R: InputRow + ?Sized>(&self, row: &'row R) -> Option<&'row str> {
        match row.value(self.position) {
            Value::Missing => None,
            Value::Untyped => Some(row.text(self.position)).filter(|text| !text.trim().is_empty()),
            Value::Number(_) | Value::Text => Some(row.text(self.position)),
        }
    }

    /// Whether this column has a value, which is noted if it has no type.
    fn is_value<R: InputRow + ?Sized>(&self, row: &R, texts: &mut Texts) -> bool {
        match row.value(self.position) {
            Value::Missing => false,
            Value::Untyped => texts.note(row.text(self.position)),
            Value::Number(_) | Value::Text => true,
        }
    }

    /// The number in this column; `None` if it is missing.
    #[inline(always)]
    fn number<R: InputRow + ?Sized>(&self, row: &R) -> Result<Option<f64>, QueryError> {
        match row.value(self.position) {
            Value::Missing => Ok(None),
            Value::Number(number) if number.is_finite() => Ok(Some(number)),
            value => self.number_of_text(value, row.text(self.position)),
        }
    }

    fn number_of_text(&self, value: Value, text: &str) -> Result<Option<f64>, QueryError> {
        let number = match value {
            Value::Untyped if is_missing(text) => return Ok(None),
            Value::Missing | Value::Number(_) => None,
            Value::Text | Value::Untyped => text.trim().parse().ok(),
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| {
            let (column, given) = (self.name.clone(), text.chars().take(40).collect());
            match value {
                Value::Untyped => QueryError::Number { column, given },
                _ => QueryError::NotNumber { column, given },
            }
        })
    }
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
        Self { columns, rows, counted: Counted::of(columns), _value: PhantomData }
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
        mut on: impl FnMut(&str, usize, Option<Taken<'_>>) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let mut key = String::new();
        for row in self.rows.by_ref() {
            self.columns.record(row.as_ref(), &mut self.counted, &mut key, &mut on)?;
        }
        Ok(())
    }

    fn counted(&self) -> &Counted {
        &self.counted
    }

    fn is_repeatable(&self) -> bool {
        false
    }
}

/// The records of rows that can be gone through several times.
pub(super) struct Repeated<'a, I> {
    columns: &'a Columns,
    rows: I,
    counted: Counted,
}

impl<'a, I> Repeated<'a, I> {
    pub fn new(columns: &'a Columns, rows: I) -> Self {
        Self { columns, rows, counted: Counted::of(columns) }
    }
}

impl<I> Records for Repeated<'_, I>
where
    I: Iterator<Item: InputRow> + Clone,
{
    fn each(
        &mut self,
        mut on: impl FnMut(&str, usize, Option<Taken<'_>>) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        self.counted = Counted::of(self.columns);
        let mut key = String::new();
        for row in self.rows.clone() {
            self.columns.record(&row, &mut self.counted, &mut key, &mut on)?;
        }
        Ok(())
    }

    fn counted(&self) -> &Counted {
        &self.counted
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
