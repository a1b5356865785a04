//! How the job is doing, and how it ended.

use super::{
    mailbox::{Outcome, Progress},
    worker::Worker,
};
use crate::{
    error::{ShortCause, Shortfall},
    report::{GroupReport, Report, Sample},
    udp::now_ns,
};
use atp_common::{maps::LaneStatus, wire::HEADER_LEN};
use atp_proto::State;

impl Worker {
    pub(super) fn observe(&mut self, now_ns: u64) {
        let lane = self.datapath.lane();
        let sampled = self.timeline.observe(now_ns, |at_s| Sample {
            at_s,
            tlr: f64::from(lane.tlr_q16) / 65_536.0,
            rate_bytes_per_s: lane.rate_bytes_per_s,
            loss: f64::from(lane.loss_q16) / 65_536.0,
            queue: lane.queue as u8,
            rtt_us: lane.rtt_smoothed_ns as f64 / 1e3,
        });
        if sampled {
            self.publish(&lane);
        }
    }

    pub(super) fn publish(&self, lane: &LaneStatus) {
        let report = self.sender.report();
        self.mailbox.set_progress(Progress {
            messages: 0, // The mailbox counts them.
            delivered: report.groups.iter().map(|group| group.delivered).sum(),
            rate_bytes_per_s: lane.rate_bytes_per_s,
            packets_sent: report.packets_sent,
        });
    }

    pub(super) fn ended(&mut self, now_ns: u64) -> Option<Outcome> {
        if let Some(mtu_bytes) = self.trouble.mtu_bytes
            && (mtu_bytes as usize) < self.packet_bytes()
        {
            return Some(Err(self.shortfall(ShortCause::PathNarrowed { mtu_bytes })));
        }
        if let Some((since_ns, code)) = self.refused_here
            && now_ns.saturating_sub(since_ns) >= self.sender.config().peer_timeout_ns
        {
            return Some(Err(self.shortfall(ShortCause::CannotSend { code })));
        }
        match self.sender.state() {
            State::Done => Some(Ok(self.report())),
            State::Failed(error) => {
                let error = error.clone();
                self.note_errors();
                let report = self.report();
                Some(Err(Shortfall::new(self.peer, &error, self.trouble, report).into()))
            }
            State::Finishing => {
                if !std::mem::replace(&mut self.finishing, true) {
                    self.mailbox.set_complete();
                }
                None
            }
            State::Open => None,
        }
    }

    /// The longest packet that this job sends, with IP header.
    fn packet_bytes(&self) -> usize {
        let payload = self.sender.config().payload_bytes_max as usize;
        payload + HEADER_LEN + self.socket.overhead_bytes()
    }

    pub(super) fn shortfall(&self, cause: ShortCause) -> Box<Shortfall> {
        Box::new(Shortfall::own(self.peer, cause, self.report()))
    }

    fn report(&self) -> Report {
        let report = self.sender.report();
        let config = self.sender.config();
        let msr_of = |id| config.groups.iter().find(|g| g.group == id).map(|g| g.msr);
        let groups = report.groups.iter().map(|group| GroupReport {
            group: group.group,
            messages: group.messages,
            delivered: group.delivered,
            needed: group.needed,
            lost: group.messages.saturating_sub(group.delivered),
            msr: msr_of(group.group).map_or(1.0, |msr| f64::from(msr.parts_per_billion()) / 1e9),
        });
        let now_ns = now_ns();
        Report {
            job: config.job,
            datapath: self.datapath.name().to_owned(),
            pacing: self.datapath.pacing().to_owned(),
            elapsed_s: now_ns.saturating_sub(self.started_ns.unwrap_or(now_ns)) as f64 / 1e9,
            packets_sent: report.packets_sent,
            packets_retransmitted: report.packets_retransmitted,
            packets_arrived: u64::from(report.packets_arrived),
            bytes_sent: report.bytes_sent,
            groups: groups.collect(),
            timeline: self.timeline.samples().to_vec(),
        }
    }
}
