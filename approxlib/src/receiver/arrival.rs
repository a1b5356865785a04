//! DATA that arrives at this host: counts its lane for advice.

use super::{acknowledger::Advising, advised_lanes::AdvisedLanes};
use atp_proto::endpoint::{Arrived, Host};
use std::net::SocketAddr;

/// The host's part in the arrival of one GRO buffer.
pub struct Arrival<'a> {
    pub advising: Advising<'a>,
    /// The interface over which it arrived; 0 if the kernel doesn't tell.
    pub interface: u32,
    /// Whether this process sends ACKs, instead of the daemon's programs.
    pub acknowledges: bool,
}

impl Host for Arrival<'_> {
    type Lanes = AdvisedLanes;

    fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    /// Counts packets of a lane, or makes the daemon count the lane if its programs saw them.
    fn on_data(&mut self, source: SocketAddr, lanes: &mut AdvisedLanes, arrived: &Arrived<'_>) {
        match &mut self.advising {
            Advising::Daemon(arriving) if !self.acknowledges => {
                let header = arrived.header;
                lanes.by_daemon.open(header.group(), || arriving.open(source, header));
                arriving.wake_daemon();
            }
            Advising::Here(own) => {
                own.count(source, &mut lanes.counted, self.interface, arrived);
            }
            Advising::Daemon(_) | Advising::Nobody => {}
        }
    }
}
