//! Queries in words, and their answers from rows of text.

mod answering;
mod csv_rows;
mod parse;
mod quotes;
mod records;
mod without_value;

pub use answering::{Answering, Answers};
pub use quotes::{CsvQuotes, QuoteError};
pub use records::is_missing;

use std::fmt;

use crate::Totals;

/// A query of one table, such as `avg(dep_delay) by carrier`.
///
/// ```
/// use approx_answers::{Function, Query};
///
/// let query: Query = "avg(dep_delay) by carrier".parse()?;
/// assert_eq!(query.function, Function::Average { column: "dep_delay".into() });
/// assert_eq!(query.by.as_deref(), Some("carrier"));
/// # Ok::<(), approx_answers::QueryError>(())
/// ```
///
/// | query | answer |
/// |---|---|
/// | `sum(column)`, `avg(column)` | of the column's numbers |
/// | `count(column)`, `count(*)` | rows with a value, and all rows |
/// | `ratio(a, b)` | the sum of `a` over that of `b`, of rows with both |
/// | `quantile(column, 0.9)`, `median(column)` | the value below which that share of numbers lies |
/// | `top(15, column)` | the most frequent values of the column |
///
/// All but `top` take `by column`. Names with spaces, commas or brackets stand in double quotes,
/// and so do the words `by` and `*` as names. A double quote inside is written twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The function of the answer.
    pub function: Function,
    /// The column of the keys.
    pub by: Option<String>,
}

/// The function of a query.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Function {
    /// The sum of a column.
    Sum {
        /// The column.
        column: String,
    },
    /// Rows; with a column, those that have a value in it.
    Count {
        /// The column.
        column: Option<String>,
    },
    /// The mean of a column.
    Average {
        /// The column.
        column: String,
    },
    /// The ratio of two sums.
    Ratio {
        /// The column above.
        numerator: String,
        /// The column below.
        denominator: String,
    },
    /// A quantile of a column.
    Quantile {
        /// The column.
        column: String,
        /// The share of values below it, between 0 and 1.
        rank: f64,
    },
    /// The most frequent values of a column.
    Top {
        /// How many of them.
        ranks: usize,
        /// The column.
        column: String,
    },
}

impl Query {
    /// Whether there is no answer without the number of messages that a stratum with these totals
    /// sent: of sums, rankings and counts, but for the number of all rows that the totals state.
    /// Others then weight strata by what arrived.
    pub fn needs_messages_sent(&self, totals: Option<Totals>) -> bool {
        let states_rows = totals.is_some_and(|totals| totals.records.is_some());
        match self.function {
            Function::Count { column: None } => self.by.is_some() || !states_rows,
            Function::Sum { .. } | Function::Count { .. } | Function::Top { .. } => true,
            Function::Average { .. } | Function::Ratio { .. } | Function::Quantile { .. } => false,
        }
    }
}

/// Writes a query that parses to the same.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Function::Sum { column } => write!(f, "sum({})", parse::Name(column))?,
            Function::Count { column: None } => f.write_str("count(*)")?,
            Function::Count { column: Some(column) } => {
                write!(f, "count({})", parse::Name(column))?
            }
            Function::Average { column } => write!(f, "avg({})", parse::Name(column))?,
            Function::Ratio { numerator, denominator } => {
                write!(f, "ratio({}, {})", parse::Name(numerator), parse::Name(denominator))?;
            }
            Function::Quantile { column, rank } => {
                write!(f, "quantile({}, {rank})", parse::Name(column))?;
            }
            Function::Top { ranks, column } => write!(f, "top({ranks}, {})", parse::Name(column))?,
        }
        self.by.as_deref().map_or(Ok(()), |by| write!(f, " by {}", parse::Name(by)))
    }
}
