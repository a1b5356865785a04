//! A receiver that plans: it looks at the answer while messages arrive, and makes requests.

use std::collections::VecDeque;

use approx_answers::{AcceptedError, Action, Confidence, Planner};
use atp_proto::GroupSummary;
use atp_sim::experiment::{fraction_from_msr, msr_from_fraction};

use crate::answers::{Answers, Question};
use crate::data::Message;
use crate::facts;
use crate::simulated::{Ask, Reader, Terms};

/// The plan of a job, and the answer so far.
pub struct Plan {
    pub planner: Planner,
    question: Question,
    answers: Answers,
    /// The messages of each flow.
    messages: Vec<Vec<Message>>,
    /// Requests of each flow that its receiver hasn't made.
    requests: Vec<VecDeque<Action>>,
}

impl Plan {
    /// A plan for the messages of some senders.
    pub fn new(question: Question, error: f64, messages: Vec<Vec<Message>>) -> Self {
        let accepted = AcceptedError::relative(error).expect("an error");
        let flows = messages.len();
        Self {
            planner: Planner::new(accepted, Confidence::P95).with_sources(flows),
            question,
            answers: question.answers(),
            messages,
            requests: vec![VecDeque::new(); flows],
        }
    }

    fn look(&mut self) {
        if !self.planner.is_look_due(self.answers.messages()) {
            return;
        }
        let ask = |level| Ok(vec![self.answers.answer(self.question, level)?]);
        for action in self.planner.look(ask).expect("an answer") {
            match action {
                Action::Raise { stratum, .. } | Action::Lower { stratum, .. } => {
                    self.requests[stratum as usize].push_back(action);
                }
                Action::End => self.requests.iter_mut().for_each(|all| all.push_back(action)),
                _ => {}
            }
        }
    }
}

impl Reader for Plan {
    fn take(&mut self, flow: usize, message: u32) {
        let message = &self.messages[flow][message as usize];
        self.answers.push(self.question, flow as u32, message);
        self.look();
    }

    fn tell(&mut self, flow: usize, terms: &Terms) {
        facts::announce(&mut self.answers, flow as u32, terms);
        let first = self.planner.source_started(flow as u32, fraction_from_msr(terms.msr));
        self.requests[flow].extend(first);
        self.look();
    }

    fn next_request(&mut self, flow: usize) -> Option<Ask> {
        Some(match self.requests[flow].pop_front()? {
            Action::Raise { msr, .. } | Action::Lower { msr, .. } => {
                Ask::Msr(msr_from_fraction(msr).expect("a rate"))
            }
            _ => Ask::End,
        })
    }

    fn end(&mut self, flow: usize, terms: Option<&Terms>, group: &GroupSummary) {
        facts::hand_over(&mut self.answers, flow as u32, terms, group);
        self.planner.source_ended(flow as u32);
        self.look();
    }
}
