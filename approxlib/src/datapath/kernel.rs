//! The daemon's datapath: eBPF paces, stamps, marks, counts and acknowledges; this side reads and
//! writes memory shared with it.

use super::{
    backlog::{BACKLOG_NS, Backlog},
    by_group::ByGroup,
    maps::{ProgressPage, SharedAckRing, StatusPage},
    pacer::Pacer,
    prober::Prober,
    together::Member,
};
use crate::{
    control::{Client, SenderGrant},
    udp::{UdpSocket, now_ns},
};
use atp_common::{
    laws::{burst, rtt::Rtt},
    maps::{GroupProgress, LaneStatus},
    units::Rate,
    wire::{Flags, Header, PROBE_LEN},
};
use atp_proto::{GroupConfig, Pace, Sender};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// One flow, served by the daemon: a lane for each group of its job.
pub struct Kernel {
    client: Client,
    pacing: String,
    ring: SharedAckRing,
    progress: ProgressPage,
    status: StatusPage,
    lanes: ByGroup<KernelLane>,
    member: Member,
    backlog: Backlog,
    /// Bytes on the wire of a packet, beyond its payload.
    overhead_bytes: u32,
    /// Of a full one.
    packet_bytes: u32,
    /// Which lane is asked about next, by place.
    asks_next: usize,
    /// By the daemon.
    closed: bool,
}

struct KernelLane {
    told: GroupProgress,
    rate: Rate,
    /// Keeps the packets of a slow lane from filling the socket that it shares with faster ones.
    /// The kernel's own pacing is exact; this one only says how much may wait there.
    pacer: Pacer,
    prober: Prober,
    /// As of the last tick.
    status: LaneStatus,
    backlog_ns: u64,
}

impl Kernel {
    /// Maps what the daemon granted. `packet_bytes`: a full packet on the wire.
    pub fn new(
        client: Client,
        grant: &SenderGrant,
        [ring, progress, status]: [OwnedFd; 3],
        groups: &[GroupConfig],
        member: Member,
        [packet_bytes, payload_bytes]: [u32; 2],
    ) -> io::Result<Self> {
        let now_ns = now_ns();
        let lane = |group: &GroupConfig| {
            let lane = KernelLane {
                told: GroupProgress::default(),
                rate: Rate::default(),
                pacer: Pacer::new(now_ns, BACKLOG_NS),
                prober: Prober::new(grant.job, grant.cookie, group.group),
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
            member,
            backlog: Backlog::new(packet_bytes),
            overhead_bytes: packet_bytes - payload_bytes,
            packet_bytes,
            asks_next: 0,
            closed: false,
        })
    }

    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        self.take_acks(now_ns, sender);
        let is_alone = self.is_alone();
        let mut together_bytes_per_s = 0;
        for (group, lane) in self.lanes.iter_mut() {
            let own = sender.progress(*group).unwrap_or_default();
            let told = self.member.update(*group, own);
            if told != lane.told {
                lane.told = told;
                self.progress.write(*group, told);
            }
            let status = self.status.read(*group);
            if status.closed != 0 {
                // Of what it was, the last tick knows more.
                self.closed = true;
                return;
            }
            lane.rate = Rate::from_bytes_per_s(status.rate_bytes_per_s);
            together_bytes_per_s += lane.rate.bytes_per_s();
            lane.backlog_ns = match is_alone {
                true => self.backlog.wait_ns(socket, lane.rate),
                false => lane.pacer.ahead_ns(now_ns),
            };
            sender.set_pace(*group, Pace { rtt: rtt(&status), backlog_ns: lane.backlog_ns });
            let is_probed = burst::uses_probes(lane.rate, self.packet_bytes);
            sender.set_probed(*group, is_probed && status.acks_each == 0);
            lane.status = status;
        }
        self.backlog.follow(socket, Rate::from_bytes_per_s(together_bytes_per_s));
    }

    /// First which questions are answered, then the ring: the answers' bits are there by then.
    fn take_acks(&mut self, now_ns: u64, sender: &mut Sender) {
        let ring = &self.ring;
        let mut answered = Vec::new();
        for (group, lane) in self.lanes.iter_mut() {
            let timeout_ns = rtt(&lane.status).timeout_ns(Rtt::TIMER_GRANULARITY_NS);
            let is_answered = |number| ring.is_answered(number);
            let questions = lane.prober.take_answered(now_ns, timeout_ns, is_answered);
            answered.extend(questions.into_iter().map(|question| (*group, question)));
        }
        sender.scan_acks(now_ns, ring);
        for (group, question) in answered {
            sender.probe_answered(now_ns, group, question.slots, question.left_ns);
        }
    }

    /// The next question, if one is due: of one lane after the other.
    pub fn ask(&mut self, now_ns: u64, sender: &Sender) -> Option<(u8, [u8; PROBE_LEN])> {
        let lanes = self.lanes.len();
        for _ in 0..lanes {
            self.asks_next = (self.asks_next + 1) % lanes;
            let Some((group, lane)) = self.lanes.iter_mut().nth(self.asks_next) else { continue };
            let oldest = sender.oldest_in_flight(*group);
            if let Some(packet) = lane.prober.ask(now_ns, lane.backlog_ns, oldest) {
                return Some((*group, packet));
            }
        }
        None
    }

    /// What the daemon advises: bounded, for its page is another process's.
    pub fn burst_packets(&self, group: u8) -> usize {
        let advised = self.lanes.get(group).map_or(1, |lane| lane.status.burst_packets);
        advised.clamp(1, burst::PACKETS_MAX) as usize
    }

    pub fn longest_burst_packets(&self) -> usize {
        let longest = self.lanes.iter().map(|(_, lane)| lane.status.burst_packets).max();
        longest.unwrap_or(1).clamp(1, burst::PACKETS_MAX) as usize
    }

    /// Whether a question left.
    pub fn asked(&mut self, now_ns: u64, sender: &mut Sender, group: u8, left: bool) {
        let Some(lane) = self.lanes.get_mut(group) else { return };
        if left {
            sender.probe_sent(now_ns + lane.backlog_ns, group);
        } else {
            lane.prober.not_asked();
        }
    }

    /// One lane alone is held back by its socket.
    pub fn is_alone(&self) -> bool {
        self.lanes.len() == 1
    }

    pub fn hold_until(&self, group: u8, now_ns: u64) -> Option<u64> {
        if self.is_alone() {
            return None;
        }
        self.lanes.get(group)?.pacer.hold_until(now_ns)
    }

    pub fn first_release(&self, now_ns: u64) -> Option<u64> {
        if self.is_alone() {
            return None;
        }
        self.lanes.iter().filter_map(|(_, lane)| lane.pacer.hold_until(now_ns)).min()
    }

    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        let (bytes, is_alone) = (payload_bytes + self.overhead_bytes, self.is_alone());
        let Some(lane) = self.lanes.get_mut(header.group()) else { return };
        if lane.rate != Rate::default() && !is_alone {
            lane.pacer.depart(now_ns, bytes, lane.rate);
        }
        if header.flags().contains(Flags::NO_ACK) {
            // Which the datapath doesn't stamp.
            header.set_no_ack(lane.status.epoch as u16);
            lane.prober.sent(header.slot());
        }
    }

    pub fn unsent(&mut self, header: &Header, payload_bytes: u32) {
        let (bytes, is_alone) = (payload_bytes + self.overhead_bytes, self.is_alone());
        let Some(lane) = self.lanes.get_mut(header.group()) else { return };
        if lane.rate != Rate::default() && !is_alone {
            lane.pacer.unsent(bytes, lane.rate);
        }
        if header.flags().contains(Flags::NO_ACK) {
            lane.prober.unsent(header.slot());
        }
    }

    /// The lane of a group as it is now; of one that is closed, as it was last.
    pub fn status(&self, group: u8) -> LaneStatus {
        let status = self.status.read(group);
        match self.lanes.get(group) {
            Some(lane) if status.closed != 0 => lane.status,
            _ => status,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn control(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }

    /// What is left when the daemon is gone: the lanes' last rates and RTTs, and a ring that programs
    /// which it left behind go on writing to.
    pub fn into_remains(self) -> Remains {
        let lane = |(group, _): &(u8, KernelLane)| {
            let status = self.status(*group);
            (*group, (Rate::from_bytes_per_s(status.rate_bytes_per_s), rtt(&status)))
        };
        let lanes = ByGroup::new(self.lanes.iter().map(lane));
        Remains { lanes, member: self.member, ring: self.ring }
    }
}

/// What a daemon leaves behind.
pub struct Remains {
    pub lanes: ByGroup<(Rate, Rtt)>,
    pub member: Member,
    pub ring: SharedAckRing,
}

fn rtt(status: &LaneStatus) -> Rtt {
    Rtt {
        smoothed_ns: status.rtt_smoothed_ns,
        variation_ns: status.rtt_variation_ns,
        min_ns: status.rtt_min_ns,
    }
}
