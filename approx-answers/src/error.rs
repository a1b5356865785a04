//! Errors: what failed, where, and what to do.

/// An input that has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The confidence isn't between 0 and 1.
    #[error(
        "a confidence of {given} is impossible: give a number above 0 and below 1, such as 0.95"
    )]
    Confidence {
        /// The confidence.
        given: f64,
    },
    /// The accepted error isn't a positive number.
    #[error("an accepted error of {given} is impossible: give a finite number above 0")]
    AcceptedError {
        /// The error.
        given: f64,
    },
    /// The rank of a quantile isn't between 0 and 1.
    #[error("a quantile of rank {given} is impossible: give a number above 0 and below 1")]
    Rank {
        /// The rank.
        given: f64,
    },
    /// A value is NaN, infinite, or so large that its third power overflows.
    #[error(
        "a {field} of {given} in stratum {stratum} can't be counted: leave out missing values, and \
         give numbers of at most 1e60"
    )]
    Value {
        /// The stratum.
        stratum: u32,
        /// The field, such as `total`.
        field: &'static str,
        /// The value.
        given: f64,
    },
    /// More messages arrived than were sent.
    #[error(
        "stratum {stratum} has {arrived} messages of {sent} sent: count each message once, under \
         the stratum that sent it"
    )]
    MoreThanSent {
        /// The stratum.
        stratum: u32,
        /// Messages that arrived.
        arrived: u64,
        /// Messages that were sent.
        sent: u64,
    },
    /// Two parts of a sample say different things about one stratum.
    #[error(
        "stratum {stratum} has {one} {field} in one place and {other} in another: give each \
         sender and group a stratum of its own"
    )]
    Conflict {
        /// The stratum.
        stratum: u32,
        /// The field, such as `messages sent`.
        field: &'static str,
        /// The first value.
        one: f64,
        /// The other value.
        other: f64,
    },
    /// A sum needs the number of messages sent.
    #[error(
        "a sum needs the number of messages that stratum {stratum} sent: wait for it, or ask for \
         a mean"
    )]
    SentUnknown {
        /// The stratum.
        stratum: u32,
    },
    /// No message of a stratum arrived.
    #[error(
        "none of the {sent} messages of stratum {stratum} arrived: wait for one, or raise its MSR"
    )]
    EmptyStratum {
        /// The stratum.
        stratum: u32,
        /// Messages that were sent.
        sent: u64,
    },
    /// No message arrived.
    #[error("no message has arrived: wait for one")]
    NoMessages,
    /// A mean over no records, or a ratio with a zero denominator.
    #[error(
        "the mean is of no records, or the ratio's denominator is 0: wait for more messages, or \
         check the column"
    )]
    ZeroDenominator,
    /// The key isn't among the counted ones.
    #[error("no counted record has this key: `keys` lists those that have an answer")]
    UnknownKey,
    /// Two group-bys of different shapes can't be merged.
    #[error("key limits of {one} and {other} can't be merged: give both the same limit")]
    KeyLimits {
        /// The limit of one.
        one: usize,
        /// The limit of the other.
        other: usize,
    },
    /// The keys of two rankings are more than the limit, together or before.
    #[error("rankings with more than {limit} keys can't be merged: raise the limit of both")]
    TooManyKeys {
        /// The limit.
        limit: usize,
    },
    /// A part has more strata than one answer may have.
    #[error("stratum {stratum} is one too many: a sample holds {limit}; join small strata")]
    TooManyStrata {
        /// The stratum.
        stratum: u32,
        /// The most.
        limit: usize,
    },
    /// Bytes that aren't what they are read as.
    #[error("the bytes can't be read as {format:?}: {reason}")]
    Decode {
        /// The format.
        format: &'static str,
        /// The place and the reason.
        reason: String,
    },
    /// A computation overflowed.
    #[error("the {what} overflows: scale the column to smaller numbers")]
    Overflow {
        /// The result.
        what: &'static str,
    },
}

/// The functions, for messages.
const FORMS: &str = "sum(column), count(column), avg(column), ratio(a, b), stddev(column), \
                     quantile(column, 0.9), median(column), min(column) or top(15, column)";

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
    /// A function's arguments have no end.
    #[error("the query {given:?} has no `)`: write {FORMS}")]
    NoEnd {
        /// The query.
        given: String,
    },
    /// The arguments of a function are wrong.
    #[error("{function} needs {needs}: write {FORMS}")]
    Arguments {
        /// The function.
        function: &'static str,
        /// The arguments that the function takes.
        needs: &'static str,
    },
    /// There is text after the query.
    #[error(
        "the query has {given:?} after its function: only `by COLUMN` may follow; SELECT ... \
         WHERE ... GROUP BY ... takes conditions"
    )]
    Rest {
        /// The text.
        given: String,
    },
    /// A query that begins with SELECT isn't SQL.
    #[error(
        "the query isn't SQL: {reason}; write SELECT functions FROM table WHERE condition GROUP BY \
         columns"
    )]
    Sql {
        /// The reason, and the place if it is known.
        reason: String,
    },
    /// A clause of SQL that has no answer here.
    #[error(
        "{clause} isn't supported: write SELECT functions FROM table WHERE condition GROUP BY columns, \
         with comparisons of columns with numbers and texts"
    )]
    Clause {
        /// The clause.
        clause: String,
    },
    /// The query has too many parts.
    #[error("the query has more than {most} {what}: ask several queries")]
    TooLong {
        /// The parts.
        what: &'static str,
        /// The most of them.
        most: usize,
    },
    /// An error is accepted of functions that are bounds for all rows.
    #[error(
        "{function} is a bound for all rows and has no error to accept: leave out the accepted error, \
         or add a function with an interval, such as avg"
    )]
    NoInterval {
        /// The first function.
        function: String,
    },
    /// A quote isn't closed.
    #[error("a double quote of the query has no end: close it, and write a quote in a name twice")]
    Quote,
    /// A ranking by a second column, or beside another function.
    #[error(
        "top(k, column) stands alone, with one key for each of its column's values: leave out `by` \
         and other functions"
    )]
    TopBy,
    /// The table doesn't have the column.
    #[error("the table has no column {column:?}: it has {columns}")]
    Column {
        /// The column.
        column: String,
        /// All columns.
        columns: String,
    },
    /// Several columns have the name.
    #[error("several columns of the table have the name {column:?}: rename all but one")]
    SameName {
        /// The name.
        column: String,
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
        "column {column:?} holds {given:?}, which is neither a number nor missing: empty, NA, N/A, null or \\N"
    )]
    Number {
        /// The column.
        column: String,
        /// The value.
        given: String,
    },
    /// A value of a column with a type isn't a number.
    #[error(
        "column {column:?} holds {given:?} where a number is needed: send the column as numbers"
    )]
    NotNumber {
        /// The column.
        column: String,
        /// The value.
        given: String,
    },
    /// A text isn't CSV.
    #[error("the text isn't CSV in UTF-8: {reason}")]
    Csv {
        /// The place and the reason.
        reason: String,
    },
    /// A header is no single record.
    #[error("the CSV header has {records} records: give the one line that names the columns")]
    Header {
        /// The number of records.
        records: usize,
    },
    /// A message isn't the totals of a table.
    #[error("the message isn't the totals of a table: {reason}")]
    Totals {
        /// The place and the reason.
        reason: String,
    },
    /// A header or a message has no rows that can be read.
    #[error("{reason}")]
    Message {
        /// The reason.
        reason: String,
    },
    /// There is no answer.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}
