//! Describes the sender's current state to its caller.

use super::{
    Sender, State,
    config::SenderConfig,
    report::{LostIds, Report},
};
use atp_common::{maps::GroupProgress, units::Share, wire::Advice};

impl Sender {
    /// The state of the job or its window.
    pub fn state(&self) -> &State {
        &self.windows.current.state
    }

    /// Whether the job, or its current window, has ended.
    pub fn has_ended(&self) -> bool {
        self.windows.current.is_over()
    }

    /// The current window, counted from 0.
    pub fn window(&self) -> u32 {
        self.windows.current.number
    }

    /// Whether the current window is the job's last.
    pub fn is_last_window(&self) -> bool {
        self.windows.current.ending.is_last()
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
        self.peer.silence.answers()
    }

    /// The number of transmissions in flight.
    pub fn in_flight(&self) -> u32 {
        self.transmissions.sent.in_flight()
    }

    /// The slot of a group's oldest transmission in flight.
    pub fn oldest_in_flight(&self, group: u8) -> Option<u32> {
        self.transmissions.sent.find_in_flight(self.indices.index(group)?).map(|(slot, _)| slot)
    }

    /// Messages of which some packet was never handed out.
    pub fn untried_messages(&self) -> u32 {
        self.windows.iter().flat_map(|window| &window.groups).map(|group| group.untried).sum()
    }

    /// The inputs of Eq. 1 for the progress map, which a rate controller reads. `None` for an
    /// unknown group. The sum over the windows that have not ended.
    pub fn progress(&self, group: u8) -> Option<GroupProgress> {
        let index = usize::from(self.indices.index(group)?);
        let current = self.windows.current.groups[index].progress();
        let closing = self.windows.closing();
        Some(closing.map_or(current, |closing| current.plus(closing.groups[index].progress())))
    }

    /// The current window's messages of the lanes that yield to exact traffic: those delivered of
    /// the needed ones, and the needed ones.
    pub fn needed_of_yielding(&self) -> (u32, u32) {
        let lanes = self.windows.current.groups.iter().zip(0..=u8::MAX);
        let yielding = lanes.filter(|(_, lane)| self.transmissions.lanes.yields(*lane));
        yielding.fold((0, 0), |(delivered, needed), (group, _)| {
            let of_group = group.needed();
            let delivered_of_group = group.delivered.saturating_sub(group.forgotten);
            (delivered + delivered_of_group.min(of_group), needed + of_group)
        })
    }

    /// The counters of the job so far.
    pub fn report(&self) -> Report {
        Report {
            groups: self.windows.current.reports(),
            payload_bytes: self.config.payload_bytes_max,
            ..self.report.clone()
        }
    }

    /// The configuration as it is now, groups by id.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// Whether a lane's window is full and the lane has more to send: its ACKs are awaited.
    pub fn waits_for_acks(&self) -> bool {
        let is_full = |lane| !self.transmissions.has_lane_room(lane);
        self.windows.iter().any(|window| window.next_message(is_full).is_some())
    }

    /// Whether all windows are full: no new message could be sent now.
    pub fn is_full(&self) -> bool {
        self.transmissions.lane_indices().all(|lane| !self.transmissions.has_lane_room(lane))
    }

    /// The receiver's current advice to a group's lane, and when the newest receipt came. The
    /// caller's lane decides how long it counts. `None` before any receipt, and for an unknown
    /// group.
    pub fn advice(&self, group: u8) -> Option<(Advice, u64)> {
        self.peer.advice.of_lane(self.indices.index(group)?)
    }

    /// The share of ACKs that the network loses, for the laws of the flow's lanes. Zero until
    /// receipts show otherwise.
    pub fn acks_lost(&self) -> Share {
        self.peer.ack_loss.share()
    }

    /// The ids of the messages that were not delivered in the current window, for each group in the
    /// order of [`Sender::report`].
    pub fn lost_ids(&self) -> Vec<LostIds> {
        self.windows.current.lost_ids(self.config.names_lost)
    }
}
