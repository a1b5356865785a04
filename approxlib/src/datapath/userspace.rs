//! The datapath without a daemon: this process stamps, paces, marks and counts packets, and runs
//! the laws.

use super::{backlog::Backlog, job_progress::FlowProgress, maps::SharedAckRing};
use crate::udp::{UdpSocket, shared_ns};
use atp_proto::{
    GroupConfig, Sender,
    flow::{self, ByGroup, Clock, LaneHandover, LaneSettings, Lanes, SharedRing},
};
use std::sync::Arc;

/// State for a userspace datapath that continues the flow of a daemon.
pub struct Handover {
    pub lanes: ByGroup<LaneHandover>,
    pub flow_progress: FlowProgress,
    pub ring: SharedAckRing,
}

/// The lanes of one flow, and the socket that they share.
pub struct Userspace {
    pub lanes: Lanes,
    flow_progress: FlowProgress,
    backlog: Backlog,
}

impl Userspace {
    /// Creates new lanes, or continues those of a kernel datapath. A handover brings its own
    /// `FlowProgress`.
    pub fn new(
        settings: LaneSettings,
        groups: &[GroupConfig],
        flow_progress: FlowProgress,
        handover: Option<Handover>,
        now_ns: u64,
    ) -> Self {
        let (flow_progress, handover) = match handover {
            Some(Handover { lanes, flow_progress, ring }) => {
                let words = ring.words();
                let ring = SharedRing::new(Arc::new(ring), words);
                (flow_progress, Some(flow::Handover { lanes, ring }))
            }
            None => (flow_progress, None),
        };
        let lanes = Lanes::new(settings, groups, handover, now_ns);
        Self { lanes, flow_progress, backlog: Backlog::new(settings.packet_bytes()) }
    }

    /// The flow's progress, for a kernel datapath that continues it.
    pub fn into_progress(self) -> FlowProgress {
        self.flow_progress
    }

    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        let clock = Clock { now_ns, shared_ns: shared_ns() };
        let Self { lanes, flow_progress, backlog } = self;
        let total = lanes.tick(clock, sender, |group, own| flow_progress.update(group, own));
        backlog.follow(socket, total);
        lanes.set_paces(sender, backlog.wait_ns(socket, total));
    }
}
