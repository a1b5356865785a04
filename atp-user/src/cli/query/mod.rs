//! `recv --query`: answers a query of CSV records while they arrive, and asks the senders for as
//! much as an accepted error needs.

mod end;
mod pace;
mod print;
mod strata;
#[cfg(test)]
mod tests;

use anyhow::{Result, bail};
use approx_answers::{
    AcceptedError, Action, AnswerError, Answers, Confidence, Planner, Query, Table, Totals,
};
use approx_frames::TableAnswering;
use approxlib::{Event, GroupSummary, RateRequest, Receiver, Summary, Terms};
pub use end::Verdict;
use end::{Facts, Outcome};
use pace::Pace;
use std::{
    fmt::Display,
    io::{self, Write},
    mem,
    time::{Duration, Instant},
};
use strata::{Header, Strata};

const HEADER_GROUP: u8 = Table::HEADER_GROUP;
const ROWS_GROUP: u8 = Table::ROWS_GROUP;
/// The most memory of messages that wait for a header.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// The memory that a waiting message takes besides its data.
const WAITING_BYTES_EACH: usize = 64;
/// The time between two live lines on a terminal, and elsewhere.
const LIVE: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// The longest reason to leave out a message.
const REASON_CHARS_MAX: usize = 300;

/// A query of arriving records.
pub struct Live {
    query: Query,
    /// The number of senders that the user named.
    senders: u32,
    confidence: Confidence,
    /// Once a header is known that has the query's columns.
    answering: Option<(Vec<u8>, TableAnswering)>,
    /// Bytes of all messages that wait for the header of their sender.
    waiting_bytes: usize,
    strata: Strata,
    planner: Option<Planner>,
    left_out: LeftOut,
    /// Why there is no plan for the accepted error.
    plan_failed: Option<String>,
    /// Whether standard error is a terminal on which the live line can be overwritten.
    draws: bool,
    pace: Pace,
}

/// Messages that are not in the answer, although they should be: one bad sender or message costs
/// no more than its own part.
#[derive(Debug, Default)]
struct LeftOut {
    messages: u64,
    first_reason: Option<String>,
}

impl Live {
    /// A query of the records of so many senders.
    pub fn new(
        query: Query,
        senders: u32,
        confidence: Confidence,
        emax: Option<AcceptedError>,
        ends_in_doubt: bool,
    ) -> Self {
        let plan = |error| {
            let planner = Planner::new(error, confidence);
            planner.with_sources(senders as usize).end_in_doubt(ends_in_doubt)
        };
        let planner = emax.map(plan);
        let draws = atp_output::draws(&io::stderr());
        Self {
            query,
            senders,
            confidence,
            answering: None,
            waiting_bytes: 0,
            strata: Strata::default(),
            planner,
            left_out: LeftOut::default(),
            plan_failed: None,
            draws,
            pace: Pace::new(LIVE[usize::from(!draws)], Instant::now()),
        }
    }

    /// Whether the plan has asked the senders for the end of their jobs.
    pub fn has_asked_for_the_end(&self) -> bool {
        self.planner.as_ref().is_some_and(|plan| plan.report().is_some())
    }

    /// Takes in an event, and sends the requests that follow from it.
    pub fn on_event(&mut self, event: &Event, receiver: &Receiver) -> Result<()> {
        match event {
            Event::Message { source, window: 1.., .. } => {
                self.leave_out(
                    1,
                    format_args!("{source} sends several windows, and a query takes one"),
                );
            }
            Event::Message { source, job, run, group, message, data, .. } => {
                let stratum = self.strata.number(*source, *job, *run);
                match (*group, *message) {
                    (HEADER_GROUP, Table::TOTALS_MESSAGE) => self.on_totals(stratum, data),
                    (HEADER_GROUP, _) => self.on_header(stratum, data, receiver)?,
                    (ROWS_GROUP, _) => self.on_rows(stratum, data),
                    (other, _) => {
                        let what = format_args!("{source} sent a message of group {other}");
                        self.leave_out(1, format_args!("{what}, without `atp-user send --csv`"));
                    }
                }
            }
            Event::Started { source, job, run, terms }
            | Event::TermsChanged { source, job, run, terms } => {
                let stratum = self.strata.number(*source, *job, *run);
                self.on_terms(stratum, terms, receiver)?;
            }
            Event::WindowEnded { source, job, run, summary }
            | Event::Finished { source, job, run, summary } => {
                let stratum = self.strata.number(*source, *job, *run);
                self.on_end(stratum, summary);
            }
        }
        self.look(receiver)?;
        self.print_live();
        Ok(())
    }

    /// The first header that has the query's columns is that of the table.
    fn on_header(&mut self, stratum: u32, data: &[u8], receiver: &Receiver) -> Result<()> {
        let source = self.strata.of(stratum).source;
        let other = match &self.answering {
            Some((header, _)) if header == data => None,
            Some(_) => Some(
                "it differs from that of another sender: query them apart, with --job \
                             or --from"
                    .to_owned(),
            ),
            None => match TableAnswering::new(self.query.clone(), data) {
                Ok(answering) => {
                    self.answering = Some((data.to_vec(), answering));
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
        let is_header = self.answering.as_ref().is_some_and(|(header, _)| header == data);
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
    fn count(&mut self, stratum: u32, data: &[u8]) {
        let Some((_, answering)) = &mut self.answering else { return };
        let of = self.strata.of_mut(stratum);
        if let Err(error) = answering.push(stratum, data) {
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

    fn on_terms(&mut self, stratum: u32, terms: &Terms, receiver: &Receiver) -> Result<()> {
        let rows = terms.groups.iter().find(|group| group.group == ROWS_GROUP);
        let Some(rows) = rows.filter(|_| terms.window == 0) else { return Ok(()) };
        let of = self.strata.of_mut(stratum);
        if of.has_ended {
            return Ok(());
        }
        of.terms = Some(rows.into());
        of.sent = rows.messages.map(u64::from).or(of.sent);
        if of.is_of_table() { self.join(stratum, receiver) } else { Ok(()) }
    }

    /// Plans a sender of the table, by the terms that are known.
    fn join(&mut self, stratum: u32, receiver: &Receiver) -> Result<()> {
        self.set_sent(stratum);
        self.set_delivery(stratum, None);
        let Some(terms) = self.strata.of(stratum).terms else { return Ok(()) };
        let Some(planner) = &mut self.planner else { return Ok(()) };
        if terms.exact {
            // It keeps its rate.
            planner.source_known(stratum);
            return Ok(());
        }
        let action = planner.source_started(stratum, terms.msr);
        self.obey(action, receiver)
    }

    fn on_end(&mut self, stratum: u32, summary: &Summary) {
        let is_planned_end = self.has_asked_for_the_end();
        let of = self.strata.of_mut(stratum);
        let source = of.source;
        if mem::replace(&mut of.has_ended, true) {
            // A later window of the job.
            return;
        }
        let rows = summary.groups.iter().find(|group| group.group == ROWS_GROUP);
        if let Some(rows) = rows.filter(|_| summary.window == 0) {
            of.sent = Some(rows.messages.into());
        }
        let is_counted = of.is_counted();
        // The end that the plan asked for may meet one of the sender's own.
        of.is_canceled = !summary.complete && !is_planned_end;
        let waiting = match &mut of.header {
            Header::Awaited(waiting) => mem::take(waiting),
            Header::Same | Header::Other => Vec::new(),
        };
        self.waiting_bytes -= bytes(&waiting);
        self.set_sent(stratum);
        self.set_delivery(stratum, rows.filter(|_| summary.window == 0));
        let lost = rows.map_or(0, |rows| rows.messages.saturating_sub(rows.delivered));
        let messages = waiting.len() as u64 + u64::from(lost);
        if !is_counted && messages > 0 {
            let why = match waiting.len() {
                0 => "no message with records arrived",
                _ => "no header arrived: send the file with `atp-user send --csv`",
            };
            self.leave_out(messages, format_args!("{source}: {why}"));
        }
        if let Some(planner) = &mut self.planner {
            planner.source_ended(stratum);
        }
    }

    /// A sender without a message in the answer has no part in it.
    fn set_sent(&mut self, stratum: u32) {
        let of = self.strata.of(stratum);
        let source = of.source;
        let (Some(sent), true, Some((_, answering))) =
            (of.sent, of.is_counted(), &mut self.answering)
        else {
            return;
        };
        if let Err(error) = answering.answering_mut().set_messages_sent(stratum, sent) {
            self.strata.of_mut(stratum).sent = None;
            self.leave_out(1, format_args!("the terms of {source}: {error}"));
        }
    }

    /// Hands on the totals of a sender of the table.
    fn set_totals(&mut self, stratum: u32) {
        let of = self.strata.of(stratum);
        let source = of.source;
        let (Some(totals), true, Some((_, answering))) =
            (of.totals, of.is_counted(), &mut self.answering)
        else {
            return;
        };
        if let Err(error) = answering.answering_mut().set_totals(stratum, totals) {
            self.leave_out(1, format_args!("the totals of {source}: {error}"));
        }
    }

    /// Hands on how a sender of the table sends, and from its end on what is lost.
    fn set_delivery(&mut self, stratum: u32, ended: Option<&GroupSummary>) {
        let of = self.strata.of(stratum);
        let (source, delivery) = (of.source, of.delivery(ended));
        let (true, Some((_, answering))) = (of.is_counted(), &mut self.answering) else { return };
        if let Err(error) = answering.answering_mut().set_delivery(stratum, &delivery) {
            self.leave_out(1, format_args!("the delivery of {source}: {error}"));
        }
    }

    /// Notes messages that have no part in the answer, and says the first reason at once.
    fn leave_out(&mut self, messages: u64, reason: impl Display) {
        self.left_out.messages += messages;
        if self.left_out.first_reason.is_none() {
            let reason = print::printable(&reason.to_string(), REASON_CHARS_MAX);
            self.clear_line();
            tracing::warn!("left out of the answer: {reason}");
            self.left_out.first_reason = Some(reason);
        }
    }

    /// Looks at the error, if the plan says so.
    fn look(&mut self, receiver: &Receiver) -> Result<()> {
        if !self.is_look_due() || self.strata.await_messages() {
            return Ok(());
        }
        let actions = self.look_now();
        self.obey(actions, receiver)
    }

    fn is_look_due(&self) -> bool {
        let (Some(planner), Some((_, answering))) = (&self.planner, &self.answering) else {
            return false;
        };
        planner.is_look_due(answering.answering().messages())
    }

    fn look_now(&mut self) -> Vec<Action> {
        let (Some(planner), Some((_, answering))) = (&mut self.planner, &mut self.answering) else {
            return Vec::new();
        };
        planner.look_at(answering.answering_mut()).unwrap_or_else(|error| {
            self.planner = None;
            let error = format!("there is no plan for the accepted error: {error}");
            self.clear_line();
            tracing::warn!("{error}");
            self.plan_failed = Some(error);
            Vec::new()
        })
    }

    fn obey(&self, actions: impl IntoIterator<Item = Action>, receiver: &Receiver) -> Result<()> {
        for action in actions {
            match action {
                Action::Raise { stratum, msr } | Action::Lower { stratum, msr } => {
                    let of = self.strata.of(stratum);
                    if !of.has_ended {
                        let (run, group) = (of.run, ROWS_GROUP);
                        receiver.request_msr(&RateRequest { run, group, msr })?;
                    }
                }
                Action::End => {
                    for of in self.strata.running() {
                        receiver.request_end(of.run);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The answers so far; `None` before there are any.
    fn answers(&self) -> Result<Option<Answers>> {
        let Some((_, answering)) = &self.answering else { return Ok(None) };
        let answers = match &self.planner {
            Some(planner) => planner.answers(answering.answering()),
            None => answering.answering().answers(self.confidence),
        };
        match answers {
            Ok(answers) => Ok(Some(answers)),
            Err(AnswerError::NoMessages) => Ok(None),
            Err(AnswerError::SentUnknown { .. }) => bail!(
                "no sender has said how many messages it sends, and {} needs to know: repeat the \
                 query, or ask for an average",
                self.query
            ),
            Err(error) => Err(error.into()),
        }
    }

    /// Prints the state of the answer on standard error, now and then.
    fn print_live(&mut self) {
        let began = Instant::now();
        if !self.pace.is_due(began) {
            return;
        }
        // A sum has no answer before its N is known.
        if let Ok(Some(answers)) = self.answers() {
            let line = print::live_line(&self.query, &answers, &self.strata);
            self.clear_line();
            let after = if self.draws { "" } else { "\n" };
            // A closed standard error doesn't stop the query.
            let _ = write!(io::stderr(), "{line}{after}");
            let _ = io::stderr().flush();
        }
        self.pace.printed(began, Instant::now());
    }

    fn clear_line(&self) {
        if self.draws {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// The answers at the end, as text or as JSON, and whether they are as good as was asked for.
    pub fn finish(mut self, json: bool) -> Result<(String, Verdict)> {
        self.clear_line();
        self.end_running();
        let answers = self.answers()?;
        let LeftOut { messages: left_out, first_reason } = self.left_out;
        let answers = answers.filter(|answers| !answers.rows.is_empty() || left_out == 0);
        let Some(answers) = answers else {
            match (first_reason, self.answering) {
                (Some(reason), _) => bail!("the query has no answer: {reason}"),
                (None, None) => {
                    bail!("no header arrived: send the file with `atp-user send --csv`")
                }
                (None, Some(_)) => bail!("no record arrived, so the query has no answer"),
            }
        };
        let doubts = self.strata.doubts(self.senders);
        let facts = Facts {
            answers: &answers,
            has_plan: self.planner.is_some() || self.plan_failed.is_some(),
            report: self.planner.as_ref().and_then(Planner::report),
            left_out,
            doubts_senders: !doubts.is_empty(),
        };
        let (verdict, report) = facts.evaluate();
        let first = first_reason.map(|reason| {
            format!("{left_out} messages are left out of the answer; the first: {reason}")
        });
        let notes = first.into_iter().chain(self.plan_failed).chain(doubts).collect();
        let outcome = Outcome { report, verdict, notes, left_out };
        let text = match json {
            true => format!("{}\n", print::json(&self.query, &answers, &outcome)),
            false => print::text(&self.query, &answers, &outcome),
        };
        Ok((text, verdict))
    }
}

/// The memory of messages that wait.
fn bytes(waiting: &[Vec<u8>]) -> usize {
    waiting.iter().map(|data| data.len() + WAITING_BYTES_EACH).sum()
}
