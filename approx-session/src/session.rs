//! A table that arrives, from the first header to the answer.

use crate::{
    SessionError,
    kept::{Kept, Wanted},
    line, printable,
    strata::{Header, Strata},
};
use approx_answers::{AcceptedError, Confidence, Planner, Query, Table, Totals};
use approxlib::{Event, Receiver};
use std::{fmt::Display, mem};

pub(crate) const HEADER_GROUP: u8 = Table::HEADER_GROUP;
pub(crate) const ROWS_GROUP: u8 = Table::ROWS_GROUP;
/// The most memory of messages that wait for a header.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 20;
/// The memory that a waiting message takes besides its data.
const WAITING_BYTES_EACH: usize = 64;
/// The longest reason to leave out a message.
const REASON_CHARS_MAX: usize = 300;

/// A table that senders send, and what is wanted of it: the answers of a query, or its rows.
pub struct Session {
    wanted: Wanted,
    /// The number of senders that the user named.
    pub(crate) senders: u32,
    pub(crate) confidence: Confidence,
    /// Once a header is known that has the query's columns.
    pub(crate) table: Option<(Vec<u8>, Kept)>,
    /// Bytes of all messages that wait for the header of their sender.
    pub(crate) waiting_bytes: usize,
    pub(crate) strata: Strata,
    pub(crate) planner: Option<Planner>,
    pub(crate) left_out: LeftOut,
    /// Why there is no plan for the accepted error.
    pub(crate) plan_failed: Option<String>,
    /// Why the senders weren't awaited.
    pub(crate) cut_short: Option<String>,
    pub(crate) unsaid: Vec<String>,
}

/// Messages that are not in the answer, although they should be: one bad sender or message costs
/// no more than its own part.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    pub messages: u64,
    pub first_reason: Option<String>,
}

/// The accepted error of a query, and when its plan ends the senders.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// The largest error.
    pub error: AcceptedError,
    /// Whether the senders end also while a warning puts the answer in doubt.
    pub ends_in_doubt: bool,
}

impl Session {
    /// A session that answers a query of the tables of a number of senders.
    ///
    /// # Errors
    /// All functions of the query are bounds, without an interval that an error could be accepted
    /// of.
    pub fn of_query(
        query: Query,
        senders: u32,
        confidence: Confidence,
        accepted: Option<Accepted>,
    ) -> Result<Self, SessionError> {
        accepted.map_or(Ok(()), |_| query.check_accepts_error())?;
        let plan = |Accepted { error, ends_in_doubt }| {
            let planner = Planner::new(error, confidence);
            planner.with_sources(senders as usize).end_in_doubt(ends_in_doubt)
        };
        let planner = accepted.map(plan);
        Ok(Self { confidence, planner, ..Self::new(Wanted::Answers(query), senders) })
    }

    /// A session that keeps the rows of the tables of a number of senders, `bytes_max` at most.
    pub fn of_rows(senders: u32, bytes_max: u64) -> Self {
        Self::new(Wanted::Rows { bytes_max }, senders)
    }

    fn new(wanted: Wanted, senders: u32) -> Self {
        Self {
            wanted,
            senders,
            confidence: Confidence::P95,
            table: None,
            waiting_bytes: 0,
            strata: Strata::default(),
            planner: None,
            left_out: LeftOut::default(),
            plan_failed: None,
            cut_short: None,
            unsaid: Vec::new(),
        }
    }

    /// Whether the plan has asked the senders for the end of their jobs.
    pub fn has_asked_for_the_end(&self) -> bool {
        self.planner.as_ref().is_some_and(|plan| plan.report().is_some())
    }

    /// Whether the tables of all senders so far, as many as are awaited, have no answer: they lack
    /// a column of the query, as a rule. There is nothing to wait for, and [`Session::finish`] says
    /// why.
    pub fn has_refused_all(&self) -> bool {
        self.table.is_none() && self.strata.are_all_refused(self.senders)
    }

    /// Warnings since the last call, which the end repeats.
    pub fn take_warnings(&mut self) -> Vec<String> {
        mem::take(&mut self.unsaid)
    }

    /// Notes why the senders aren't awaited any longer. The answer is then in doubt.
    pub fn cut_short(&mut self, why: &str) {
        self.cut_short = Some(why.to_owned());
    }

    /// The state of the answer in a line, such as `avg(x): 12.63 ± 0.75 from 420 of 1000 messages`;
    /// `None` before there is one. A sum has none before its N is known.
    pub fn line(&self) -> Option<String> {
        match (&self.wanted, &self.table) {
            (Wanted::Answers(query), _) => {
                Some(line::of_answers(query, &self.answers().ok()??, &self.strata))
            }
            (Wanted::Rows { .. }, Some((_, kept))) => {
                Some(line::of_rows(kept.rows(), &self.strata))
            }
            (Wanted::Rows { .. }, None) => None,
        }
    }

    /// Messages of the table that arrived, and those that its senders send, if all have said it.
    pub fn messages(&self) -> (u64, Option<u64>) {
        (self.strata.counted(), self.strata.sent())
    }

    /// Takes in an event, and sends the requests that follow from it.
    ///
    /// # Errors
    /// A request can't be sent.
    pub fn on_event(&mut self, event: &Event, receiver: &Receiver) -> Result<(), SessionError> {
        let (Event::Message { source, job, run, .. }
        | Event::Started { source, job, run, .. }
        | Event::TermsChanged { source, job, run, .. }
        | Event::WindowEnded { source, job, run, .. }
        | Event::Finished { source, job, run, .. }) = event;
        let Some(stratum) = self.strata.number(*source, *job, *run) else {
            if let Event::Message { .. } = event {
                let why = "too many jobs have begun: name the jobs and addresses to receive from";
                self.leave_out(1, format_args!("{source}: {why}"));
            }
            return Ok(());
        };
        match event {
            Event::Message { window: 1.., .. } => {
                self.leave_out(
                    1,
                    format_args!("{source} sends several windows, and a query takes one"),
                );
            }
            Event::Message { group, message, data, .. } => match (*group, *message) {
                (HEADER_GROUP, Table::TOTALS_MESSAGE) => self.on_totals(stratum, data),
                (HEADER_GROUP, _) => self.on_header(stratum, data, receiver)?,
                (ROWS_GROUP, _) => self.on_rows(stratum, data),
                (other, _) => {
                    let what = format_args!("{source} sent a message of group {other}");
                    self.leave_out(1, format_args!("{what}, which no table has"));
                }
            },
            Event::Started { terms, .. } | Event::TermsChanged { terms, .. } => {
                self.on_terms(stratum, terms, receiver)?;
            }
            Event::WindowEnded { summary, .. } | Event::Finished { summary, .. } => {
                self.on_end(stratum, summary);
            }
        }
        self.look(receiver)
    }

    /// The first header that has the query's columns is that of the table. Others join it.
    fn on_header(
        &mut self,
        stratum: u32,
        data: &[u8],
        receiver: &Receiver,
    ) -> Result<(), SessionError> {
        let source = self.strata.of(stratum).source;
        let is_awaited = matches!(self.strata.of(stratum).header, Header::Awaited(_));
        let other = match &mut self.table {
            Some((header, _)) if header == data => None,
            Some((_, kept)) if is_awaited => {
                kept.join(stratum, data).err().map(|error| error.to_string())
            }
            Some(_) => Some("it differs from that of another sender".to_owned()),
            None => match Kept::new(&self.wanted, data) {
                Ok(kept) => {
                    self.table = Some((data.to_vec(), kept));
                    None
                }
                Err(error) => Some(error.to_string()),
            },
        };
        let header = &mut self.strata.of_mut(stratum).header;
        let Header::Awaited(waiting) = header else {
            if let (Header::Same, Some(other)) = (header, other) {
                self.leave_out(1, format_args!("the second header of {source}: {other}"));
            }
            return Ok(());
        };
        let waiting = mem::take(waiting);
        *header = if other.is_some() { Header::Other } else { Header::Same };
        self.waiting_bytes -= bytes(&waiting);
        if let Some(other) = other {
            let messages = 1 + waiting.len() as u64;
            self.leave_out(messages, format_args!("the header of {source}: {other}"));
            return Ok(());
        }
        self.join(stratum, receiver)?;
        waiting.iter().for_each(|data| self.count(stratum, data));
        Ok(())
    }

    /// Keeps the totals of a sender until the answer has a message of it. Senders without totals
    /// may send their header once more in this place.
    fn on_totals(&mut self, stratum: u32, data: &[u8]) {
        let of = self.strata.of_mut(stratum);
        let source = of.source;
        let is_header = self.table.as_ref().is_some_and(|(header, _)| header == data);
        if is_header || matches!(of.header, Header::Other) {
            return;
        }
        match Totals::parse(data) {
            Ok(totals) => {
                of.totals = Some(totals);
                self.set_totals(stratum);
            }
            Err(error) => self.leave_out(1, format_args!("the totals of {source}: {error}")),
        }
    }

    fn on_rows(&mut self, stratum: u32, data: &[u8]) {
        let of = self.strata.of_mut(stratum);
        let source = of.source;
        match &mut of.header {
            Header::Same => self.count(stratum, data),
            Header::Other => self.leave_out(1, format_args!("{source} has another header")),
            Header::Awaited(waiting) => {
                let bytes = data.len() + WAITING_BYTES_EACH;
                if self.waiting_bytes + bytes <= WAITING_BYTES_MAX {
                    waiting.push(data.to_vec());
                    self.waiting_bytes += bytes;
                } else {
                    let why = "no header has arrived, and too many messages wait for it";
                    self.leave_out(1, format_args!("{source}: {why}"));
                }
            }
        }
    }

    /// Adds a message of the table to the answer.
    pub(crate) fn count(&mut self, stratum: u32, data: &[u8]) {
        let Some((_, kept)) = &mut self.table else { return };
        let of = self.strata.of_mut(stratum);
        if let Err(error) = kept.push(stratum, data) {
            let source = of.source;
            self.leave_out(1, format_args!("{source} sent what can't be read: {error}"));
            return;
        }
        of.counted += 1;
        if of.counted == 1 {
            self.set_sent(stratum);
            self.set_delivery(stratum, None);
            self.set_totals(stratum);
            if let Some(planner) = &mut self.planner {
                planner.source_known(stratum);
            }
        }
    }

    /// Notes messages that have no part in the answer, and says the first reason at once.
    pub(crate) fn leave_out(&mut self, messages: u64, reason: impl Display) {
        self.left_out.messages += messages;
        if self.left_out.first_reason.is_none() {
            let reason = printable(&reason.to_string(), REASON_CHARS_MAX);
            self.unsaid.push(format!("left out of the answer: {reason}"));
            self.left_out.first_reason = Some(reason);
        }
    }
}

/// The memory of messages that wait.
pub(crate) fn bytes(waiting: &[Vec<u8>]) -> usize {
    waiting.iter().map(|data| data.len() + WAITING_BYTES_EACH).sum()
}
