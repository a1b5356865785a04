//! Publishes the job's progress, detects its end, and writes its report.

use super::{PROGRESS_NS, SenderThread};
use crate::{
    error::{ShortCause, Shortfall},
    job::{Progress, shared::Outcome},
    report::{GroupReport, Report, Sample, WindowReport},
    udp::{PATH_MTU_BYTES_MIN, now_ns},
};
use atp_common::maps::LaneStatus;
use atp_proto::{LostIds, SendError, flow::Event};

impl SenderThread {
    pub(super) fn observe(&mut self, now_ns: u64) {
        let (groups, datapath) = (&self.job.sender.config().groups, &self.datapath);
        self.timeline.observe(now_ns, |at_s| {
            groups.iter().map(move |group| sample(at_s, group.group, &datapath.lane(group.group)))
        });
        if now_ns >= self.progress_due_ns {
            self.publish(now_ns);
        }
    }

    pub(super) fn publish(&mut self, now_ns: u64) {
        self.progress_due_ns = now_ns + PROGRESS_NS;
        let report = self.job.sender.report();
        let rate =
            |group: &atp_proto::GroupReport| self.datapath.lane(group.group).rate_bytes_per_s;
        self.shared.set_progress(Progress {
            messages: 0,     // `Shared` counts them.
            complete: false, // The same.
            delivered: report.groups.iter().map(|group| group.delivered).sum(),
            rate_bytes_per_s: report.groups.iter().map(rate).sum(),
            packets_sent: report.packets_sent,
        });
    }

    /// The job's outcome, if it has ended.
    pub(super) fn ended(&mut self, now_ns: u64) -> Option<Outcome> {
        // A window that has ended has its report, also if the job fails in this round.
        self.job.report_ends();
        self.tell_events();
        if let Some(mtu_bytes) = self.socket_errors.mtu_bytes
            && (mtu_bytes as usize) < PATH_MTU_BYTES_MIN
        {
            return Some(Err(self.shortfall(ShortCause::PathNarrowed { mtu_bytes })));
        }
        if let Some((since_ns, errno)) = self.refused_by_host
            && now_ns.saturating_sub(since_ns) >= self.job.sender.config().peer_timeout_ns
        {
            return Some(Err(self.shortfall(ShortCause::CannotSend { errno })));
        }
        if let Some(silence_ns) = self.withheld_ns(now_ns)
            && silence_ns >= self.job.sender.config().peer_timeout_ns
        {
            self.note_errors(now_ns);
            return Some(Err(self.shortfall(ShortCause::PeerSilent {
                silence_s: silence_ns as f64 / 1e9,
                port_unreachable: self.socket_errors.port_unreachable,
                host_unreachable: true,
            })));
        }
        match self.job.outcome()?.map_err(SendError::clone) {
            Ok(()) => Some(Ok(self.report())),
            Err(error) => {
                self.note_errors(now_ns);
                let report = self.report();
                Some(Err(Shortfall::new(self.peer, &error, self.socket_errors, report).into()))
            }
        }
    }

    /// Tells the application what happened to its windows.
    pub(super) fn tell_events(&mut self) {
        while let Some(event) = self.job.next_event() {
            match event {
                Event::Complete(window) => self.shared.set_complete(window),
                Event::WindowEnded(ended) => self.shared.set_window_outcome(WindowReport {
                    window: ended.window,
                    complete: ended.is_done,
                    groups: group_reports(&ended.groups, ended.lost_ids),
                }),
                Event::MsrAnswer(answer) => self.shared.set_msr_answer(answer),
                Event::Hurried(window) => tracing::info!(
                    window,
                    peer = %self.peer,
                    "the window would miss its deadline: it yields less to exact traffic"
                ),
            }
        }
    }

    /// For how long this host has let no packet out. The transport's timeouts don't tell: few
    /// packets are in flight meanwhile, or none.
    fn withheld_ns(&self, now_ns: u64) -> Option<u64> {
        if self.job.sender.has_ended() && self.job.sender.is_last_window() {
            return None;
        }
        let since_ns = self.datapath.withheld_since_ns(self.job.sender.in_flight())?;
        Some(now_ns.saturating_sub(since_ns))
    }

    pub(super) fn shortfall(&self, cause: ShortCause) -> Box<Shortfall> {
        Box::new(Shortfall::local(self.peer, cause, self.report()))
    }

    pub(super) fn report(&self) -> Report {
        let (report, config) = (self.job.sender.report(), self.job.sender.config());
        let now_ns = now_ns();
        Report {
            job: config.job,
            datapath: self.datapath.name().to_owned(),
            pacing: self.datapath.pacing().to_owned(),
            elapsed_s: now_ns.saturating_sub(self.started_ns.unwrap_or(now_ns)) as f64 / 1e9,
            packets_sent: report.packets_sent,
            packets_retransmitted: report.packets_retransmitted,
            messages_packed: report.messages_packed,
            packets_arrived: report.packets_arrived,
            refusals: report.refusals,
            bytes_sent: report.bytes_sent,
            groups: group_reports(&report.groups, self.job.sender.lost_ids()),
            windows: self.job.windows_ended(),
            windows_hurried: self.job.windows_hurried(),
            requests: report.requests,
            ended_by_receiver: report.ended_by_receiver,
            canceled: self.job.was_cut(),
            timeline: self.timeline.samples().to_vec(),
        }
    }
}

/// The outcomes of groups. `lost_ids`: what the transport says of each.
fn group_reports(groups: &[atp_proto::GroupReport], lost_ids: Vec<LostIds>) -> Vec<GroupReport> {
    let report = |(group, lost_ids): (&atp_proto::GroupReport, _)| GroupReport {
        group: group.group,
        messages: group.messages,
        delivered: group.delivered,
        needed: group.needed,
        lost: group.messages.saturating_sub(group.delivered),
        msr: f64::from(group.msr.parts_per_billion()) / 1e9,
        lost_ids,
    };
    groups.iter().zip(lost_ids).map(report).collect()
}

fn sample(at_s: f64, group: u8, lane: &LaneStatus) -> Sample {
    Sample {
        at_s,
        group,
        tlr: f64::from(lane.tlr_q16) / 65_536.0,
        rate_bytes_per_s: lane.rate_bytes_per_s,
        loss: f64::from(lane.loss_q16) / 65_536.0,
        queue: lane.queue as u8,
        rtt_us: (lane.rtt_smoothed_ns > 0).then_some(lane.rtt_smoothed_ns as f64 / 1e3),
    }
}
