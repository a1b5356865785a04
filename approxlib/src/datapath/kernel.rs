//! The daemon's datapath: eBPF paces, stamps, marks, counts and acknowledges; this side reads and
//! writes memory shared with it.

use super::{
    backlog::{BACKLOG_NS, Backlog},
    by_group::ByGroup,
    maps::{ProgressPage, SharedAckRing, StatusPage},
    pacer::Pacer,
};
use crate::{
    control::{Client, SenderGrant},
    udp::{UdpSocket, now_ns},
};
use atp_common::{
    laws::rtt::Rtt,
    maps::{GroupProgress, LaneStatus},
    units::Rate,
    wire::Header,
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
    backlog: Backlog,
    /// Bytes on the wire of a packet, beyond its payload.
    overhead_bytes: u32,
}

struct KernelLane {
    told: Option<GroupProgress>,
    rate: Rate,
    /// Keeps the packets of a slow lane from filling the socket that it shares with faster ones.
    /// The kernel's own pacing is exact; this one only says how much may wait there.
    pacer: Pacer,
}

impl Kernel {
    /// Maps what the daemon granted. `packet_bytes`: a full packet on the wire.
    pub fn new(
        client: Client,
        grant: &SenderGrant,
        [ring, progress, status]: [OwnedFd; 3],
        groups: &[GroupConfig],
        [packet_bytes, payload_bytes]: [u32; 2],
    ) -> io::Result<Self> {
        let now_ns = now_ns();
        let lane = |group: &GroupConfig| {
            let lane = KernelLane {
                told: None,
                rate: Rate::default(),
                pacer: Pacer::new(now_ns, BACKLOG_NS),
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
            backlog: Backlog::new(packet_bytes),
            overhead_bytes: packet_bytes - payload_bytes,
        })
    }

    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        sender.scan_acks(now_ns, &self.ring);
        let is_alone = self.is_alone();
        let mut together_bytes_per_s = 0;
        for (group, lane) in self.lanes.iter_mut() {
            let progress = sender.progress(*group);
            if progress != lane.told {
                lane.told = progress;
                self.progress.write(*group, progress.unwrap_or_default());
            }
            let status = self.status.read(*group);
            lane.rate = Rate::from_bytes_per_s(status.rate_bytes_per_s);
            together_bytes_per_s += lane.rate.bytes_per_s();
            let backlog_ns = match is_alone {
                true => self.backlog.wait_ns(socket, lane.rate),
                false => lane.pacer.ahead_ns(now_ns),
            };
            sender.set_pace(*group, Pace { rtt: rtt(&status), backlog_ns });
        }
        self.backlog.follow(socket, Rate::from_bytes_per_s(together_bytes_per_s));
    }

    /// One lane alone is held back by its socket.
    fn is_alone(&self) -> bool {
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

    pub fn depart(&mut self, now_ns: u64, header: &Header, payload_bytes: u32) {
        let bytes = payload_bytes + self.overhead_bytes;
        if let Some(lane) = self.lanes.get_mut(header.group())
            && lane.rate != Rate::default()
        {
            lane.pacer.depart(now_ns, bytes, lane.rate);
        }
    }

    pub fn unsent(&mut self, header: &Header, payload_bytes: u32) {
        let bytes = payload_bytes + self.overhead_bytes;
        if let Some(lane) = self.lanes.get_mut(header.group())
            && lane.rate != Rate::default()
        {
            lane.pacer.unsent(bytes, lane.rate);
        }
    }

    pub fn status(&self, group: u8) -> LaneStatus {
        self.status.read(group)
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
        Remains { lanes: ByGroup::new(self.lanes.iter().map(lane)), ring: self.ring }
    }
}

/// What a daemon leaves behind.
pub struct Remains {
    pub lanes: ByGroup<(Rate, Rtt)>,
    pub ring: SharedAckRing,
}

fn rtt(status: &LaneStatus) -> Rtt {
    Rtt {
        smoothed_ns: status.rtt_smoothed_ns,
        variation_ns: status.rtt_variation_ns,
        min_ns: status.rtt_min_ns,
    }
}
