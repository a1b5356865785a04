//! What is kept of a table while it arrives.

use approx_answers::{AnswerError, Delivery, Query, QueryError, Totals};
use approx_frames::{TableAnswering, TableRows};

/// What is wanted of a table.
#[derive(Clone, Debug)]
pub enum Wanted {
    Answers(Query),
    Rows { bytes_max: u64 },
}

/// What is kept of it.
#[derive(Debug)]
pub enum Kept {
    Answers(Box<TableAnswering>),
    Rows(TableRows),
}

impl Kept {
    pub fn new(wanted: &Wanted, header: &[u8]) -> Result<Self, QueryError> {
        match wanted {
            Wanted::Answers(query) => {
                TableAnswering::new(query.clone(), header).map(|table| Self::Answers(table.into()))
            }
            Wanted::Rows { bytes_max } => TableRows::new(header, *bytes_max).map(Self::Rows),
        }
    }

    pub fn push(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        match self {
            Self::Answers(table) => table.push(stratum, message),
            Self::Rows(rows) => rows.push(stratum, message),
        }
    }

    /// Rows that arrived, where they are kept.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Answers(_) => 0,
            Self::Rows(rows) => rows.rows(),
        }
    }

    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        match self {
            Self::Answers(table) => table.answering_mut().set_messages_sent(stratum, messages),
            Self::Rows(_) => Ok(()),
        }
    }

    pub fn set_totals(&mut self, stratum: u32, totals: Totals) -> Result<(), AnswerError> {
        match self {
            Self::Answers(table) => table.answering_mut().set_totals(stratum, totals),
            Self::Rows(_) => Ok(()),
        }
    }

    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        match self {
            Self::Answers(table) => table.answering_mut().set_delivery(stratum, delivery),
            Self::Rows(_) => Ok(()),
        }
    }
}
