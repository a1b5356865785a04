//! The facts of a run that intervals depend on, and how they are handed to the library.

use approx_answers::{Delivery, Order};
use atp_common::wire;
use atp_proto::GroupSummary;

use crate::answers::Answers;
use crate::simulated::Terms;

/// Hands over what a sender announced.
pub fn announce(answers: &mut Answers, stratum: u32, terms: &Terms) {
    if let Some(sent) = terms.messages {
        set_sent(answers, stratum, sent);
    }
    set_delivery(answers, stratum, &delivery(Some(terms), None));
}

/// Hands over the end of a sender's job. The terms of a short job may not have arrived.
pub fn hand_over(answers: &mut Answers, stratum: u32, terms: Option<&Terms>, end: &GroupSummary) {
    set_sent(answers, stratum, end.messages);
    set_delivery(answers, stratum, &delivery(terms, Some(end)));
}

fn set_sent(answers: &mut Answers, stratum: u32, sent: u32) {
    let set = match answers {
        Answers::Sample(sample) => sample.set_messages_sent(stratum, sent.into()),
        Answers::Keys(by) => by.set_messages_sent(stratum, sent.into()),
        Answers::Quantiles(quantiles) => quantiles.set_messages_sent(stratum, sent.into()),
        Answers::Query(answering) => answering.set_messages_sent(stratum, sent.into()),
    };
    set.expect("the number of the job");
}

fn set_delivery(answers: &mut Answers, stratum: u32, delivery: &Delivery) {
    let set = match answers {
        Answers::Sample(sample) => sample.set_delivery(stratum, delivery),
        Answers::Keys(by) => by.set_delivery(stratum, delivery),
        Answers::Quantiles(quantiles) => quantiles.set_delivery(stratum, delivery),
        Answers::Query(answering) => answering.set_delivery(stratum, delivery),
    };
    set.expect("few strata");
}

fn delivery(terms: Option<&Terms>, end: Option<&GroupSummary>) -> Delivery {
    let order = match terms.map(|terms| terms.order).unwrap_or_default() {
        wire::Order::Unknown => Order::Unknown,
        wire::Order::Ordered => Order::Ordered,
        wire::Order::Shuffled => Order::Shuffled { buffer: None },
        wire::Order::ShuffledAmong { log2_messages } => {
            Order::Shuffled { buffer: Some(1 << log2_messages) }
        }
    };
    let shortest_first = terms.is_some_and(|terms| terms.shortest_first);
    let ids = |end: &GroupSummary| {
        end.lost.iter().map(|lost| lost.start.into()..lost.end.into()).collect()
    };
    Delivery { order, shortest_first, lost: end.map(ids) }
}
