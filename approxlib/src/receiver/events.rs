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
        /// The window of a stream, counted from 0 (by a receiver that came in the middle, only from
        /// the next one on); 0 of other jobs.
        window: u32,
        /// The message's group. Those of an exact group come in order.
        group: u8,
        /// The message's id, counted from 0 by its sender, in its group and window.
        message: u32,
        /// All of it.
        data: Vec<u8>,
    },
    /// A sender has ended a window of its stream. More follow.
    WindowEnded {
        /// The sender.
        source: SocketAddr,
        /// The job.
        job: u32,
        /// What arrived and what didn't.
        summary: Summary,
    },
    /// A sender has ended its job: all that was needed is here, unless the summary says that it was
    /// cancelled.
    Finished {
        /// The sender.
        source: SocketAddr,
        /// The job.
        job: u32,
        /// What arrived and what didn't.
        summary: Summary,
    },
}

/// How a job of one sender, or a window of it, ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Which window of a stream, counted from 0.
    pub window: u32,
    /// Whether every group has what it needs. If not, the sender has cancelled the job, or the
    /// window's deadline came.
    pub complete: bool,
    /// N: messages of this sender, all groups together.
    pub messages: u32,
    /// Of these, delivered.
    pub delivered: u32,
    /// Group by group.
    pub groups: Vec<GroupSummary>,
}

/// How one group of a job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// The group's id.
    pub group: u8,
    /// N.
    pub messages: u32,
    /// `ceil(MSR * N)`, as the sender says.
    pub needed: u32,
    /// Messages delivered.
    pub delivered: u32,
    /// The ids of the others, in order.
    pub lost: Vec<Range<u32>>,
}

impl From<atp_proto::Summary> for Summary {
    fn from(summary: atp_proto::Summary) -> Self {
        let groups = summary.groups.into_iter().map(|group| GroupSummary {
            group: group.group,
            messages: group.messages,
            needed: group.needed,
            delivered: group.delivered,
            lost: group.lost,
        });
        let groups: Vec<_> = groups.collect();
        Self {
            window: summary.window,
            complete: groups.iter().all(|group| group.delivered >= group.needed),
            messages: groups.iter().map(|group| group.messages).sum(),
            delivered: groups.iter().map(|group| group.delivered).sum(),
            groups,
        }
    }
}

impl Event {
    /// What it costs to keep it.
    pub(crate) fn bytes(&self) -> u64 {
        let own = size_of::<Self>() as u64;
        match self {
            Self::Message { data, .. } => own + data.len() as u64,
            Self::WindowEnded { summary, .. } | Self::Finished { summary, .. } => {
                let lost: usize = summary.groups.iter().map(|group| group.lost.len()).sum();
                own + (lost * size_of::<Range<u32>>()) as u64
                    + (summary.groups.len() * size_of::<GroupSummary>()) as u64
            }
        }
    }
}
