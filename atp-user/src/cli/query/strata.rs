//! The senders of a query's records, each of which is a stratum.

use approx_answers::{Delivery, Order};
use approxlib::{GroupSummary, GroupTerms};
use std::{collections::HashMap, net::SocketAddr, ops::Range};

/// The strata, numbered in the order of their first message or terms.
#[derive(Debug, Default)]
pub struct Strata {
    numbers: HashMap<(SocketAddr, u32), u32>,
    strata: Vec<Stratum>,
}

/// A sender of records.
#[derive(Debug)]
pub struct Stratum {
    pub source: SocketAddr,
    pub job: u32,
    pub header: Header,
    /// The number of messages with records, once it is known.
    pub sent: Option<u64>,
    pub terms: Option<RowsTerms>,
    /// Whether the answer has messages of it.
    pub is_counted: bool,
    pub has_ended: bool,
}

/// The judgment of a sender's records by its CSV header.
#[derive(Debug)]
pub enum Header {
    /// It has not arrived, and messages wait for it: they may have other columns.
    Awaited(Vec<Vec<u8>>),
    /// The records belong to the query's table.
    Same,
    /// The records are those of another table.
    Other,
}

/// The terms of the group of records.
#[derive(Clone, Copy, Debug)]
pub struct RowsTerms {
    pub msr: f64,
    pub exact: bool,
    pub order: approxlib::Order,
    pub shortest_first: bool,
}

impl Strata {
    /// The number of a sender's stratum, a new one if it is unknown.
    pub fn number(&mut self, source: SocketAddr, job: u32) -> u32 {
        let strata = &mut self.strata;
        *self.numbers.entry((source, job)).or_insert_with(|| {
            strata.push(Stratum {
                source,
                job,
                header: Header::Awaited(Vec::new()),
                sent: None,
                terms: None,
                is_counted: false,
                has_ended: false,
            });
            strata.len() as u32 - 1
        })
    }

    /// A stratum that has a number.
    pub fn of(&self, stratum: u32) -> &Stratum {
        &self.strata[stratum as usize]
    }

    pub fn of_mut(&mut self, stratum: u32) -> &mut Stratum {
        &mut self.strata[stratum as usize]
    }

    /// N of all senders of the table, if it is known.
    pub fn sent(&self) -> Option<u64> {
        let strata = self.strata.iter().filter(|stratum| stratum.is_of_table());
        strata.map(|stratum| stratum.sent).sum()
    }

    /// Whether a sender of the table still owes its first message.
    pub fn await_messages(&self) -> bool {
        self.running().any(|stratum| stratum.is_of_table() && !stratum.is_counted)
    }

    /// The senders that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Stratum> {
        self.strata.iter().filter(|stratum| !stratum.has_ended)
    }
}

impl Stratum {
    pub fn is_of_table(&self) -> bool {
        matches!(self.header, Header::Same)
    }

    /// The delivery of the records: as their sender stated it, and from the end on with the lost
    /// messages.
    pub fn delivery(&self, ended: Option<&GroupSummary>) -> Delivery {
        let order = match self.terms.map(|terms| terms.order) {
            None | Some(approxlib::Order::Unknown) => Order::Unknown,
            Some(approxlib::Order::Ordered) => Order::Ordered,
            Some(approxlib::Order::Shuffled { buffer }) => {
                Order::Shuffled { buffer: buffer.map(u64::from) }
            }
        };
        let shortest_first = self.terms.is_some_and(|terms| terms.shortest_first);
        let range = |lost: &Range<u32>| u64::from(lost.start)..u64::from(lost.end);
        let lost = ended.map(|rows| rows.lost.iter().map(range).collect());
        Delivery { order, shortest_first, lost }
    }
}

impl From<&GroupTerms> for RowsTerms {
    fn from(group: &GroupTerms) -> Self {
        let GroupTerms { msr, exact, order, shortest_first, .. } = *group;
        Self { msr, exact, order, shortest_first }
    }
}
