//! The state of the host: jobs, sessions, flows and lanes, and the datapath that follows them.

mod job_requests;
mod senders;
mod stats;

pub use self::senders::SenderOpen;
use super::{
    connection::{Answer, Connection, Peer},
    flows::Flows,
    internal,
    jobs::{Jobs, SessionId},
    lanes::{LaneTable, Tick},
    refuse,
    sessions::Sessions,
    socket_addresses::UdpEnds,
};
use crate::datapath::Datapath;
use approxlib::control::{Refusal, RefusalKind, Reply, Request};
use atp_common::{
    laws::{Rules, lane::Settings},
    maps::{GroupProgress, PortEntry},
    units::{PodBool, Rate},
};
use std::{collections::HashMap, rc::Rc, time::Instant};
use switch_profiles::Profile;

/// Everything that the daemon knows.
pub struct Host {
    /// Dropped before the datapath: libraries learn that their lanes end, and then they end.
    flows: Flows,
    datapath: Datapath,
    profile: Profile,
    /// The law's settings for a lane, but for its MSR.
    settings: Settings,
    jobs: Jobs,
    sessions: Sessions,
    lanes: LaneTable,
    /// Ports in use, so that no two clients claim one.
    ports: HashMap<u16, SessionId>,
    started: Instant,
    /// Why rates can't be changed at present.
    rates_error: Option<String>,
}

impl Host {
    /// A host without jobs.
    pub fn new(datapath: Datapath, profile: Profile, settings: Settings) -> Self {
        Self {
            flows: Flows::default(),
            datapath,
            profile,
            settings,
            jobs: Jobs::default(),
            sessions: Sessions::default(),
            lanes: LaneTable::default(),
            ports: HashMap::new(),
            started: Instant::now(),
            rates_error: None,
        }
    }

    /// The answer to a hello.
    pub fn welcome(&self) -> Reply {
        Reply::Welcome {
            version: env!("CARGO_PKG_VERSION").into(),
            pacing: self.datapath.pacing_name().into(),
        }
    }

    /// Whether `peer` may stop the daemon: its own user, or root.
    pub fn may_stop(&self, peer: Peer) -> Result<(), Refusal> {
        let own = nix::unistd::geteuid().as_raw();
        if peer.uid == 0 || peer.uid == own {
            return Ok(());
        }
        refuse(RefusalKind::NotYours, format!("only user {own} or root may stop this daemon"))
    }

    /// A client is there.
    pub fn open_session(&mut self, peer: Peer, connection: Rc<Connection>) {
        self.sessions.open(peer, connection);
    }

    /// Answers what needs nothing but the host. `ends`: what is known of the socket that came along.
    pub fn handle(
        &mut self,
        request: Request,
        ends: Result<UdpEnds, Refusal>,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        match request {
            Request::JobCreate { id, name, cgroup } => self.job_create(id, name, cgroup, peer),
            Request::JobList { from } => {
                let (jobs, next) = self.jobs.infos(from);
                Ok((Reply::Jobs { jobs, next }, Vec::new()))
            }
            Request::JobEnd { id } => self.job_end(id, peer),
            Request::ReceiverOpen {} => self.receiver_open(ends?, peer),
            Request::Stats {} => Ok((Reply::Stats(self.stats()), Vec::new())),
            Request::LaneList { from } => {
                let (lanes, next) = self.lane_list(from);
                Ok((Reply::Lanes { lanes, next }, Vec::new()))
            }
            Request::Hello { .. } | Request::SenderOpen { .. } | Request::Stop {} => {
                Err(internal("it lost its way"))
            }
        }
    }

    /// Runs the control loop once.
    pub fn tick(&mut self, now_ns: u64) {
        self.datapath.heartbeat(now_ns);
        let tick = Tick {
            now_ns,
            paced_by_departure: self.datapath.paces_by_departure(),
            lanes: self.datapath.lanes(),
            laws: self.datapath.laws(),
            profile: &self.profile,
        };
        let flows = &self.flows;
        let changes = self.lanes.tick(
            &tick,
            |lane| progress_of(flows, lane.flow, lane.group),
            |lane, status| {
                if let Some(flow) = flows.get(lane.flow) {
                    flow.status.write(lane.group, status);
                }
            },
        );
        if changes.is_empty() {
            return;
        }
        // An interface can go away under us; the others go on. Said once, not every epoch, and again
        // if it comes back after it was over.
        let error = self.datapath.change_rates(&changes).map_err(|error| error.to_string()).err();
        if let Some(error) = &error
            && self.rates_error.as_ref() != Some(error)
        {
            tracing::warn!(%error, "rates can't be changed");
        }
        self.rates_error = error;
    }

    /// Lets go of all that a client held.
    pub fn close_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(id) else { return };
        for flow in session.flows {
            self.close_flow(flow);
        }
        for port in session.receiver_ports {
            self.free_port(port);
        }
    }

    fn receiver_open(&mut self, ends: UdpEnds, peer: Peer) -> Result<Answer, Refusal> {
        let port = ends.local.port;
        self.check_port(port)?;
        self.sessions.check_receiver_ports(peer.uid)?;
        let session = self.sessions.asking(peer)?;
        let entry = PortEntry::receiver(ends.local.address);
        self.datapath.set_port(port, entry).map_err(internal)?;
        self.ports.insert(port, peer.session);
        session.receiver_ports.push(port);
        Ok((Reply::Done, Vec::new()))
    }

    fn check_port(&self, port: u16) -> Result<(), Refusal> {
        if self.ports.contains_key(&port) {
            return refuse(RefusalKind::InUse, format!("UDP port {port} is registered already"));
        }
        Ok(())
    }

    fn free_port(&mut self, port: u16) {
        self.ports.remove(&port);
        warn_on_error(self.datapath.set_port(port, PortEntry::default()));
    }
}

/// What the sender of a flow says of a group; nothing if it is gone.
fn progress_of(flows: &Flows, flow: usize, group: u8) -> GroupProgress {
    flows.get(flow).map_or_else(GroupProgress::default, |flow| flow.progress.read(group))
}

/// For clean-up that has nobody to report to.
fn warn_on_error(outcome: Result<(), crate::datapath::DatapathError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "cleaning up");
    }
}

/// The settings of every lane of this host.
pub fn lane_settings(
    rate_max: Rate,
    epoch_ns_min: u64,
    packet_bytes: u32,
    rules: Rules,
) -> Settings {
    Settings {
        rate_max,
        step: atp_common::laws::rate::DEFAULT_STEP,
        epoch_ns_min,
        packet_bytes,
        exact: PodBool::FALSE,
        rules,
    }
}
