//! The end of a query. One verdict is the source of what text, JSON and the exit code say.

use crate::{
    Session, SessionError, json,
    kept::Kept,
    session::{LeftOut, bytes},
    strata::Header,
    text,
};
use approx_answers::{Answers, Confidence, Planner, Query, Reason, Report, Sample, Warning};
use approx_frames::FrameError;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde_json::Value;
use std::{mem, net::SocketAddr};

/// Whether an answer is as good as was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It is, or no error was accepted.
    #[default]
    Fine,
    /// The interval is narrow enough, but a warning or a sender puts it in doubt.
    InDoubt,
    /// An interval is too wide, or few messages carry it.
    NotMet,
}

impl Verdict {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::InDoubt => "in_doubt",
            Self::NotMet => "not_met",
        }
    }

    /// A sentence for people; `None` if the answer is fine.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            Self::Fine => None,
            Self::InDoubt => Some("the answer is in doubt: see its warnings"),
            Self::NotMet => Some("the accepted error isn't met"),
        }
    }
}

/// The end of a query.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The query.
    pub query: Query,
    /// The answers, without the warnings of the session.
    pub answers: Answers,
    /// The report of the plan, if an error was accepted. It says what the verdict says.
    pub report: Option<Report>,
    /// Whether the answer is as good as was asked for.
    pub verdict: Verdict,
    /// Warnings about the query as a whole.
    pub notes: Vec<String>,
    /// Messages that aren't in the answer, although they should be.
    pub left_out: u64,
}

impl Answered {
    /// The verdict of a reader who takes each warning for a doubt, also if no error was accepted,
    /// and the lack of an answer as well.
    pub fn verdict_with_warnings(&self) -> Verdict {
        let of_rows = self.answers.rows.iter().flat_map(|row| &row.estimate.warnings);
        let has_doubt = of_rows.chain(&self.answers.warnings).any(Warning::is_doubt);
        match self.verdict {
            Verdict::Fine if has_doubt || self.answers.rows.is_empty() => Verdict::InDoubt,
            verdict => verdict,
        }
    }

    /// A text for people: a line for each answer, then the warnings.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// A JSON object, as `atp-user recv --query --json` prints it.
    pub fn json(&self) -> Value {
        json::json(self)
    }
}

/// The end of a session that kept rows.
#[derive(Clone, Debug)]
pub struct ReceivedRows {
    /// The columns of the table, then those of each row's sender and weight.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// The senders of the rows; the number of each is its place.
    pub senders: Vec<Sender>,
    /// Whether rows are missing that should have arrived, beyond what the senders could lose.
    pub verdict: Verdict,
    /// Warnings about the rows as a whole.
    pub notes: Vec<String>,
    /// Messages that aren't among the rows, although they should be.
    pub left_out: u64,
}

/// A sender of rows: a stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The address.
    pub source: SocketAddr,
    /// The job.
    pub job: u32,
    /// Messages of the table that arrived.
    pub messages: u64,
    /// N, the messages that were sent, if the sender has said it.
    pub messages_sent: Option<u64>,
}

/// The facts that decide a verdict.
#[derive(Debug)]
pub struct Facts<'a> {
    pub answers: &'a Answers,
    /// Whether an error was accepted.
    pub has_plan: bool,
    pub report: Option<&'a Report>,
    pub left_out: u64,
    /// Whether a sender may count twice, or has not sent what it should.
    pub doubts_senders: bool,
}

impl Facts<'_> {
    /// The verdict, and the report with it. Without an accepted error, the reader judges the
    /// interval by its warnings. A sender that may count twice, a message or a key that was left
    /// out is a doubt in any case: no interval has room for it.
    pub fn evaluate(&self) -> (Verdict, Option<Report>) {
        let warnings = || self.answers.rows.iter().flat_map(|row| &row.estimate.warnings);
        let is_few = |warning: &Warning| matches!(warning, Warning::FewMessages { .. });
        let because = self.report.map(|report| match report.because {
            // No plan ends with such a row as met. Its key arrived in messages in flight.
            None | Some(Reason::InDoubt) if warnings().any(is_few) => Some(Reason::FewMessages),
            because => because,
        });
        let is_narrow = match because {
            Some(because) => matches!(because, None | Some(Reason::InDoubt)),
            None => !self.has_plan,
        };
        let all = || self.answers.warnings.iter().chain(warnings());
        let is_uncounted = |warning: &Warning| matches!(warning, Warning::UncountedRecords { .. });
        let lacks_data = self.doubts_senders || self.left_out > 0 || all().any(is_uncounted);
        let plan_in_doubt = all().any(Warning::is_doubt) || because == Some(Some(Reason::InDoubt));
        let verdict = match (is_narrow, lacks_data || self.has_plan && plan_in_doubt) {
            (false, _) => Verdict::NotMet,
            (true, true) => Verdict::InDoubt,
            (true, false) => Verdict::Fine,
        };
        // Doubts may arise after the end of the plan.
        let because =
            if verdict == Verdict::InDoubt { Some(Some(Reason::InDoubt)) } else { because };
        let report = self.report.zip(because);
        (verdict, report.map(|(report, because)| Report { because, ..report.clone() }))
    }
}

impl Session {
    /// Ends the senders that the query no longer waits for. The plan's last look is due then.
    fn end_running(&mut self) {
        self.leave_out_unknown_sent();
        for stratum in self.strata.running_numbers() {
            let of = self.strata.of_mut(stratum);
            let source = of.source;
            if let Header::Awaited(waiting) = &mut of.header {
                let waiting = mem::take(waiting);
                self.waiting_bytes -= bytes(&waiting);
                if !waiting.is_empty() {
                    let why = "no header arrived before the end of the query";
                    self.leave_out(waiting.len() as u64, format_args!("{source}: {why}"));
                }
            } else if let (true, Some(planner)) = (of.is_of_table(), &mut self.planner) {
                planner.source_ended(stratum);
            }
        }
        if self.strata.counted() > 0 && self.is_look_due() {
            // Nothing follows from the last look.
            self.look_now();
        }
    }

    /// Leaves out the senders whose N isn't known, if the query has an answer only without them:
    /// they died before their terms arrived.
    fn leave_out_unknown_sent(&mut self) {
        let Some((_, Kept::Answers(table))) = &mut self.table else { return };
        for stratum in self.strata.of_unknown_sent(table.answering().query()) {
            table.answering_mut().remove_stratum(stratum);
            let of = self.strata.of_mut(stratum);
            of.taken_out = mem::take(&mut of.counted);
            self.left_out.messages += of.taken_out;
        }
    }

    /// Ends a session of a query.
    ///
    /// # Errors
    /// Nothing arrived that has an answer.
    pub fn finish(mut self) -> Result<Answered, SessionError> {
        self.end_running();
        let answers = self.answers()?;
        let left_out = self.left_out.messages;
        let answers = answers.filter(|answers| !answers.rows.is_empty() || left_out == 0);
        let (Some(answers), Some((_, Kept::Answers(table)))) = (answers, &self.table) else {
            return Err(self.no_answer("the query has no answer"));
        };
        let query = table.answering().query().clone();
        let doubts = self.doubts();
        let facts = Facts {
            answers: &answers,
            has_plan: self.planner.is_some() || self.plan_failed.is_some(),
            report: self.planner.as_ref().and_then(Planner::report),
            left_out,
            doubts_senders: !doubts.is_empty(),
        };
        let (verdict, report) = facts.evaluate();
        let notes = self.notes(doubts);
        Ok(Answered { query, answers, report, verdict, notes, left_out })
    }

    /// Ends a session of rows.
    ///
    /// # Errors
    /// No row arrived.
    pub fn finish_rows(mut self) -> Result<ReceivedRows, SessionError> {
        self.end_running();
        let Some((_, Kept::Rows { rows, sample })) = self.table.take() else {
            return Err(self.no_answer("there are no rows"));
        };
        let mut senders = self.strata.senders();
        let weights: Vec<Option<f64>> = senders.iter().map(Sender::weight).collect();
        senders.retain(|sender| sender.messages > 0);
        let failed = |error: FrameError| SessionError::NoAnswer(error.to_string());
        let (schema, batches) = rows.into_batches(&weights).map_err(failed)?;
        let mut doubts = self.doubts();
        doubts.extend(unfair(&sample));
        match senders.iter().filter(|sender| sender.weight().is_none()).count() {
            0 => {}
            unknown => doubts.push(format!(
                "{unknown} senders haven't said how many messages they send: the weights of their \
                 rows are null"
            )),
        }
        let left_out = self.left_out.messages;
        let verdict = match left_out > 0 || !doubts.is_empty() {
            true => Verdict::InDoubt,
            false => Verdict::Fine,
        };
        let notes = self.notes(doubts);
        Ok(ReceivedRows { schema, batches, senders, verdict, notes, left_out })
    }

    fn no_answer(self, what: &str) -> SessionError {
        let reason = match (self.left_out.first_reason, self.cut_short, self.table) {
            (Some(reason), ..) => format!("{what}: {reason}"),
            (None, Some(why), _) => return SessionError::CutShort(format!("{what}: {why}")),
            (None, None, None) => {
                "no header arrived: send a table with `send --csv` or `send_dataframe`".to_owned()
            }
            (None, None, Some(_)) => format!("no record arrived, so {what}"),
        };
        SessionError::NoAnswer(reason)
    }

    fn doubts(&self) -> Vec<String> {
        let doubts = self.strata.doubts(self.senders);
        self.cut_short.iter().cloned().chain(doubts).collect()
    }

    fn notes(self, doubts: Vec<String>) -> Vec<String> {
        let LeftOut { messages, first_reason } = self.left_out;
        let first = first_reason.map(|reason| {
            format!("{messages} messages are left out of the answer; the first: {reason}")
        });
        first.into_iter().chain(self.plan_failed).chain(doubts).collect()
    }
}

/// Why rows that arrived may be no fair sample of all rows.
fn unfair(sample: &Sample) -> Vec<String> {
    let is_unfair = |warning: &Warning| {
        matches!(warning, Warning::NotShuffled { .. } | Warning::ShortestFirst { .. })
    };
    let counted = sample.mean(Confidence::P95);
    let warnings = counted.map(|estimate| estimate.warnings).unwrap_or_default();
    warnings.iter().filter(|warning| is_unfair(warning)).map(Warning::to_string).collect()
}

impl Sender {
    /// The messages that each one which arrived stands for.
    pub fn weight(&self) -> Option<f64> {
        let Self { messages, messages_sent, .. } = *self;
        let sent = messages_sent.filter(|sent| *sent >= messages)?;
        (messages > 0).then(|| sent as f64 / messages as f64)
    }
}
