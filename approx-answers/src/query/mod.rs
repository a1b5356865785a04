//! Queries in words, and their answers from rows.

mod answering;
mod answers;
mod condition;
mod csv_rows;
mod extremes;
mod input_row;
mod names;
mod of_function;
mod parse;
mod quotes;
mod records;
mod sql;
mod state;
mod without_value;

pub use answering::Answering;
pub use answers::{Answers, Row};
pub use condition::{Comparison, Condition, Literal};
pub use input_row::{InputRow, Value, is_missing};
pub use quotes::{CsvQuotes, QuoteError};

use std::fmt;
use std::str::FromStr;

use crate::{QueryError, Totals};
use names::{Name, SqlName};

/// The most functions of a query, and the most columns of its keys.
const FUNCTIONS_MAX: usize = 16;
const KEY_COLUMNS_MAX: usize = 8;

/// A query of one table, such as `avg(dep_delay) by carrier`, or in SQL
/// `SELECT avg(dep_delay), count(*) WHERE distance > 1000 GROUP BY carrier, origin`.
///
/// ```
/// use approx_answers::{Function, Query};
///
/// let query: Query = "avg(dep_delay) by carrier".parse()?;
/// assert_eq!(query, "SELECT avg(dep_delay) FROM flights GROUP BY carrier".parse()?);
/// assert_eq!(query.functions, [Function::Average { column: "dep_delay".into() }]);
/// assert_eq!(query.by, ["carrier"]);
/// # Ok::<(), approx_answers::QueryError>(())
/// ```
///
/// | function | answer |
/// |---|---|
/// | `sum(column)`, `avg(column)` | of the column's numbers |
/// | `count(column)`, `count(*)` | rows with a value, and all rows |
/// | `ratio(a, b)` | the sum of `a` over that of `b`, of rows with both |
/// | `stddev(column)`, `variance(column)` | those of SQL and pandas, with n - 1 |
/// | `quantile(column, 0.9)`, `median(column)` | the value below which that share of numbers lies |
/// | `min(column)`, `max(column)` | of what arrived: a bound for all rows |
/// | `count(distinct column)` | the values that arrived: a bound for all rows |
/// | `top(15, column)` | the most frequent values of the column |
///
/// All but `top` take `by column`, or several columns; `top` stands alone. In words, names with
/// spaces, commas or brackets stand in double quotes, and so do the words `by` and `*` as names. In
/// SQL, names with other signs than letters, digits and `_` do, and keywords. A double quote inside
/// is written twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The functions: at least one, and at most 16.
    pub functions: Vec<Function>,
    /// The condition of the rows that take part; `None` for all of them.
    pub filter: Option<Condition>,
    /// The columns of the keys, at most 8.
    pub by: Vec<String>,
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
    /// The standard deviation of a column.
    Deviation {
        /// The column.
        column: String,
    },
    /// The variance of a column.
    Variance {
        /// The column.
        column: String,
    },
    /// The smallest number of a column: all rows have one as small or a smaller one.
    Minimum {
        /// The column.
        column: String,
    },
    /// The largest number of a column: all rows have one as large or a larger one.
    Maximum {
        /// The column.
        column: String,
    },
    /// The different values of a column: all rows have as many or more.
    Distinct {
        /// The column.
        column: String,
    },
    /// The most frequent values of a column.
    Top {
        /// How many of them.
        ranks: usize,
        /// The column.
        column: String,
    },
}

impl Function {
    /// Whether the answer is a bound for all rows, without an interval: that of what arrived.
    pub fn is_bound(&self) -> bool {
        matches!(self, Self::Minimum { .. } | Self::Maximum { .. } | Self::Distinct { .. })
    }

    /// Whether the answer is of rows: it uses the number of all of them.
    fn is_of_rows(&self) -> bool {
        matches!(self, Self::Sum { .. } | Self::Count { .. })
    }

    /// Writes the function with names in words or in SQL.
    fn write(&self, f: &mut fmt::Formatter<'_>, is_sql: bool) -> fmt::Result {
        let name = |column: &String| match is_sql {
            true => SqlName(column).to_string(),
            false => Name(column).to_string(),
        };
        match self {
            Self::Sum { column } => write!(f, "sum({})", name(column)),
            Self::Count { column: None } => f.write_str("count(*)"),
            Self::Count { column: Some(column) } => write!(f, "count({})", name(column)),
            Self::Average { column } => write!(f, "avg({})", name(column)),
            Self::Ratio { numerator, denominator } => {
                write!(f, "ratio({}, {})", name(numerator), name(denominator))
            }
            Self::Quantile { column, rank: 0.5 } => write!(f, "median({})", name(column)),
            Self::Quantile { column, rank } => write!(f, "quantile({}, {rank})", name(column)),
            Self::Deviation { column } => write!(f, "stddev({})", name(column)),
            Self::Variance { column } => write!(f, "variance({})", name(column)),
            Self::Minimum { column } => write!(f, "min({})", name(column)),
            Self::Maximum { column } => write!(f, "max({})", name(column)),
            Self::Distinct { column } => write!(f, "count(distinct {})", name(column)),
            Self::Top { ranks, column } => write!(f, "top({ranks}, {})", name(column)),
        }
    }
}

/// Writes the function in words, such as `avg(dep_delay)`.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

impl Query {
    /// Whether an error can be accepted: of the functions that have an interval.
    ///
    /// # Errors
    /// All functions are bounds.
    pub fn check_accepts_error(&self) -> Result<(), QueryError> {
        match &self.functions[..] {
            [first, others @ ..] if first.is_bound() && others.iter().all(Function::is_bound) => {
                Err(QueryError::NoInterval { function: first.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Whether there is no answer without the number of messages that a stratum with these totals
    /// sent: of sums, rankings and counts, but for the number of all rows that the totals state.
    /// Others then weight strata by what arrived.
    pub fn needs_messages_sent(&self, totals: Option<Totals>) -> bool {
        let states_rows = totals.is_some_and(|totals| totals.records.is_some());
        let is_of_all = self.by.is_empty() && self.filter.is_none();
        self.functions.iter().any(|function| match function {
            Function::Count { column: None } => !is_of_all || !states_rows,
            Function::Sum { .. } | Function::Count { .. } | Function::Top { .. } => true,
            _ => false,
        })
    }
}

/// Writes a query that parses to the same: in words, or in SQL if it has a condition or several
/// functions.
impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let query = if sql::is_sql(text) { sql::parse(text) } else { parse::in_words(text) }?;
        let has_top = query.functions.iter().any(|one| matches!(one, Function::Top { .. }));
        if has_top && (query.functions.len() > 1 || !query.by.is_empty()) {
            return Err(QueryError::TopBy);
        }
        for (what, found, most) in [
            ("functions", query.functions.len(), FUNCTIONS_MAX),
            ("columns of keys", query.by.len(), KEY_COLUMNS_MAX),
        ] {
            if found > most {
                return Err(QueryError::TooLong { what, most });
            }
        }
        Ok(query)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_sql = self.filter.is_some() || self.functions.len() != 1;
        f.write_str(if is_sql { "SELECT " } else { "" })?;
        for (at, function) in self.functions.iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            function.write(f, is_sql)?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        for (at, column) in self.by.iter().enumerate() {
            match (at, is_sql) {
                (0, true) => write!(f, " GROUP BY {}", SqlName(column))?,
                (0, false) => write!(f, " by {}", Name(column))?,
                (_, true) => write!(f, ", {}", SqlName(column))?,
                (_, false) => write!(f, ", {}", Name(column))?,
            }
        }
        Ok(())
    }
}
