//! The daemon's datapath: its eBPF programs pace, stamp, mark, count and acknowledge packets. This
//! side reads and writes the shared memory, and sends probes.

use super::{
    backlog::Backlog,
    coverage::{Coverage, Lost, StrayAcks},
    job_progress::FlowProgress,
    maps::{ProgressPage, SharedAckRing, StatusPage},
    userspace::Handover,
};
use crate::{
    control::{Client, SenderGrant},
    udp::{UdpSocket, now_ns},
};
use atp_common::{
    laws::{
        advice::uneven_bytes,
        backlog::BACKLOG_NS,
        burst,
        rtt::Rtt,
        yielding::{Window, overdue_ns},
    },
    maps::{GroupProgress, LaneStatus, ReceivedAdvice},
    units::Rate,
    wire::{Flags, Header, PROBE_LEN},
};
use atp_proto::{
    GroupConfig, Pace, Sender,
    flow::{ByGroup, LaneHandover, Pacer, Probers, ReadLag},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// How often a thread whose lanes' windows are full reads the ring: twice in an RTT, within these
/// bounds. Each read costs a wakeup.
const ACK_POLL_NS: [u64; 2] = [50_000, 500_000];
/// How often a flow whose packets are not counted looks again.
const COUNT_POLL_NS: u64 = 500_000;

/// A flow served by the daemon, with a lane for each group of its job.
pub struct Kernel {
    client: Client,
    pacing: String,
    ring: SharedAckRing,
    progress: ProgressPage,
    status: StatusPage,
    lanes: ByGroup<KernelLane>,
    flow_progress: FlowProgress,
    backlog: Backlog,
    /// Bytes on the wire of a packet, beyond its UDP payload.
    overhead_bytes: u32,
    /// Bytes on the wire of a full packet.
    packet_bytes: u32,
    probers: Probers,
    coverage: Coverage,
    stray_acks: StrayAcks,
    read_lag: ReadLag,
    end: Option<End>,
}

/// Why a flow leaves the kernel datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The daemon closed the lanes or the connection: it stops, or its process was killed.
    DaemonGone,
    /// An operator ended the job at the daemon.
    JobEnded,
    /// Packets left the host without passing the programs.
    NotCovered(Lost),
}

struct KernelLane {
    /// The progress that the daemon knows.
    published: GroupProgress,
    /// The advice that the daemon knows.
    advice: ReceivedAdvice,
    rate: Rate,
    /// Keeps the packets of a slow lane from filling the socket that it shares with faster lanes.
    /// The kernel paces exactly; this pacer only limits the lane's backlog.
    pacer: Pacer,
    window: Window,
    /// The status as of the last tick.
    status: LaneStatus,
    backlog_ns: u64,
}

impl KernelLane {
    /// The bytes that a packet counts for. The programs' clock takes the same steps: with even
    /// steps here, packets would come too late for short gaps, and wait for long ones.
    fn paced_bytes(&self, bytes: u32, header: &Header) -> u32 {
        match self.status.has(LaneStatus::UNEVEN_GAPS) {
            true => uneven_bytes(bytes, header.pacing_number()),
            false => bytes,
        }
    }
}

impl Kernel {
    /// Maps the memory that the daemon granted. `packet_bytes` is a full packet on the wire,
    /// `payload_bytes` its UDP payload.
    pub fn new(
        client: Client,
        grant: &SenderGrant,
        [ring, progress, status]: [OwnedFd; 3],
        groups: &[GroupConfig],
        flow_progress: FlowProgress,
        [packet_bytes, payload_bytes]: [u32; 2],
    ) -> io::Result<Self> {
        let now_ns = now_ns();
        let lane = |group: &GroupConfig| {
            let lane = KernelLane {
                published: GroupProgress::default(),
                advice: ReceivedAdvice::default(),
                rate: Rate::default(),
                pacer: Pacer::new(now_ns, BACKLOG_NS),
                window: Window::new(packet_bytes),
                status: LaneStatus::default(),
                backlog_ns: 0,
            };
            (group.group, lane)
        };
        Ok(Self {
            client,
            pacing: grant.pacing.clone(),
            ring: SharedAckRing::map(&ring, grant.ack_ring_words)?,
            progress: ProgressPage::map(&progress)?,
            status: StatusPage::map(&status)?,
            lanes: ByGroup::new(groups.iter().map(lane)),
            flow_progress,
            backlog: Backlog::new(packet_bytes),
            overhead_bytes: packet_bytes - payload_bytes,
            packet_bytes,
            probers: Probers::new(grant.job, grant.cookie, groups.iter().map(|group| group.group)),
            coverage: Coverage::default(),
            stray_acks: StrayAcks::default(),
            read_lag: ReadLag::default(),
            end: None,
        })
    }

    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    /// Continues the progress of another datapath of this flow.
    pub fn with_progress(self, flow_progress: FlowProgress) -> Self {
        Self { flow_progress, ..self }
    }

    /// See [`Datapath::ack_poll_ns`](super::Datapath::ack_poll_ns).
    pub fn ack_poll_ns(&self) -> u64 {
        let lanes = self.lanes.iter().map(|(_, lane)| lane.status);
        let with_window = lanes.filter(|status| status.has(LaneStatus::WINDOW));
        let least_ns = with_window.map(|status| status.rtt_min_ns).min().unwrap_or(u64::MAX);
        (least_ns / 2).clamp(ACK_POLL_NS[0], ACK_POLL_NS[1])
    }

    /// Notes an ACK that no program consumed.
    pub fn on_stray_ack(&mut self, now_ns: u64) {
        if let Some(lost) = self.stray_acks.came(now_ns) {
            self.end.get_or_insert(End::NotCovered(lost));
        }
    }

    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        self.take_acks(now_ns, sender);
        let lost = self.coverage.check(now_ns, self.ring.seen(), || socket.queued_bytes() == 0);
        if let Some(lost) = lost {
            self.end = Some(End::NotCovered(lost));
        }
        let has_one_lane = self.has_one_lane();
        let mut total_bytes_per_s = 0;
        for (group, lane) in self.lanes.iter_mut() {
            let own = sender.progress(*group).unwrap_or_default();
            let total = self.flow_progress.update(*group, own);
            if total != lane.published {
                lane.published = total;
                self.progress.write(*group, total);
            }
            if let Some((advice, received_ns)) = sender.advice(*group) {
                let advice = ReceivedAdvice::new(advice, received_ns, sender.acks_lost());
                if advice != lane.advice {
                    lane.advice = advice;
                    self.progress.write_advice(*group, advice);
                }
            }
            let status = self.status.read(*group);
            if status.closed != 0 {
                // Keep the lane's status of the last tick: a closed page holds none.
                self.end = Some(match status.closed {
                    LaneStatus::CLOSED_BY_OPERATOR => End::JobEnded,
                    _ => End::DaemonGone,
                });
                return;
            }
            lane.rate = Rate::from_bytes_per_s(status.rate_bytes_per_s);
            total_bytes_per_s += lane.rate.bytes_per_s();
            lane.backlog_ns = match has_one_lane {
                true => self.backlog.wait_ns(socket, lane.rate),
                false => lane.pacer.ahead_ns(now_ns),
            };
            let (rtt, read_late_ns) = (rtt(&status), self.read_lag.mean_ns());
            let window_packets = match status.has(LaneStatus::WINDOW) {
                true => lane.window.packets(lane.rate, status.rtt_min_ns, read_late_ns),
                false => 0,
            };
            let (backlog_ns, overdue_ns) = (lane.backlog_ns, overdue_ns(rtt, read_late_ns));
            sender.set_pace(*group, Pace { rtt, backlog_ns, window_packets, overdue_ns });
            let no_ack = burst::uses_probes(lane.rate, self.packet_bytes);
            sender.set_no_ack(*group, no_ack && !status.has(LaneStatus::ACKS_EACH));
            lane.status = status;
        }
        self.backlog.follow(socket, Rate::from_bytes_per_s(total_bytes_per_s));
    }

    /// Checks which probes were answered, then reads the ring. In this order the ring holds the
    /// bits of every answer found.
    fn take_acks(&mut self, now_ns: u64, sender: &mut Sender) {
        let (ring, lanes) = (&self.ring, &self.lanes);
        let timeout_ns = |group| {
            let status = lanes.get(group).map(|lane| lane.status).unwrap_or_default();
            rtt(&status).timeout_ns(Rtt::TIMER_GRANULARITY_NS)
        };
        let is_answered = |number| ring.is_answered(number);
        let answered = self.probers.take_answered(now_ns, timeout_ns, is_answered);
        let in_flight = sender.in_flight();
        sender.scan_acks(now_ns, ring);
        self.read_lag.read(now_ns, sender.in_flight() < in_flight);
        for (group, probe) in answered {
            sender.probe_answered(now_ns, group, probe.slots, probe.left_ns);
        }
    }

    /// The next probe, if one is due, and its group.
    pub fn next_probe(&mut self, now_ns: u64, sender: &Sender) -> Option<(u8, [u8; PROBE_LEN])> {
        let backlog_ns = |group| self.lanes.get(group).map_or(0, |lane| lane.backlog_ns);
        self.probers.next_probe(now_ns, backlog_ns, |group| sender.oldest_in_flight(group))
    }

    /// The daemon's advice, bounded because another process writes the page.
    pub fn gso_packets(&self, group: u8) -> usize {
        let advised = self.lanes.get(group).map_or(1, |lane| lane.status.burst_packets);
        advised.clamp(1, burst::PACKETS_MAX) as usize
    }

    pub fn gso_packets_max(&self) -> usize {
        let longest = self.lanes.iter().map(|(_, lane)| lane.status.burst_packets).max();
        longest.unwrap_or(1).clamp(1, burst::PACKETS_MAX) as usize
    }

    /// Records whether a group's probe left.
    pub fn probe_sent(&mut self, now_ns: u64, sender: &mut Sender, group: u8, left: bool) {
        let Some(lane) = self.lanes.get(group) else { return };
        if left {
            sender.probe_sent(now_ns + lane.backlog_ns, group);
        } else {
            self.probers.take_back_probe(group);
        }
    }

    /// Whether the flow has one lane only. Its backlog is limited by the socket, without a pacer.
    fn has_one_lane(&self) -> bool {
        self.lanes.groups() == 1
    }

    /// Whether this side never holds packets back.
    pub fn is_unpaced(&self) -> bool {
        self.has_one_lane() && !self.coverage.is_waiting()
    }

    /// Notes that `packets` of data were given to the socket.
    pub fn data_sent(&mut self, now_ns: u64, packets: usize) {
        self.coverage.sent(now_ns, packets as u64, self.ring.seen());
    }

    /// Forgets packets that didn't leave this host, as it has reported.
    pub fn excuse_uncounted(&mut self, now_ns: u64) {
        self.coverage.excuse(now_ns);
    }

    /// Since when this host has let no packet out, although some wait to leave. `in_flight`:
    /// packets of which the transport doesn't know that they were dropped.
    pub fn withheld_since_ns(&self, in_flight: u32) -> Option<u64> {
        let waits = in_flight > 0 || self.coverage.is_waiting();
        self.coverage.withheld_since_ns().filter(|_| waits)
    }

    pub fn hold_until(&self, group: u8, now_ns: u64) -> Option<u64> {
        if self.coverage.is_waiting() {
            return Some(now_ns + COUNT_POLL_NS);
        }
        if self.has_one_lane() {
            return None;
        }
        self.lanes.get(group)?.pacer.hold_until(now_ns)
    }

    pub fn next_release(&self, now_ns: u64) -> Option<u64> {
        if self.coverage.is_waiting() {
            return Some(now_ns + COUNT_POLL_NS);
        }
        if self.has_one_lane() {
            return None;
        }
        self.lanes.iter().filter_map(|(_, lane)| lane.pacer.hold_until(now_ns)).min()
    }

    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        let (bytes, has_one_lane) = (payload_bytes + self.overhead_bytes, self.has_one_lane());
        let Some(lane) = self.lanes.get_mut(header.group()) else { return };
        lane.window.on_sent(bytes);
        if lane.rate != Rate::default() && !has_one_lane {
            lane.pacer.depart(now_ns, lane.paced_bytes(bytes, header), lane.rate);
        }
        if header.flags().contains(Flags::NO_ACK) {
            // The datapath doesn't stamp these packets.
            header.set_no_ack(lane.status.epoch);
            self.probers.sent(header.group(), header.slot());
        }
    }

    pub fn take_back(&mut self, header: &Header, payload_bytes: u32) {
        let (bytes, has_one_lane) = (payload_bytes + self.overhead_bytes, self.has_one_lane());
        let Some(lane) = self.lanes.get_mut(header.group()) else { return };
        if lane.rate != Rate::default() && !has_one_lane {
            lane.pacer.take_back(lane.paced_bytes(bytes, header), lane.rate);
        }
        if header.flags().contains(Flags::NO_ACK) {
            self.probers.take_back(header.group(), header.slot());
        }
    }

    /// The current status of a group's lane, or the last one before it was closed.
    pub fn status(&self, group: u8) -> LaneStatus {
        let status = self.status.read(group);
        match self.lanes.get(group) {
            Some(lane) if status.closed != 0 => lane.status,
            _ => status,
        }
    }

    /// Why the flow must leave this datapath; `None` as long as it may stay. The daemon may have
    /// closed the connection before the next tick.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    pub fn control(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }

    /// The state with which a userspace datapath continues after the daemon is gone: the lanes'
    /// last rates and RTTs, and the ring, to which programs that were left behind may still write.
    ///
    /// The connection to the daemon ends, and with it the lanes. Without coverage the daemon learns
    /// why.
    pub fn into_handover(self) -> Handover {
        let lane = |(group, _): &(u8, KernelLane)| {
            let status = self.status(*group);
            let rate = Rate::from_bytes_per_s(status.rate_bytes_per_s);
            let (epoch, law) = (status.epoch, status.law());
            (*group, LaneHandover { rate, rtt: rtt(&status), epoch, law })
        };
        let lanes = ByGroup::new(self.lanes.iter().map(lane));
        if let Some(End::NotCovered(lost)) = self.end {
            self.client.leave_uncovered(lost.packets, lost.after_ns / 1_000);
        }
        Handover { lanes, flow_progress: self.flow_progress, ring: self.ring }
    }
}

fn rtt(status: &LaneStatus) -> Rtt {
    Rtt {
        smoothed_ns: status.rtt_smoothed_ns,
        variation_ns: status.rtt_variation_ns,
        min_ns: status.rtt_min_ns,
    }
}
