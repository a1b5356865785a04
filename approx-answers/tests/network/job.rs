//! One job of a row: draws its table, sends it, and answers the question.

use std::cell::RefCell;
use std::rc::Rc;

use approx_answers::{AnswerError, Confidence, Estimate, Warning};
use atp_common::wire;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use crate::data::{Message, Order};
use crate::facts;
use crate::plan::Plan;
use crate::rows::{End, Row};
use crate::simulated::{self, Delivered, Flow};

/// The MSR with which the sender of a planned job begins. At 1 its group would be exact.
const FIRST_MSR: f64 = 0.99;

/// The answer of a job, and the truth.
#[derive(Debug)]
pub struct Answered {
    pub truth: f64,
    /// An error says that there is no answer.
    pub answer: Result<Estimate, AnswerError>,
    pub warnings: Vec<Warning>,
    /// The share of messages that arrived.
    pub arrived: f64,
}

/// Runs job `number` of a row.
pub fn run(row: &Row, number: u64) -> Answered {
    let mut draws = ChaCha8Rng::seed_from_u64(number);
    let messages = row.table.draw(row.messages, row.order, &mut draws);
    let truth = row.question.truth(&messages);
    // Senders have consecutive parts of the table.
    let parts: Vec<Vec<Message>> =
        messages.chunks(messages.len().div_ceil(row.senders)).map(<[Message]>::to_vec).collect();
    let flows: Vec<Flow> = (0..).zip(&parts).map(|(host, part)| flow(row, host, part)).collect();
    let (delivered, level, planned) = match row.end {
        End::Msr(_) => {
            let reader = Rc::new(RefCell::new(()));
            (simulated::run(row.network, &flows, reader, number), Confidence::P95, Vec::new())
        }
        End::Emax(error) => {
            let plan = Rc::new(RefCell::new(Plan::new(row.question, error, parts.clone())));
            let delivered = simulated::run(row.network, &flows, plan.clone(), number);
            let planner = &plan.borrow().planner;
            let report = planner.report().expect("all senders have ended");
            let warnings = report.warnings().into_iter().cloned().collect();
            (delivered, report.level, warnings)
        }
    };
    evaluate(row, &parts, &delivered, truth, level, planned)
}

fn flow(row: &Row, host: u32, part: &[Message]) -> Flow {
    let msr = match row.end {
        End::Msr(msr) => msr,
        End::Emax(_) => FIRST_MSR,
    };
    let lengths = part.iter().map(|message| message.bytes).collect();
    let order = match row.order {
        Order::Shuffled => wire::Order::Shuffled,
        Order::InTime | Order::ByKey => wire::Order::Ordered,
    };
    Flow { host, lengths, msr, mrdf: row.mrdf, order }
}

fn evaluate(
    row: &Row,
    parts: &[Vec<Message>],
    delivered: &Delivered,
    truth: f64,
    level: Confidence,
    mut warnings: Vec<Warning>,
) -> Answered {
    let mut answers = row.question.answers();
    for (stratum, (part, (terms, group))) in (0..).zip(parts.iter().zip(&delivered.groups)) {
        let arrived = (0..).zip(part).filter(|(id, _)| !simulated::is_lost(group, *id));
        for (_, message) in arrived {
            answers.push(row.question, stratum, message);
        }
        facts::hand_over(&mut answers, stratum, terms.as_ref(), group);
    }
    let answer = answers.answer(row.question, level);
    warnings.extend(answers.warnings());
    warnings.extend(answer.iter().flat_map(|estimate| estimate.warnings.clone()));
    let arrived = answers.messages() as f64 / row.messages as f64;
    Answered { truth, answer, warnings, arrived }
}
