//! Failures of queries, and the exception of Java for each.

use crate::failure::{ARGUMENT, ATP, Class, Failure};
use approx_answers::{AnswerError, QueryError, TableError};
use approx_session::SessionError;
use jni::jni_str;
use std::error::Error;

/// There is no answer: not yet, or not of these data.
pub const NO_ANSWER: Class = jni_str!("org/netapprox/atp/NoAnswerException");
/// Data of a sender that can't be counted.
pub const DATA: Class = jni_str!("org/netapprox/atp/DataException");

impl From<AnswerError> for Failure {
    fn from(error: AnswerError) -> Self {
        use AnswerError as E;
        let class = match &error {
            E::Confidence { .. } | E::AcceptedError { .. } | E::Rank { .. } => ARGUMENT,
            E::SentUnknown { .. } | E::EmptyStratum { .. } | E::NoMessages => NO_ANSWER,
            E::ZeroDenominator | E::UnknownKey => NO_ANSWER,
            E::Value { .. } | E::MoreThanSent { .. } | E::Conflict { .. } => DATA,
            E::TooManyStrata { .. } | E::Overflow { .. } => DATA,
            _ => ATP,
        };
        Self::new(class, error.to_string())
    }
}

/// A query's text or its columns are wrong. [`data`] is for errors of messages.
impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Answer(error) => error.into(),
            _ => Self::argument(error.to_string()),
        }
    }
}

/// A message that can't be counted.
pub fn data(error: QueryError) -> Failure {
    match error {
        QueryError::Answer(error) => error.into(),
        _ => Failure::new(DATA, error.to_string()),
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Transport(error) => error.into(),
            SessionError::Answer(error) => error.into(),
            SessionError::Query(error) => error.into(),
            _ => Self::new(NO_ANSWER, error.to_string()),
        }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        let source = error.source().map(|source| format!(": {source}"));
        Self::argument(format!("{error}{}", source.unwrap_or_default()))
    }
}
