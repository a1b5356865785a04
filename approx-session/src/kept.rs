//! The part of a table that a session keeps.

use crate::Session;
use approx_answers::{AnswerError, Delivery, Function, Query, QueryError, Sample, Totals};
use approx_frames::{TableAnswering, TableRows};
use arrow_schema::DataType;

/// The result that a session gives.
#[derive(Clone, Debug)]
pub enum Wanted {
    Answers(Query),
    Rows { bytes_max: u64 },
}

/// The state behind that result.
#[derive(Debug)]
pub enum Kept {
    Answers(Box<TableAnswering>),
    /// The sample counts the rows: what makes a count doubtful does so with their weights.
    Rows {
        rows: TableRows,
        sample: Sample,
    },
}

impl Kept {
    pub fn new(wanted: &Wanted, header: &[u8]) -> Result<Self, QueryError> {
        match wanted {
            Wanted::Answers(query) => {
                TableAnswering::new(query.clone(), header).map(|table| Self::Answers(table.into()))
            }
            Wanted::Rows { bytes_max } => {
                let rows = TableRows::new(header, *bytes_max)?;
                Ok(Self::Rows { rows, sample: Sample::new() })
            }
        }
    }

    /// Takes the header of another stratum.
    pub fn join(&mut self, stratum: u32, header: &[u8]) -> Result<(), QueryError> {
        match self {
            Self::Answers(table) => table.join(stratum, header),
            Self::Rows { rows, .. } => rows.join(stratum, header),
        }
    }

    pub fn push(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        match self {
            Self::Answers(table) => table.push(stratum, message),
            Self::Rows { rows, sample } => {
                let before = rows.rows();
                rows.push(stratum, message)?;
                let new = rows.rows() - before;
                Ok(sample.push(stratum, new, new as f64)?)
            }
        }
    }

    /// Rows that arrived, where they are kept.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Answers(_) => 0,
            Self::Rows { rows, .. } => rows.rows(),
        }
    }

    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        match self {
            Self::Answers(table) => table.answering_mut().set_messages_sent(stratum, messages),
            Self::Rows { sample, .. } => sample.set_messages_sent(stratum, messages),
        }
    }

    pub fn set_totals(&mut self, stratum: u32, totals: Totals) -> Result<(), AnswerError> {
        match self {
            Self::Answers(table) => table.answering_mut().set_totals(stratum, totals),
            Self::Rows { .. } => Ok(()),
        }
    }

    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        match self {
            Self::Answers(table) => table.answering_mut().set_delivery(stratum, delivery),
            Self::Rows { sample, .. } => sample.set_delivery(stratum, delivery),
        }
    }
}

impl Session {
    /// The types of the columns of the keys. `None` where senders disagree, and for CSV.
    pub fn key_types(&self) -> Vec<Option<DataType>> {
        let Some((_, Kept::Answers(table))) = &self.table else { return Vec::new() };
        let Query { functions, by, .. } = table.answering().query();
        let of_top = functions.iter().filter_map(|function| match function {
            Function::Top { column, .. } => Some(column),
            _ => None,
        });
        by.iter().chain(of_top).map(|column| table.value_type(column).cloned()).collect()
    }
}
