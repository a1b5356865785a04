//! The facts of a run that intervals depend on, and how they are handed to the library.

use std::ops::Range;

use approx_answers::Delivery;

use crate::answers::Answers;

/// The order that the application declares for its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// It follows the data.
    Ordered,
    Shuffled,
}

/// The facts of one stratum.
#[derive(Clone, Debug)]
pub struct Facts {
    pub declared: Declared,
    pub mrdf: bool,
    /// The ids of the messages that didn't arrive.
    pub lost: Vec<Range<u32>>,
    /// Bytes of each message, by id.
    pub lengths: Vec<u32>,
}

/// Hands over the number of messages that a sender announced.
pub fn announce(answers: &mut Answers, stratum: u32, sent: u64) {
    let set = match answers {
        Answers::Sample(sample) => sample.set_messages_sent(stratum, sent),
        Answers::Keys(by) => by.set_messages_sent(stratum, sent),
        Answers::Quantiles(quantiles) => quantiles.set_messages_sent(stratum, sent),
    };
    set.expect("the number of the job");
}

/// Hands over the facts of a job that has ended, by stratum.
pub fn hand_over(answers: &mut Answers, strata: &[Facts]) {
    let mut all = Delivery::default();
    for (stratum, facts) in (0..).zip(strata) {
        announce(answers, stratum, facts.lengths.len() as u64);
        all.merge(&delivery(facts));
    }
    match answers {
        Answers::Sample(sample) => sample.set_delivery(all),
        Answers::Keys(by) => by.set_delivery(all),
        Answers::Quantiles(quantiles) => quantiles.set_delivery(all),
    }
}

/// The facts in the terms of the library.
fn delivery(facts: &Facts) -> Delivery {
    let mut delivery = Delivery {
        is_mrdf: facts.mrdf,
        is_ordered: facts.declared == Declared::Ordered,
        stopped_early: stopped_early(facts),
        ..Delivery::default()
    };
    let is_lost = |id: u32| facts.lost.iter().any(|lost| lost.contains(&id));
    for (_, bytes) in (0..).zip(&facts.lengths).filter(|(id, _)| !is_lost(*id)) {
        delivery.note_message_bytes((*bytes).into());
    }
    delivery
}

/// Whether the last messages are missing, more of them in a row than chance explains. The receiver
/// can't know which messages were tried.
fn stopped_early(facts: &Facts) -> bool {
    let sent = facts.lengths.len() as u32;
    let Some((tail, others)) = facts.lost.split_last().filter(|(tail, _)| tail.end == sent) else {
        return false;
    };
    let burst = others.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let lost = facts.lost.iter().map(ExactSizeIterator::len).sum::<usize>() as f64;
    let chance = (lost / f64::from(sent)).powi(tail.len() as i32);
    tail.len() > 2 * burst && chance < 1e-6
}
