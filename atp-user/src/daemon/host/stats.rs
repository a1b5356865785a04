//! What the host looks like to people and dashboards.

use super::{super::lanes::ActiveLane, Host, progress_of};
use approxlib::control::{GroupStats, HostStats, LaneStats};
use atp_common::units::Share;

impl Host {
    pub(super) fn stats(&self) -> HostStats {
        HostStats {
            interfaces: self.datapath.interfaces(),
            pacing: self.datapath.pacing_name().into(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            counters: self.datapath.counters().unwrap_or_default(),
            jobs: self.jobs.infos(),
            lanes: self.lanes.iter().map(|(index, lane)| self.lane_stats(index, lane)).collect(),
        }
    }

    pub(super) fn lane_stats(&self, index: u16, lane: &ActiveLane) -> LaneStats {
        let memory = self.datapath.lanes();
        let status = lane.status(index, memory);
        let progress = progress_of(&self.flows, &self.sessions, lane.flow, lane.group);
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
            epochs_judged: status.epochs_judged,
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
