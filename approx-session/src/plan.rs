//! The plan of an accepted error: what is asked of the senders.

use crate::{Session, SessionError, kept::Kept, session::ROWS_GROUP};
use approx_answers::{Action, AnswerError, Answers};
use approxlib::{RateRequest, Receiver};

impl Session {
    /// Plans a sender of the table, by the terms that are known.
    pub(crate) fn join(&mut self, stratum: u32, receiver: &Receiver) -> Result<(), SessionError> {
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

    /// Looks at the error, if the plan says so.
    pub(crate) fn look(&mut self, receiver: &Receiver) -> Result<(), SessionError> {
        if !self.is_look_due() || self.strata.await_messages() {
            return Ok(());
        }
        let actions = self.look_now();
        self.obey(actions, receiver)
    }

    pub(crate) fn is_look_due(&self) -> bool {
        let (Some(planner), Some((_, Kept::Answers(table)))) = (&self.planner, &self.table) else {
            return false;
        };
        planner.is_look_due(table.answering().messages())
    }

    pub(crate) fn look_now(&mut self) -> Vec<Action> {
        let (Some(planner), Some((_, Kept::Answers(table)))) = (&mut self.planner, &mut self.table)
        else {
            return Vec::new();
        };
        planner.look_at(table.answering_mut()).unwrap_or_else(|error| {
            self.planner = None;
            let error = format!("there is no plan for the accepted error: {error}");
            self.unsaid.push(error.clone());
            self.plan_failed = Some(error);
            Vec::new()
        })
    }

    pub(crate) fn obey(
        &self,
        actions: impl IntoIterator<Item = Action>,
        receiver: &Receiver,
    ) -> Result<(), SessionError> {
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
    ///
    /// # Errors
    /// A sum or a count needs the number of messages, which no sender has said.
    pub(crate) fn answers(&self) -> Result<Option<Answers>, SessionError> {
        let Some((_, Kept::Answers(table))) = &self.table else { return Ok(None) };
        let answers = match &self.planner {
            Some(planner) => planner.answers(table.answering()),
            None => table.answering().answers(self.confidence),
        };
        match answers {
            Ok(answers) => Ok(Some(answers)),
            Err(AnswerError::NoMessages) => Ok(None),
            Err(AnswerError::SentUnknown { .. }) => Err(SessionError::NoAnswer(format!(
                "no sender has said how many messages it sends, and {} needs to know: repeat the \
                 query, or ask for an average",
                table.answering().query()
            ))),
            Err(error) => Err(SessionError::Answer(error)),
        }
    }
}
