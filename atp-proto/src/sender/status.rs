//! Describes the sender's present state to its caller.

use super::{
    Sender, State,
    config::SenderConfig,
    group::Group,
    report::{MessageId, Report},
};
use atp_common::maps::GroupProgress;

impl Sender {
    /// Takes the ids of messages whose data is no longer needed: they are delivered, or the job has
    /// ended. Each id comes once.
    pub fn released(&mut self) -> impl Iterator<Item = MessageId> + '_ {
        let closing = self.closing.as_mut().map(|closing| closing.ledger.drain_released());
        closing.into_iter().flatten().chain(self.window.ledger.drain_released())
    }

    /// The state of the job or its window.
    pub fn state(&self) -> &State {
        &self.window.state
    }

    /// Whether the job, or its present window, has ended.
    pub fn has_ended(&self) -> bool {
        self.window.is_over()
    }

    /// The present window, counted from 0.
    pub fn window(&self) -> u32 {
        self.window.number
    }

    /// Whether the present window is the job's last.
    pub fn is_last_window(&self) -> bool {
        !self.config.windows || self.window.ending.is_last()
    }

    /// Whether the receiver has ended the job.
    pub fn is_ended_by_receiver(&self) -> bool {
        self.report.ended_by_receiver
    }

    /// The number of packets that the receiver refused for want of room.
    pub fn refusals(&self) -> u64 {
        self.report.refusals
    }

    /// How often the peer or its host has sent something. ACKs that were read together count once.
    pub fn answers(&self) -> u64 {
        self.silence.answers()
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
        self.windows().flat_map(|window| &window.groups).map(|group| group.untried).sum()
    }

    /// The inputs of Eq. 1 for the progress map, which a rate controller reads. `None` for an
    /// unknown group. The sum over the windows that have not ended.
    pub fn progress(&self, group: u8) -> Option<GroupProgress> {
        let index = usize::from(self.group_index(group)?);
        let present = self.window.groups[index].progress();
        let closing = self.closing.as_ref().filter(|closing| !closing.is_over());
        Some(closing.map_or(present, |closing| present.plus(closing.groups[index].progress())))
    }

    /// The present window's messages of the lanes that yield to exact traffic: those delivered of
    /// the needed ones, and the needed ones.
    pub fn needed_of_yielding(&self) -> (u32, u32) {
        let lanes = self.window.groups.iter().zip(0..=u8::MAX);
        let yielding = lanes.filter(|(_, lane)| self.lanes.yields(*lane));
        yielding.fold((0, 0), |(delivered, needed), (group, _)| {
            let of_group = group.needed();
            let delivered_of_group = group.delivered.saturating_sub(group.forgotten);
            (delivered + delivered_of_group.min(of_group), needed + of_group)
        })
    }

    /// Sets how much less the lanes yield than their windows say: a level of [`Urgency`].
    ///
    /// [`Urgency`]: atp_common::laws::urgency::Urgency
    pub fn set_urgency(&mut self, level: u8) {
        self.lanes.set_urgency(level);
    }

    /// The counters of the job so far.
    pub fn report(&self) -> Report {
        Report {
            groups: self.window.groups.iter().map(Group::report).collect(),
            payload_bytes: self.config.payload_bytes_max,
            ..self.report.clone()
        }
    }

    /// The configuration as it is now, groups by id.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }
}
