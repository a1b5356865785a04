//! Why a session has no answer.

use approx_answers::{AnswerError, QueryError};

/// Why a session can't go on, or has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The network failed.
    #[error(transparent)]
    Transport(#[from] approxlib::Error),
    /// The records have no answer.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The query has no answer as it was asked for.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Nothing had arrived that an answer can be made of when the session was cut short.
    #[error("{0}")]
    CutShort(String),
    /// Nothing arrived that an answer can be made of.
    #[error("{0}")]
    NoAnswer(String),
}
