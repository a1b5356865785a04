//! The rows of a batch for a query, with the values of the columns that it uses.

use crate::FrameError;
use approx_answers::{InputRow, Value};
use arrow_array::{
    Array, ArrayRef, Float64Array, LargeStringArray, RecordBatch, StringArray,
    cast::AsArray,
    types::{Float32Type, Float64Type},
};
use arrow_buffer::NullBuffer;
use arrow_cast::{
    cast,
    display::{ArrayFormatter, FormatOptions},
};
use arrow_schema::{DataType, TimeUnit};
use std::{cell::OnceCell, collections::HashMap, fmt::Write, ops::Range};

/// Values that can't be written are text, which no number is.
const FORMAT: FormatOptions<'static> = FormatOptions::new().with_display_error(true);
/// Integers up to this are floats of 32 bits.
const INTEGER_MAX: f32 = 16_777_216.0;

/// The columns of a batch.
pub struct BatchRows<'a> {
    /// By their places in the table. Those that the query doesn't use are `None`.
    columns: Vec<Option<Column<'a>>>,
    rows: usize,
}

/// A row of a batch.
pub struct BatchRow<'a> {
    batch: &'a BatchRows<'a>,
    row: usize,
}

struct Column<'a> {
    nulls: Option<NullBuffer>,
    /// The values of a column of numbers, bools or durations.
    numbers: Option<Float64Array>,
    texts: Texts<'a>,
}

/// The values of a column as text.
enum Texts<'a> {
    Small(&'a StringArray),
    Large(&'a LargeStringArray),
    /// Places in a dictionary of text.
    Keys(Vec<usize>, Box<Self>),
    Written(Written<'a>),
}

/// Values of other types, which are written once their text is needed.
struct Written<'a> {
    /// For each row its place in a dictionary: a value of many rows is written once.
    keys: Option<Vec<usize>>,
    rows: usize,
    values: ArrayFormatter<'a>,
    /// The text, and the part of each row.
    written: OnceCell<(String, Vec<Range<usize>>)>,
}

impl<'a> BatchRows<'a> {
    /// The rows of a batch, of which a query uses these columns.
    pub fn new(
        batch: &'a RecordBatch,
        used: impl Iterator<Item = usize>,
    ) -> Result<Self, FrameError> {
        let mut columns: Vec<_> = batch.columns().iter().map(|_| None).collect();
        for at in used {
            columns[at] = Some(Column::new(batch.column(at))?);
        }
        Ok(Self { columns, rows: batch.num_rows() })
    }

    pub fn iter(&self) -> impl Iterator<Item = BatchRow<'_>> + Clone {
        (0..self.rows).map(move |row| BatchRow { batch: self, row })
    }
}

impl BatchRow<'_> {
    /// A column with a value in this row.
    fn column(&self, column: usize) -> Option<&Column<'_>> {
        let column = self.batch.columns.get(column)?.as_ref()?;
        let is_null = column.nulls.as_ref().is_some_and(|nulls| nulls.is_null(self.row));
        (!is_null).then_some(column)
    }
}

/// Nulls and NaN are missing.
impl InputRow for BatchRow<'_> {
    fn columns(&self) -> usize {
        self.batch.columns.len()
    }

    #[inline]
    fn value(&self, column: usize) -> Value {
        match self.column(column).map(|column| &column.numbers) {
            None => Value::Missing,
            Some(None) => Value::Text,
            Some(Some(numbers)) => match numbers.value(self.row) {
                nan if nan.is_nan() => Value::Missing,
                number => Value::Number(number),
            },
        }
    }

    #[inline]
    fn text(&self, column: usize) -> &str {
        match self.column(column) {
            Some(of) if self.value(column) != Value::Missing => of.texts.of(self.row),
            _ => "",
        }
    }

    #[inline]
    fn code(&self, column: usize) -> Option<usize> {
        match self.column(column) {
            Some(of) if self.value(column) != Value::Missing => of.texts.code(self.row),
            _ => None,
        }
    }
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self, FrameError> {
        let (nulls, texts) = (array.logical_nulls(), Texts::new(array)?);
        Ok(Self { nulls, numbers: numbers(array)?, texts })
    }
}

/// The values of a column of numbers, bools (1 or 0) or durations (seconds). Decimals are read from
/// their text.
fn numbers(array: &ArrayRef) -> Result<Option<Float64Array>, FrameError> {
    // Only these are unpacked: a dictionary of long values would fill the memory.
    let kind = match array.data_type() {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    };
    let units_per_s = match kind {
        DataType::Float16 | DataType::Float32 => {
            let array = cast(array, &DataType::Float32)?;
            return Ok(Some(array.as_primitive::<Float32Type>().unary(as_written)));
        }
        kind if kind.is_integer() || *kind == DataType::Float64 => 1.0,
        DataType::Boolean | DataType::Duration(TimeUnit::Second) => 1.0,
        DataType::Duration(TimeUnit::Millisecond) => 1e3,
        DataType::Duration(TimeUnit::Microsecond) => 1e6,
        DataType::Duration(TimeUnit::Nanosecond) => 1e9,
        _ => return Ok(None),
    };
    let numbers = cast(array, &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    Ok(Some(if units_per_s == 1.0 { numbers.clone() } else { numbers.unary(|n| n / units_per_s) }))
}

/// The number that is written for a float of 32 bits: 0.1 in place of 0.10000000149.
fn as_written(number: f32) -> f64 {
    let exact = f64::from(number);
    let is_integer = number.fract() == 0.0 && number.abs() <= INTEGER_MAX;
    if is_integer { exact } else { number.to_string().parse().unwrap_or(exact) }
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8)
}

impl<'a> Texts<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self, FrameError> {
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Small(array.as_string()),
            DataType::LargeUtf8 => Self::Large(array.as_string()),
            DataType::Dictionary(_, kind) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                // All keys of an empty dictionary are null.
                let keys =
                    if values.is_empty() { Vec::new() } else { dictionary.normalized_keys() };
                if is_text(kind) {
                    Self::Keys(keys, Box::new(Self::new(values)?))
                } else {
                    Self::Written(Written::new(values, Some(keys))?)
                }
            }
            _ => Self::Written(Written::new(array, None)?),
        })
    }

    /// The place of a value in its dictionary.
    fn code(&self, row: usize) -> Option<usize> {
        match self {
            Self::Keys(keys, _) => Some(keys[row]),
            Self::Small(_) | Self::Large(_) | Self::Written(_) => None,
        }
    }

    /// The text of a value that isn't null.
    fn of(&self, row: usize) -> &str {
        match self {
            Self::Small(texts) => texts.value(row),
            Self::Large(texts) => texts.value(row),
            Self::Keys(keys, texts) => texts.of(keys[row]),
            Self::Written(written) => written.of(row),
        }
    }
}

impl<'a> Written<'a> {
    fn new(values: &'a dyn Array, keys: Option<Vec<usize>>) -> Result<Self, FrameError> {
        let rows = keys.as_ref().map_or(values.len(), Vec::len);
        let values = ArrayFormatter::try_new(values, &FORMAT)?;
        Ok(Self { keys, rows, values, written: OnceCell::new() })
    }

    fn of(&self, row: usize) -> &str {
        let (text, parts) = self.written.get_or_init(|| self.write());
        &text[parts[row].clone()]
    }

    fn write(&self) -> (String, Vec<Range<usize>>) {
        let mut text = String::new();
        let mut write = |value: usize| {
            let begin = text.len();
            // Writing to a string fails for no value.
            let _ = write!(text, "{}", self.values.value(value));
            begin..text.len()
        };
        let parts = match &self.keys {
            None => (0..self.rows).map(write).collect(),
            Some(keys) => {
                let mut written: HashMap<usize, Range<usize>> = HashMap::new();
                let mut part =
                    |key: &usize| written.entry(*key).or_insert_with(|| write(*key)).clone();
                keys.iter().map(&mut part).collect()
            }
        };
        (text, parts)
    }
}
