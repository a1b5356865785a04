//! Errors of tables as Arrow record batches.

use arrow_schema::ArrowError;

/// A table that can't be sent, or a message that can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A column's type has no place in messages.
    #[error("column {column:?} is of type {kind}, which can't be sent: {remedy}")]
    Type {
        /// The column, and within nested ones the field.
        column: String,
        /// The type.
        kind: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The table has no columns.
    #[error("the table has no column: nothing can be sent")]
    NoColumn,
    /// The dictionaries of all columns are too large.
    #[error(
        "the dictionaries of the table's columns take {bytes} bytes, and fit {limit}: send columns \
         of many different values as plain ones"
    )]
    Dictionaries {
        /// Their size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A batch has other columns than the first one.
    #[error("batch {number} has other columns than batch 0: {reason}")]
    OtherSchema {
        /// The batch, counted from 0.
        number: usize,
        /// The difference.
        reason: String,
    },
    /// A sender's message is no header, or no batch of its table.
    #[error("the message isn't Arrow's IPC format: {reason}")]
    Message {
        /// The reason.
        reason: String,
    },
    /// The library of Arrow refuses a table.
    #[error("the table can't be divided into messages: {0}")]
    Arrow(#[from] ArrowError),
}

impl FrameError {
    pub(crate) fn message(reason: impl Into<String>) -> Self {
        Self::Message { reason: reason.into() }
    }
}
