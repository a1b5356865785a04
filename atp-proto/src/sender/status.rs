//! Describes the sender's present state to its caller.

use super::{
    Sender, State,
    config::SenderConfig,
    group::Group,
    report::{GroupReport, MessageId, Report},
};
use atp_common::{laws::Rules, maps::GroupProgress};

impl Sender {
    /// Takes the ids of messages whose data is no longer needed: they are delivered, or the job has
    /// ended. Each id comes once.
    pub fn released(&mut self) -> impl Iterator<Item = MessageId> + '_ {
        self.ledger.drain_released()
    }

    /// The state of the job or its window.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether the job, or its present window, has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Done | State::Ended | State::Failed(_))
    }

    /// The present window, counted from 0.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Whether the present window is the job's last.
    pub fn is_last_window(&self) -> bool {
        !self.config.windows || self.ending.is_last()
    }

    /// Whether the receiver has ended the job.
    pub fn is_ended_by_receiver(&self) -> bool {
        self.report.ended_by_receiver
    }

    /// The number of packets that the receiver refused for want of room.
    pub fn refusals(&self) -> u64 {
        self.report.refusals
    }

    /// The number of transmissions in flight.
    pub fn in_flight(&self) -> u32 {
        self.sent_packets.in_flight()
    }

    /// The slot of a group's oldest transmission in flight.
    pub fn oldest_in_flight(&self, group: u8) -> Option<u32> {
        self.sent_packets.find_in_flight(self.group_index(group)?).map(|(slot, _)| slot)
    }

    /// Messages of which some packet was never handed out.
    pub fn untried_messages(&self) -> u32 {
        self.groups.iter().map(|group| group.untried).sum()
    }

    /// The inputs of Eq. 1 for the progress map, which a rate controller reads. `None` for an
    /// unknown group.
    pub fn progress(&self, group: u8) -> Option<GroupProgress> {
        self.group_index(group).map(|index| self.groups[usize::from(index)].progress())
    }

    /// The counters of the job so far.
    pub fn report(&self) -> Report {
        let group = |group: &Group| {
            let progress = group.progress();
            GroupReport {
                group: group.config.group,
                messages: group.messages(),
                delivered: progress.delivered,
                lost: progress.lost,
                needed: group.needed(),
                target_loss_rate: progress.target_loss_rate(Rules::default()),
            }
        };
        Report {
            groups: self.groups.iter().map(group).collect(),
            payload_bytes: self.config.payload_bytes_max,
            ..self.report.clone()
        }
    }

    /// The configuration as it is now, groups by id.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }
}
