//! How a stratum was sent and what of it is missing: the facts that decide whether the messages
//! that arrived are a fair sample.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::position::{Gap, gap};

/// The order in which a source sent its messages.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Order {
    /// The source hasn't said.
    #[default]
    Unknown,
    /// That of the data, such as time.
    Ordered,
    /// Records or messages were shuffled before they were sent.
    Shuffled {
        /// The number of messages among which each one was drawn; `None` for all of them.
        buffer: Option<u64>,
    },
}

/// How the messages of a stratum were sent, and which of them are missing. An incomplete stratum
/// without these facts has a warning.
///
/// A source states order and lengths in its terms, and the end of the job names the lost messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The order of the messages.
    pub order: Order,
    /// The source preferred short messages, and its messages differ in length.
    pub shortest_first: bool,
    /// The ids of the messages that didn't arrive, as ascending ranges, counted from 0 in the order
    /// of sending; `None` before the job has ended.
    pub lost: Option<Vec<Range<u64>>>,
}

impl Delivery {
    /// Messages in an order without meaning, of one length.
    pub fn shuffled() -> Self {
        Self { order: Order::Shuffled { buffer: None }, ..Self::default() }
    }

    /// Messages that follow an order of the data.
    pub fn ordered() -> Self {
        Self { order: Order::Ordered, ..Self::default() }
    }
}

/// The facts of a stratum that decide about its warnings.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    pub order: Order,
    pub shortest_first: bool,
    /// Where messages are missing, if chance doesn't explain it.
    pub gap: Option<Gap>,
}

impl Facts {
    /// The facts of a stratum with this number of messages.
    pub fn new(delivery: &Delivery, messages: u64) -> Self {
        let Delivery { order, shortest_first, ref lost } = *delivery;
        let gap = lost.as_deref().and_then(|lost| gap(messages, lost));
        Self { order, shortest_first, gap }
    }

    /// The facts of two parts of a stratum: the worse of each.
    pub fn merged(self, other: Self) -> Self {
        let order = match (self.order, other.order) {
            (Order::Shuffled { buffer: a }, Order::Shuffled { buffer: b }) => {
                Order::Shuffled { buffer: a.into_iter().chain(b).min() }
            }
            (Order::Ordered, _) | (_, Order::Ordered) => Order::Ordered,
            _ => Order::Unknown,
        };
        let shortest_first = self.shortest_first || other.shortest_first;
        Self { order, shortest_first, gap: self.gap.or(other.gap) }
    }

    /// Whether the messages that arrive are a fair sample. Those of a buffer are none: a message
    /// that leaves it late keeps its place among the later ones.
    pub fn is_fair(&self, sent: Option<u64>) -> bool {
        match self.order {
            Order::Shuffled { buffer: None } => true,
            Order::Shuffled { buffer: Some(buffer) } => sent.is_some_and(|sent| sent <= buffer),
            Order::Unknown | Order::Ordered => false,
        }
    }
}
