//! The progress of the jobs that an endpoint serves.

use super::{Endpoint, Lanes};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The progress of one sender's job, in its current window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceProgress {
    /// The sender's address.
    pub source: SocketAddr,
    /// The job's id.
    pub job: u32,
    /// The run of the job, as [`Event::run`](super::Event::run) has it.
    pub run: u64,
    /// The window, counted from 0; 0 for a job without windows.
    pub window: u32,
    /// One entry per group of which a message has arrived, by id.
    pub groups: Vec<GroupArrivals>,
}

/// The progress of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupArrivals {
    /// The group's id.
    pub group: u8,
    /// Complete messages, also those that the application has not taken yet.
    pub delivered: u32,
}

impl<L: Lanes> Endpoint<L> {
    /// The progress of all running jobs of which a message has arrived, in no particular order.
    pub fn progress(&self) -> impl Iterator<Item = SourceProgress> + '_ {
        let running = self.sources.iter().filter(|source| !source.transport.is_finished());
        running.filter(|source| source.delivered() > 0).map(|source| {
            let arrivals = |(group, delivered)| GroupArrivals { group, delivered };
            let mut groups: Vec<_> = source.transport.delivered_by_group().map(arrivals).collect();
            groups.sort_unstable_by_key(|group| group.group);
            SourceProgress {
                source: source.address(),
                job: source.key.job,
                run: source.run,
                window: source.transport.window(),
                groups,
            }
        })
    }
}
