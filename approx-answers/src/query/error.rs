//! Errors of queries and rows.

use crate::AnswerError;

/// The functions, for messages.
const FORMS: &str = "sum(column), count(column), avg(column), ratio(a, b), \
                     quantile(column, 0.9), median(column) or top(15, column)";

/// A query or a row that has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The query is no function.
    #[error("the query {given:?} names no function: write {FORMS}")]
    Function {
        /// The query.
        given: String,
    },
    /// The arguments of a function are wrong.
    #[error("{function} needs {needs}: write {FORMS}")]
    Arguments {
        /// The function.
        function: &'static str,
        /// Its arguments.
        needs: &'static str,
    },
    /// There is text after the query.
    #[error("the query has {given:?} after its function: only `by COLUMN` may follow")]
    Rest {
        /// The text.
        given: String,
    },
    /// A quote isn't closed.
    #[error("a double quote of the query has no end: close it, and write a quote in a name twice")]
    Quote,
    /// A ranking by a second column.
    #[error("top(k, column) has one key for each of its column's values: leave out `by`")]
    TopBy,
    /// The table doesn't have the column.
    #[error("the table has no column {column:?}: it has {columns}")]
    Column {
        /// The column.
        column: String,
        /// All columns.
        columns: String,
    },
    /// A row has too few values.
    #[error("a row of {found} values lacks column {column:?}: leave out broken rows")]
    Row {
        /// Values in the row.
        found: usize,
        /// The column.
        column: String,
    },
    /// A value isn't a number.
    #[error(
        "column {column:?} holds {given:?}, which is neither a number nor missing (empty or NA)"
    )]
    Number {
        /// The column.
        column: String,
        /// The value.
        given: String,
    },
    /// There is no answer.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}
