//! Statistics of the host.

use super::{super::lanes::ActiveLane, Host, progress_of};
use approxlib::control::{GroupStats, HostStats, LaneStats};
use atp_common::units::Share;

/// The most lanes in one reply, with at most half a kilobyte each.
const LANES_MAX: usize = 256;

impl Host {
    /// Statistics without jobs and lanes. Clients request those separately: together they can be
    /// too long for a reply.
    pub(super) fn stats(&self) -> HostStats {
        HostStats {
            interfaces: self.datapath.interfaces(),
            pacing: self.datapath.pacing_name().into(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            counters: self.datapath.counters().unwrap_or_default(),
            coverage: self.coverage_stats(),
            jobs: Vec::new(),
            lanes: Vec::new(),
        }
    }

    /// Lanes with index `from` and above, as many as one reply holds, and the index of the next
    /// one.
    pub(super) fn lane_list(&self, from: u16) -> (Vec<LaneStats>, Option<u16>) {
        let mut rest = self.lanes.from(from);
        let lanes = rest
            .by_ref()
            .take(LANES_MAX)
            .map(|(index, lane)| self.lane_stats(index, lane))
            .collect();
        (lanes, rest.next().map(|(index, _)| index))
    }

    pub(super) fn lane_stats(&self, index: u16, lane: &ActiveLane) -> LaneStats {
        let memory = self.datapath.lanes();
        let status = lane.state(index, memory);
        let progress = progress_of(&self.flows, lane.flow, lane.group);
        LaneStats {
            lane: index,
            job: self.jobs.get(lane.job).map_or(0, |job| job.id),
            group: GroupStats {
                group: lane.group,
                msr: f64::from(progress.msr().parts_per_billion()) / 1e9,
                messages: progress.messages,
                delivered: progress.delivered,
                lost: progress.lost,
            },
            rate_bytes_per_s: status.rate_bytes_per_s,
            queue: status.queue as u8,
            epoch: lane.epoch(),
            epochs_evaluated: status.epochs_evaluated,
            loss: share(status.loss_q16),
            tlr: share(status.tlr_q16),
            rtt_us: status.rtt_smoothed_ns as f64 / 1e3,
            too_far_packets: memory.too_far_packets(index),
        }
    }
}

fn share(q16: u32) -> f64 {
    f64::from(Share::from_q16(q16).q16()) / f64::from(Share::ONE.q16())
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::control::{PACKET_BYTES_MAX, Reply};

    #[test]
    fn lane_list__fits_one_reply_at_maximum_length() {
        let long = 0.123_456_789_012_345_67 / 3.0 * 1e-20;
        let group = GroupStats {
            group: u8::MAX,
            msr: long,
            messages: u32::MAX,
            delivered: u32::MAX,
            lost: u32::MAX,
        };
        let lane = LaneStats {
            lane: u16::MAX,
            job: u32::MAX,
            group,
            rate_bytes_per_s: u64::MAX,
            queue: u8::MAX,
            epoch: u16::MAX,
            epochs_evaluated: u32::MAX,
            loss: long,
            tlr: long,
            rtt_us: long,
            too_far_packets: u64::MAX,
        };
        let reply = Reply::Lanes { lanes: vec![lane; LANES_MAX], next: Some(u16::MAX) };
        let bytes = serde_json::to_vec(&reply).unwrap().len();
        assert!(bytes < PACKET_BYTES_MAX, "{bytes}");
    }
}
