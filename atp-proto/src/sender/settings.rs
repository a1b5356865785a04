//! Changes a running sender: the sampling rate, the payload of packets, the pace of a lane.

use super::{Sender, config::Pace, ledger::MessageState, report::MsrError};
use atp_common::{laws::rtt::Rtt, units::Msr, wire::COUNT_MAX};

impl Sender {
    /// Changes the minimal sampling rate of a group that is not exact. At 1 all of its messages are
    /// needed, but they still travel out of order, as approximate traffic.
    ///
    /// The rate holds for the present window and those after it. A window whose end is being
    /// confirmed beside the present one keeps its own, and so does one whose end is forced: its
    /// receiver has decided by that, or will.
    pub fn set_msr(&mut self, group: u8, msr: Msr) -> Result<(), MsrError> {
        let index = self.changeable_group(group)?;
        let complete_at = self.config.complete_at;
        let is_ending = self.window.ending.is_fin_sent() || self.sends_only_fin();
        let is_decided = self.sends_only_fin();
        let group = &mut self.window.groups[usize::from(index)];
        if is_ending && msr > group.config.msr {
            return Err(MsrError::Ending);
        }
        self.config.groups[usize::from(index)].msr = msr;
        if !is_decided && group.config.msr != msr {
            group.set_msr(msr, complete_at);
            self.announcement.change();
        }
        Ok(())
    }

    /// Why the rate of a group can't change, also not in windows to come.
    pub fn can_change_msr(&self, group: u8) -> Result<(), MsrError> {
        self.changeable_group(group).map(drop)
    }

    fn changeable_group(&self, group: u8) -> Result<u8, MsrError> {
        let index = self.group_index(group).ok_or(MsrError::UnknownGroup(group))?;
        let is_exact = self.window.groups[usize::from(index)].exact;
        if is_exact { Err(MsrError::Exact(group)) } else { Ok(index) }
    }

    /// Segments messages into packets of at most `payload_bytes` from now on: the path has become
    /// narrower. Messages with longer packets begin anew, also those that were sent in part.
    pub fn set_payload_bytes(&mut self, now_ns: u64, payload_bytes: u32) {
        let payload_bytes =
            payload_bytes.max(self.config.message_bytes_max.div_ceil(COUNT_MAX)).max(1);
        self.config.payload_bytes_max = payload_bytes;
        self.in_each_window(|sender| sender.segment_anew(now_ns, payload_bytes));
    }

    fn segment_anew(&mut self, now_ns: u64, payload_bytes: u32) {
        for key in self.window.ledger.keys() {
            let message = self.window.ledger.message_mut(key);
            let fits = message.len_bytes.min(message.payload_bytes) <= payload_bytes;
            // A message that the peer's host has in full is segmented anew only if it is
            // retransmitted.
            if fits || message.state == MessageState::AwaitingReceipt {
                continue;
            }
            let (before, group) = (message.priority(), message.group);
            message.begin_attempt(payload_bytes);
            let (packets, len_bytes) = (message.packets.count, message.len_bytes);
            self.update_message(now_ns, key, before);
            if self.window.groups[usize::from(group)].note_weight(packets, len_bytes) {
                self.announcement.change_order();
            }
        }
    }

    /// Sets the RTT that an earlier job to the same host had. Timeouts use it until a lane's own
    /// RTT is known.
    pub fn set_earlier_rtt(&mut self, rtt: Rtt) {
        if rtt.smoothed_ns > 0 {
            self.lanes.set_earlier_rtt(self.config.cookie, rtt);
        }
    }

    /// Changes the most packets in flight until something is heard, of a sender that has such a
    /// limit.
    pub fn set_initial_window_packets(&mut self, packets: u32) {
        if self.config.initial_window_packets > 0 {
            self.config.initial_window_packets = packets.max(1);
        }
    }

    /// Sets the most packets in flight from the first answer until the first advice, of a sender
    /// with a first window. It is never below that window.
    pub fn set_awaiting_packets(&mut self, packets: u32) {
        self.first_window.awaiting_packets = packets;
    }

    /// Sets the RTT and the backlog of a group's lane. Call it whenever they change. Does nothing
    /// for an unknown group.
    pub fn set_pace(&mut self, group: u8, pace: Pace) {
        if let Some(lane) = self.group_index(group) {
            self.lanes.set_pace(lane, pace);
        }
    }
}
