//! What a receiver tells its application.

use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, ops::Range};

/// Something happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A message is whole. Each message comes once.
    Message {
        /// Its sender; IPv4 senders as IPv4, also on a dual-stack socket.
        source: SocketAddr,
        /// The job.
        job: u32,
        /// The message's group.
        group: u8,
        /// The message's id, counted from 0 by its sender.
        message: u32,
        /// All of it.
        data: Vec<u8>,
    },
    /// A sender has ended its job: all that was needed is here.
    Finished {
        /// The sender.
        source: SocketAddr,
        /// The job.
        job: u32,
        /// What arrived and what didn't.
        summary: Summary,
    },
}

/// How a job of one sender ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// N: messages of this sender, all groups together.
    pub messages: u32,
    /// Of these, delivered.
    pub delivered: u32,
    /// The ids of the others, in order.
    pub lost: Vec<Range<u32>>,
    /// Group by group.
    pub groups: Vec<GroupSummary>,
}

/// How one group of a job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// The group's id.
    pub group: u8,
    /// N.
    pub messages: u32,
    /// `ceil(MSR * N)`, as the sender says.
    pub needed: u32,
    /// Messages delivered.
    pub delivered: u32,
}

impl From<atp_proto::Summary> for Summary {
    fn from(summary: atp_proto::Summary) -> Self {
        let groups = summary.groups.iter().map(|group| GroupSummary {
            group: group.group,
            messages: group.messages,
            needed: group.needed,
            delivered: group.delivered,
        });
        Self {
            messages: summary.messages,
            delivered: summary.delivered,
            groups: groups.collect(),
            lost: summary.lost,
        }
    }
}

impl Event {
    /// What it costs to keep it.
    pub(crate) fn bytes(&self) -> u64 {
        let own = size_of::<Self>() as u64;
        match self {
            Self::Message { data, .. } => own + data.len() as u64,
            Self::Finished { summary, .. } => own + summary.lost.len() as u64 * 8,
        }
    }
}
