//! The daemon's datapath: eBPF paces, stamps, marks, counts and acknowledges; this side reads and
//! writes memory shared with it.

use super::{
    backlog::Backlog,
    maps::{ProgressPage, SharedAckRing, StatusPage},
    prober::Prober,
};
use crate::{
    control::{Client, SenderGrant},
    udp::UdpSocket,
};
use atp_common::{
    laws::{burst, rtt::Rtt},
    maps::{GroupProgress, LaneStatus},
    units::Rate,
    wire::{Flags, Header, PROBE_LEN},
};
use atp_proto::{Pace, Sender};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// One flow of one group, served by the daemon.
pub struct Kernel {
    client: Client,
    pacing: String,
    group: u8,
    ring: SharedAckRing,
    progress: ProgressPage,
    status: StatusPage,
    backlog: Backlog,
    backlog_ns: u64,
    packet_bytes: u32,
    prober: Prober,
    told: Option<GroupProgress>,
    /// As of the last tick.
    lane: LaneStatus,
}

impl Kernel {
    /// Maps what the daemon granted. `packet_bytes`: a full packet on the wire.
    pub fn new(
        client: Client,
        grant: &SenderGrant,
        [ring, progress, status]: [OwnedFd; 3],
        group: u8,
        packet_bytes: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            client,
            pacing: grant.pacing.clone(),
            group,
            ring: SharedAckRing::map(&ring, grant.ack_ring_words)?,
            progress: ProgressPage::map(&progress)?,
            status: StatusPage::map(&status)?,
            backlog: Backlog::new(packet_bytes),
            backlog_ns: 0,
            packet_bytes,
            prober: Prober::new(grant.job, grant.cookie, group),
            told: None,
            lane: LaneStatus::default(),
        })
    }

    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        self.take_acks(now_ns, sender);
        let progress = sender.progress(self.group);
        if progress != self.told {
            self.told = progress;
            self.progress.write(self.group, progress.unwrap_or_default());
        }
        let status = self.status();
        let rate = Rate::from_bytes_per_s(status.rate_bytes_per_s);
        self.backlog.follow(socket, rate);
        self.backlog_ns = self.backlog.wait_ns(socket, rate);
        sender.set_pace(Pace { rtt: rtt(&status), backlog_ns: self.backlog_ns });
        sender.set_probed(burst::is_probed(rate, self.packet_bytes));
        self.lane = status;
    }

    /// First which questions are answered, then the ring: the answers' bits are there by then.
    fn take_acks(&mut self, now_ns: u64, sender: &mut Sender) {
        let timeout_ns = rtt(&self.lane).timeout_ns();
        let ring = &self.ring;
        let answered =
            self.prober.take_answered(now_ns, timeout_ns, |number| ring.is_answered(number));
        sender.scan_acks(now_ns, ring);
        for question in answered {
            sender.answered(now_ns, self.group, question.slots, question.left_ns);
        }
    }

    /// What the datapath doesn't stamp.
    pub fn depart(&mut self, header: &mut Header) {
        if header.flags().contains(Flags::PROBED) {
            header.set_probed(self.lane.epoch as u16);
            self.prober.sent(header.slot());
        }
    }

    pub fn unsent(&mut self, header: &Header) {
        if header.flags().contains(Flags::PROBED) {
            self.prober.unsent(header.slot());
        }
    }

    /// The next question, if one is due.
    pub fn ask(&mut self, now_ns: u64, sender: &Sender) -> Option<[u8; PROBE_LEN]> {
        self.prober.ask(now_ns, self.backlog_ns, sender.oldest_in_flight())
    }

    /// What the daemon advises: bounded, for its page is another process's.
    pub fn burst_packets(&self) -> usize {
        self.lane.burst_packets.clamp(1, burst::PACKETS_MAX) as usize
    }

    /// Whether it left.
    pub fn asked(&mut self, now_ns: u64, sender: &mut Sender, left: bool) {
        if left {
            sender.asked(now_ns + self.backlog_ns);
        } else {
            self.prober.not_asked();
        }
    }

    pub fn status(&self) -> LaneStatus {
        self.status.read(self.group)
    }

    pub fn control(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }

    /// What is left when the daemon is gone: the lane's last rate and RTT, and a ring that programs
    /// which it left behind go on writing to.
    pub fn into_remains(self) -> Remains {
        let status = self.status();
        let rate = Rate::from_bytes_per_s(status.rate_bytes_per_s);
        Remains { rate, rtt: rtt(&status), ring: self.ring }
    }
}

/// What a daemon leaves behind.
pub struct Remains {
    pub rate: Rate,
    pub rtt: Rtt,
    pub ring: SharedAckRing,
}

fn rtt(status: &LaneStatus) -> Rtt {
    Rtt {
        smoothed_ns: status.rtt_smoothed_ns,
        variation_ns: status.rtt_variation_ns,
        min_ns: status.rtt_min_ns,
    }
}
