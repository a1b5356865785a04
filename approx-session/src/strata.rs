//! The senders of a query's records, each of which is a stratum.

use crate::Sender;
use approx_answers::{Delivery, Order, Query, Totals};
use approxlib::{GroupSummary, GroupTerms};
use std::{collections::HashMap, net::SocketAddr, ops::Range};

/// The most runs of jobs: anybody can begin some.
pub const STRATA_MAX: usize = 65_536;
/// The senders in doubt that are named.
const DOUBTS_MAX: usize = 10;

/// The strata, one for each run of a sender's job, numbered in the order of their first message or
/// terms.
#[derive(Debug, Default)]
pub struct Strata {
    numbers: HashMap<u64, u32>,
    strata: Vec<Stratum>,
}

/// A sender of records.
#[derive(Debug)]
pub struct Stratum {
    pub source: SocketAddr,
    pub job: u32,
    pub run: u64,
    pub header: Header,
    /// The totals of its table, if it states them.
    pub totals: Option<Totals>,
    /// The number of messages with records, once it is known.
    pub sent: Option<u64>,
    pub terms: Option<RowsTerms>,
    /// The sender's messages in the answer.
    pub counted: u64,
    /// Messages that were taken out of the answer, because N isn't known.
    pub taken_out: u64,
    pub has_ended: bool,
    /// Whether the sender ended before its groups had what they need, unasked.
    pub is_canceled: bool,
}

/// The judgment of a sender's records by its header.
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
    /// The number of a run's stratum, a new one if it is unknown; `None` if there are too many.
    pub fn number(&mut self, source: SocketAddr, job: u32, run: u64) -> Option<u32> {
        if let Some(number) = self.numbers.get(&run) {
            return Some(*number);
        }
        if self.strata.len() >= STRATA_MAX {
            return None;
        }
        let number = self.strata.len() as u32;
        self.strata.push(Stratum {
            source,
            job,
            run,
            header: Header::Awaited(Vec::new()),
            totals: None,
            sent: None,
            terms: None,
            counted: 0,
            taken_out: 0,
            has_ended: false,
            is_canceled: false,
        });
        self.numbers.insert(run, number);
        Some(number)
    }

    /// A stratum that has a number.
    pub fn of(&self, stratum: u32) -> &Stratum {
        &self.strata[stratum as usize]
    }

    pub fn of_mut(&mut self, stratum: u32) -> &mut Stratum {
        &mut self.strata[stratum as usize]
    }

    /// The senders whose N the answer of `query` lacks, if it has that of others.
    pub fn of_unknown_sent(&self, query: &Query) -> Vec<u32> {
        let counted = (0..).zip(&self.strata).filter(|(_, stratum)| stratum.is_counted());
        let (known, unknown): (Vec<_>, Vec<_>) = counted.partition(|(_, stratum)| {
            stratum.sent.is_some() || !query.needs_messages_sent(stratum.totals)
        });
        match known.is_empty() {
            true => Vec::new(),
            false => unknown.into_iter().map(|(number, _)| number).collect(),
        }
    }

    /// N of all senders of the table, if it is known.
    pub fn sent(&self) -> Option<u64> {
        let strata = self.strata.iter().filter(|stratum| stratum.is_of_table());
        strata.map(|stratum| stratum.sent).sum()
    }

    /// Messages of all senders in the answer.
    pub fn counted(&self) -> u64 {
        self.strata.iter().map(|stratum| stratum.counted).sum()
    }

    /// All senders, also those without a message of the table, in the order of their numbers.
    pub fn senders(&self) -> Vec<Sender> {
        let sender = |stratum: &Stratum| Sender {
            source: stratum.source,
            job: stratum.job,
            messages: stratum.counted,
            messages_sent: stratum.sent,
        };
        self.strata.iter().map(sender).collect()
    }

    /// Whether a sender of the table still owes its first message.
    pub fn await_messages(&self) -> bool {
        self.running().any(|stratum| stratum.is_of_table() && !stratum.is_counted())
    }

    /// Whether a number of senders have headers of other tables, and no other one is under way.
    pub fn are_all_refused(&self, senders: u32) -> bool {
        let is_refused = |stratum: &&Stratum| matches!(stratum.header, Header::Other);
        self.strata.iter().filter(is_refused).count() >= senders as usize
            && self.running().all(|stratum| is_refused(&stratum))
    }

    /// The senders that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Stratum> {
        self.strata.iter().filter(|stratum| !stratum.has_ended)
    }

    /// The numbers of the senders that have not ended.
    pub fn running_numbers(&self) -> Vec<u32> {
        let strata = (0..).zip(&self.strata);
        strata.filter(|(_, stratum)| !stratum.has_ended).map(|(number, _)| number).collect()
    }

    /// Doubts at the end of the query about the senders in the answer, of which `senders` were
    /// expected. The protocol doesn't tell a sender that was started again from another one.
    pub fn doubts(&self, senders: u32) -> Vec<String> {
        let number = self.strata.iter().filter(|stratum| stratum.is_counted()).count();
        let mut doubts: Vec<String> = self.strata.iter().filter_map(Stratum::doubt).collect();
        if let Some(others @ 1..) = doubts.len().checked_sub(DOUBTS_MAX) {
            doubts.truncate(DOUBTS_MAX);
            doubts.push(format!(
                "{others} more senders are left out, have not ended, or were canceled"
            ));
        }
        if number > senders as usize {
            doubts.push(format!(
                "the answer has records of {number} senders, more than the {senders} expected: \
                 choose them by job and address, or expect more senders"
            ));
        }
        if number < senders as usize {
            doubts.push(format!("the answer has records of {number} of the {senders} senders"));
        }
        doubts
    }
}

impl Stratum {
    pub fn is_of_table(&self) -> bool {
        matches!(self.header, Header::Same)
    }

    /// Whether the answer has messages of it.
    pub fn is_counted(&self) -> bool {
        self.counted > 0
    }

    /// Why an answer with its records, or without them, is in doubt at the end of the query.
    fn doubt(&self) -> Option<String> {
        let Self { source, job, counted, sent, taken_out, .. } = self;
        if *taken_out > 0 {
            return Some(format!(
                "left out of the answer: {taken_out} messages of the sender {source} (job {job}), \
                 which has not said how many it sends, and a sum, a count or top needs that \
                 number: repeat the query, or ask for an average"
            ));
        }
        if !self.is_counted() {
            return None;
        }
        let (state, remedy) = match (self.has_ended, self.is_canceled) {
            (false, _) => (
                "has not ended",
                "if it died and was started again, its records count twice: repeat the query; if \
                 it still runs, expect more senders",
            ),
            (true, true) => (
                "was canceled",
                "the rest of its records is missing: find out who canceled it, and repeat the query",
            ),
            (true, false) => return None,
        };
        let of = sent.map_or_else(String::new, |sent| format!(" of {sent}"));
        Some(format!(
            "the sender {source} (job {job}) {state}, and the answer has {counted}{of} messages of \
             it; {remedy}"
        ))
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
