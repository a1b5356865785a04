//! The daemon's datapath: eBPF paces, stamps, marks, counts and acknowledges; this side reads and
//! writes memory shared with it.

use super::{
    backlog::Backlog,
    maps::{ProgressPage, SharedAckRing, StatusPage},
};
use crate::{
    control::{Client, SenderGrant},
    udp::UdpSocket,
};
use atp_common::{
    laws::rtt::Rtt,
    maps::{GroupProgress, LaneStatus},
    units::Rate,
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
    told: Option<GroupProgress>,
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
            told: None,
        })
    }

    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        sender.scan_acks(now_ns, &self.ring);
        let progress = sender.progress(self.group);
        if progress != self.told {
            self.told = progress;
            self.progress.write(self.group, progress.unwrap_or_default());
        }
        let status = self.status();
        let rate = Rate::from_bytes_per_s(status.rate_bytes_per_s);
        self.backlog.follow(socket, rate);
        let backlog_ns = self.backlog.wait_ns(socket, rate);
        sender.set_pace(Pace { rtt: rtt(&status), backlog_ns });
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
