//! The order of a group's messages, as applications state and get it.

use atp_common::wire;
use serde::{Deserialize, Serialize};

/// The order in which the messages of a group are sent, as its sender states it.
///
/// A job mostly leaves out its last messages. Only of shuffled ones those that arrive are a fair
/// sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The sender doesn't say.
    #[default]
    Unknown,
    /// The order of the data, such as time.
    Ordered,
    /// An order without meaning.
    Shuffled {
        /// The number of messages from which each one was drawn; `None` for all of them. A sender
        /// rounds it down to a power of two, 2^24 at most.
        buffer: Option<u32>,
    },
}

impl From<Order> for wire::Order {
    fn from(order: Order) -> Self {
        match order {
            Order::Unknown => Self::Unknown,
            Order::Ordered => Self::Ordered,
            Order::Shuffled { buffer: None } => Self::Shuffled,
            Order::Shuffled { buffer: Some(messages) } => Self::shuffled_among(messages),
        }
    }
}

impl From<wire::Order> for Order {
    fn from(order: wire::Order) -> Self {
        match order {
            wire::Order::Unknown => Self::Unknown,
            wire::Order::Ordered => Self::Ordered,
            wire::Order::Shuffled => Self::Shuffled { buffer: None },
            wire::Order::ShuffledAmong { log2_messages } => {
                Self::Shuffled { buffer: 1u32.checked_shl(log2_messages.into()) }
            }
        }
    }
}
