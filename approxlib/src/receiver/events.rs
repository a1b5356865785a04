//! The events of a receiver, and the summaries of jobs and windows.

use crate::order::Order;
use atp_proto::{
    Message,
    endpoint::{self, EventKind},
};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, ops::Range};

/// An event for the application, from [`Receiver::recv`](crate::Receiver::recv).
///
/// A job of one sender gives `Message` events, then one `Finished`. `Started` comes behind the
/// first messages. A job that is over before its terms arrive gives no `Started`, and a sender of
/// an older version none at all. Neither `Started` nor `TermsChanged` comes after the end of its
/// run: a later one is of another run with the same address and job. Each window of a job but
/// the last ends with `WindowEnded`. A sender of which no message has arrived gives no event: any
/// host can send the packet that ends a job.
///
/// A job may have several runs at one address: a restarted one, or that of a host that forges the
/// address. Only `run` tells them apart. The receiver numbers the runs from 1 on, in the order of
/// their first packets, and uses no number twice; packets don't carry it. Another host's packets
/// have another number than the sender's unless it knows the 32-bit cookie of the sender's packets.
/// If messages prove who sends them, bind the sender to the `run` of the first one with a proof.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A sender has told the terms of its job, or of the job's next window.
    Started {
        /// The sender's address.
        source: SocketAddr,
        /// The job's id.
        job: u32,
        /// The run of the job.
        run: u64,
        /// N, MSR and name of each group.
        terms: Terms,
    },
    /// The terms of the current window have changed, or the sender has answered a
    /// [request](crate::Receiver::request_msr), perhaps without a change.
    TermsChanged {
        /// The sender's address.
        source: SocketAddr,
        /// The job's id.
        job: u32,
        /// The run of the job.
        run: u64,
        /// N, MSR and name of each group, as they are now.
        terms: Terms,
    },
    /// A complete message. Each message is delivered once.
    Message {
        /// The sender's address. IPv4 senders have an IPv4 address on a dual-stack socket too.
        source: SocketAddr,
        /// The job's id.
        job: u32,
        /// The run of the job.
        run: u64,
        /// The window, counted from 0; 0 for a job without windows. A receiver that was started in
        /// the middle of a job takes no message before it knows the number.
        window: u32,
        /// The message's group. Messages of an exact group are delivered in order.
        group: u8,
        /// The message's id. Senders count ids from 0 in each group and window.
        message: u32,
        /// The message.
        data: Vec<u8>,
    },
    /// A sender has ended a window of its job. Another window follows.
    WindowEnded {
        /// The sender's address.
        source: SocketAddr,
        /// The job's id.
        job: u32,
        /// The run of the job.
        run: u64,
        /// The outcome of the window.
        summary: Summary,
    },
    /// A sender has ended its job. Every group has the messages that it needs, unless the sender
    /// canceled the job or a deadline had passed: see [`Summary::complete`].
    Finished {
        /// The sender's address.
        source: SocketAddr,
        /// The job's id.
        job: u32,
        /// The run of the job.
        run: u64,
        /// The outcome of the job's last window.
        summary: Summary,
    },
}

/// The terms of one sender's job, or of a window of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The window, counted from 0.
    pub window: u32,
    /// One entry per group, by id.
    pub groups: Vec<GroupTerms>,
}

/// The terms of one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupTerms {
    /// The group's id.
    pub group: u8,
    /// The group's name, which may be empty.
    pub name: String,
    /// Whether its messages are delivered in order, and all of them.
    pub exact: bool,
    /// N, if the sender knows it already.
    pub messages: Option<u32>,
    /// The minimal sampling rate, 0 to 1.
    pub msr: f64,
    /// The order of the messages, as the sender states it.
    pub order: Order,
    /// Messages of fewer packets are sent first, and the messages differ in their number of packets
    /// so far: those that arrive are no fair sample.
    pub shortest_first: bool,
}

/// The outcome of one sender's job, or of a window of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The window, counted from 0.
    pub window: u32,
    /// Whether every group has `ceil(MSR * N)` messages. If not, the sender canceled the job, or
    /// the window's deadline had passed.
    pub complete: bool,
    /// N, the number of this sender's messages in all groups; at most `u32::MAX`.
    pub messages: u32,
    /// Messages delivered, in all groups; at most `u32::MAX`.
    pub delivered: u32,
    /// One entry per group.
    pub groups: Vec<GroupSummary>,
}

/// The outcome of one group of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// The group's id.
    pub group: u8,
    /// N, the number of messages.
    pub messages: u32,
    /// `ceil(MSR * N)`, as stated by the sender.
    pub needed: u32,
    /// Messages delivered.
    pub delivered: u32,
    /// The ids of the messages that were not delivered, as ranges in ascending order.
    pub lost: Vec<Range<u32>>,
}

impl From<endpoint::Event> for Event {
    fn from(endpoint::Event { source, job, run, kind }: endpoint::Event) -> Self {
        match kind {
            EventKind::Started(terms) => Self::Started { source, job, run, terms: terms.into() },
            EventKind::TermsChanged(terms) => {
                Self::TermsChanged { source, job, run, terms: terms.into() }
            }
            EventKind::Message(Message { window, group, message, data }) => {
                Self::Message { source, job, run, window, group, message, data }
            }
            EventKind::WindowEnded(summary) => {
                Self::WindowEnded { source, job, run, summary: summary.into() }
            }
            EventKind::Finished(summary) => {
                Self::Finished { source, job, run, summary: summary.into() }
            }
        }
    }
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
            messages: total(groups.iter().map(|group| group.messages)),
            delivered: total(groups.iter().map(|group| group.delivered)),
            groups,
        }
    }
}

/// The numbers come from another host: 256 groups of 2^24 messages are more than an u32 counts.
fn total(messages: impl Iterator<Item = u32>) -> u32 {
    messages.fold(0, u32::saturating_add)
}

impl From<atp_proto::Terms> for Terms {
    fn from(terms: atp_proto::Terms) -> Self {
        let groups = terms.groups.into_iter().map(|group| GroupTerms {
            group: group.group,
            name: group.name.as_str().to_owned(),
            exact: group.exact,
            messages: group.messages,
            msr: f64::from(group.msr.parts_per_billion()) / 1e9,
            order: group.order.into(),
            shortest_first: group.shortest_first,
        });
        Self { window: terms.window, groups: groups.collect() }
    }
}

/// The memory of an event, counted against the receiver's buffer.
pub fn bytes(event: &endpoint::Event) -> u64 {
    let more = match &event.kind {
        EventKind::Message(message) => message.data.len(),
        EventKind::Started(terms) | EventKind::TermsChanged(terms) => {
            size_of_val(terms.groups.as_slice())
        }
        EventKind::WindowEnded(summary) | EventKind::Finished(summary) => {
            let lost: usize = summary.groups.iter().map(|group| group.lost.len()).sum();
            lost * size_of::<Range<u32>>() + size_of_val(summary.groups.as_slice())
        }
    };
    (size_of::<endpoint::Event>() + more) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from__many_large_groups_have_the_largest_total() {
        let group = |group| atp_proto::GroupSummary {
            group,
            messages: 1 << 24,
            needed: 0,
            delivered: 1 << 24,
            lost: Vec::new(),
        };
        let groups = (0..=u8::MAX).map(group).collect();
        let summary =
            Summary::from(atp_proto::Summary { window: 0, more: false, forced: false, groups });
        assert_eq!((summary.messages, summary.delivered), (u32::MAX, u32::MAX));
        assert!(summary.complete);
    }
}
