//! An accepted error at ATP's receiver: looks at the answers while messages arrive, and asks the
//! senders for more, for less, or for the end.

use anyhow::{Context, Result};
use approx_answers::{AcceptedError, Action, Confidence, Planner};
use approxlib::{RateRequest, Receiver, Summary, Terms};
use serde::{Deserialize, Serialize};

use super::intervals::Estimators;

/// The outcome of a job with an accepted error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    pub is_met: bool,
    /// How far the intervals reached at most at the last look, as a share of the answer; a very
    /// large number if an answer had no bounds.
    pub reached: f64,
    pub looks: u32,
    /// The level of the intervals, which pays for the looks.
    pub level: f64,
    /// The MSR that was agreed last before the end was asked for: the mean over all messages.
    pub msr: f64,
    /// The outcome in a sentence.
    pub report: String,
}

/// The part of one sender.
#[derive(Clone, Copy)]
struct Sender {
    run: u64,
    group: u8,
    messages: u32,
    msr: f64,
    has_ended: bool,
}

/// The plan of a job, and what has arrived of it.
pub struct Asking {
    planner: Planner,
    estimators: Estimators,
    arrived: u64,
    /// By sender, from its terms on.
    senders: Vec<Option<Sender>>,
}

impl Asking {
    /// A plan for a job of so many senders, with an accepted relative error.
    pub fn new(
        error: f64,
        confidence: f64,
        estimators: Estimators,
        senders: usize,
    ) -> Result<Asking> {
        let (error, confidence) = (AcceptedError::relative(error)?, Confidence::new(confidence)?);
        Ok(Asking {
            planner: Planner::new(error, confidence).with_sources(senders),
            estimators,
            arrived: 0,
            senders: vec![None; senders],
        })
    }

    /// Takes in the terms of a sender.
    pub fn on_terms(
        &mut self,
        sender: usize,
        run: u64,
        terms: &Terms,
        receiver: &Receiver,
    ) -> Result<()> {
        let group = terms.groups.first().context("terms without a group")?;
        let messages = group.messages.context("a sender has not announced its messages")?;
        if self.planner.report().is_none() {
            let (group, msr) = (group.group, group.msr);
            let known = Sender { run, group, messages, msr, has_ended: false };
            self.senders[sender] = Some(known);
        }
        let first = self.planner.source_started(sender as u32, group.msr);
        self.obey(first, receiver)
    }

    /// Takes in a message.
    pub fn on_message(&mut self, index: usize, data: &[u8], receiver: &Receiver) -> Result<()> {
        self.estimators.push(index, data)?;
        self.arrived += 1;
        self.look(receiver)
    }

    /// No message of a sender comes any more.
    pub fn on_finished(
        &mut self,
        sender: usize,
        run: u64,
        summary: &Summary,
        receiver: &Receiver,
    ) -> Result<()> {
        if self.senders[sender].is_none() {
            // A short job may end before its terms arrive.
            let group = summary.groups.first().context("a summary without a group")?;
            let messages = group.messages;
            let msr = f64::from(group.needed) / f64::from(messages.max(1));
            let group = group.group;
            self.senders[sender] = Some(Sender { run, group, messages, msr, has_ended: true });
        }
        if let Some(sender) = &mut self.senders[sender] {
            sender.has_ended = true;
        }
        self.planner.source_ended(sender as u32);
        self.look(receiver)
    }

    fn look(&mut self, receiver: &Receiver) -> Result<()> {
        if !self.planner.is_look_due(self.arrived) {
            return Ok(());
        }
        let actions = self.planner.look(|level| self.estimators.accepted(level))?;
        self.obey(actions, receiver)
    }

    fn obey(&self, actions: impl IntoIterator<Item = Action>, receiver: &Receiver) -> Result<()> {
        let running = || self.senders.iter().flatten().filter(|sender| !sender.has_ended);
        for action in actions {
            match action {
                Action::Raise { stratum, msr } | Action::Lower { stratum, msr } => {
                    let sender = self.senders.get(stratum as usize).copied().flatten();
                    if let Some(Sender { run, group, has_ended: false, .. }) = sender {
                        receiver.request_msr(&RateRequest { run, group, msr })?;
                    }
                }
                Action::End => {
                    running().for_each(|sender| receiver.request_end(sender.run));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The outcome, once all senders have ended.
    pub fn outcome(&self) -> Result<Accepted> {
        let report = self.planner.report().context("the senders ended before the plan")?;
        let senders = || self.senders.iter().flatten();
        let messages: f64 = senders().map(|sender| f64::from(sender.messages)).sum();
        let needed: f64 = senders().map(|sender| f64::from(sender.messages) * sender.msr).sum();
        Ok(Accepted {
            is_met: report.is_met(),
            reached: report.reached.min(f64::MAX),
            looks: report.looks,
            level: report.level.level(),
            msr: needed / messages.max(1.0),
            report: report.to_string(),
        })
    }
}
