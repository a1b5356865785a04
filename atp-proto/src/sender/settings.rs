//! Changes a running sender: the sampling rate, the payload of packets, the pace of a lane.

use super::{Sender, config::Pace, report::MsrError};
use atp_common::{laws::rtt::Rtt, units::Msr, wire::COUNT_MAX};

impl Sender {
    /// Changes the minimal sampling rate of a group that is not exact. At 1 all of its messages are
    /// needed, but they still travel out of order, as approximate traffic.
    ///
    /// The rate holds for the current window and those after it. A window whose end is being
    /// confirmed beside the current one keeps its own, and so does one whose end is forced: its
    /// receiver has decided by that, or will.
    pub fn set_msr(&mut self, group: u8, msr: Msr) -> Result<(), MsrError> {
        let index = self.changeable_group(group)?;
        let complete_at = self.config.complete_at;
        let window = &mut self.windows.current;
        let is_decided = window.sends_only_fin();
        let is_ending = window.ending.is_fin_sent() || is_decided;
        let group = &mut window.groups[usize::from(index)];
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
        let index = self.indices.index(group).ok_or(MsrError::UnknownGroup(group))?;
        let is_exact = self.windows.current.groups[usize::from(index)].exact;
        if is_exact { Err(MsrError::Exact(group)) } else { Ok(index) }
    }

    /// Segments messages into packets of at most `payload_bytes` from now on: the path has become
    /// narrower. Messages with longer packets begin anew, also those that were sent in part.
    pub fn set_payload_bytes(&mut self, payload_bytes: u32) {
        let Self { config, windows, announcement, .. } = self;
        let payload_bytes_min = config.message_bytes_max.div_ceil(COUNT_MAX).max(1);
        config.payload_bytes_max = payload_bytes.max(payload_bytes_min);
        windows.each_mut().for_each(|window| window.segment_anew(config, announcement));
    }

    /// Sets the RTT that an earlier job to the same host had. Timeouts use it until a lane's own
    /// RTT is known.
    pub fn set_earlier_rtt(&mut self, rtt: Rtt) {
        if rtt.smoothed_ns > 0 {
            self.transmissions.lanes.set_earlier_rtt(self.config.cookie, rtt);
        }
    }

    /// Changes the most packets in flight until something is received, of a sender that has such a
    /// limit.
    pub fn set_initial_window_packets(&mut self, packets: u32) {
        if self.config.initial_window_packets > 0 {
            self.config.initial_window_packets = packets.max(1);
        }
    }

    /// Sets the most packets in flight from the first answer until the first advice, of a sender
    /// with a first window. It is never below that window.
    pub fn set_awaiting_packets(&mut self, packets: u32) {
        self.first_window.set_awaiting_packets(packets);
    }

    /// Sets the RTT and the backlog of a group's lane. Call it whenever they change. Does nothing
    /// for an unknown group.
    pub fn set_pace(&mut self, group: u8, pace: Pace) {
        if let Some(lane) = self.indices.index(group) {
            self.transmissions.lanes.set_pace(lane, pace);
        }
    }

    /// Sets how much less the lanes yield than their windows say: a level of [`Urgency`].
    ///
    /// [`Urgency`]: atp_common::laws::urgency::Urgency
    pub fn set_urgency(&mut self, level: u8) {
        self.transmissions.lanes.set_urgency(level);
    }
}
