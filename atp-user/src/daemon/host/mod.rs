//! The state of the host: jobs, sessions, flows, lanes and the datapath.

mod coverage;
mod job_requests;
mod policy;
mod registrations;
mod senders;

pub use self::registrations::OwnedSocket;
use self::registrations::Registration;
pub use self::senders::SenderOpen;
use super::{
    Options,
    advice::AdviceGiver,
    batcher::Batcher,
    clock::shared_ns,
    connection::{Answer, Connection, Peer, SessionId},
    flows::Flows,
    interface_page::InterfacePage,
    internal,
    jobs::Jobs,
    known_paths::KnownPaths,
    lanes::{LaneTable, Tick},
    policy::Policy,
    quota::{self, Budget},
    refuse,
    sessions::Sessions,
    snapshot::{Facts, SnapshotPages},
    socket_addresses::UdpEndpoints,
    telemetry::TelemetryThread,
    tenant::Tenant,
};
use anyhow::{Context, Result as AnyResult};
use approxlib::control::{CoverageStats, JobUser, Refusal, RefusalKind, Reply, Request, Snapshot};
use atp_common::{
    laws::{RateLaw, Rules, lane::Settings},
    maps::{GroupProgress, LANES, PortEntry, ReceivedAdvice},
    units::{PodBool, Rate},
};
use atp_datapath::{Datapath, DatapathError};
use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    sync::Arc,
    time::Instant,
};
use switch_profiles::Profile;
use tokio::sync::Notify;

/// Makes the ACK rings of flows.
pub type RingMaker = Batcher<Result<OwnedFd, DatapathError>>;

/// The complete state of the daemon.
pub struct Host {
    /// The first field is dropped first, so libraries learn of the end before the datapath ends.
    flows: Flows,
    /// Before the datapath, whose programs it keeps loaded.
    _telemetry: TelemetryThread,
    pages: Arc<SnapshotPages>,
    /// The interfaces whose packets the programs acknowledge. Dropped before the datapath too.
    interfaces: InterfacePage,
    datapath: Datapath,
    profile: Profile,
    /// The settings of every lane's law, without its MSR.
    settings: Settings,
    jobs: Jobs,
    sessions: Sessions,
    policy: Policy,
    /// When a refusal by the policy was logged last.
    policy_logged: Option<Instant>,
    lanes: LaneTable,
    lane_budget: Budget,
    receiver_ports: Budget,
    known_paths: KnownPaths,
    rings: RingMaker,
    first_lane: Rc<Notify>,
    /// `None` if this host gives no advice, and follows none.
    advice: Option<AdviceGiver>,
    /// The longest burst with which an approximate lane makes up for late packets.
    burst_bytes_max: u32,
    /// The highest rate of a lane, if the operator has set it.
    rate_max: Option<Rate>,
    /// Registered sockets, by port.
    registrations: HashMap<u16, Registration>,
    /// The error of the last attempt to change rates.
    rates_error: Option<String>,
    coverage: CoverageStats,
    /// When a loss of coverage was logged last.
    coverage_warned: Option<Instant>,
}

impl Host {
    /// A host without jobs.
    ///
    /// # Errors
    /// If a page or the thread that writes counters can't be had.
    pub fn new(
        datapath: Datapath,
        profile: Profile,
        settings: Settings,
        options: &Options,
    ) -> AnyResult<Self> {
        let pages = SnapshotPages::new(&Facts {
            pacing: datapath.pacing_name(),
            law: law_name(settings.rules.law()),
            epochs_in_kernel: datapath.laws().is_some(),
        })?;
        let pages = Arc::new(pages);
        let telemetry = TelemetryThread::start(datapath.meter()?, pages.clone())
            .context("can't start the thread for counters")?;
        let mut interfaces = InterfacePage::new()?;
        interfaces.write(&datapath.attached_ifindexes());
        pages.set_interfaces(&datapath.interfaces());
        let ack_rings = datapath.ack_rings()?;
        let first_lane = Rc::<Notify>::default();
        let depth_packets = options.advised_depth_packets();
        // Half of a queue towards a host, which several lanes may share. None in one queue for all:
        // exact packets would wait behind a burst.
        let burst_bytes_max = (depth_packets / 2).saturating_mul(settings.packet_bytes);
        let giver = || AdviceGiver::new(first_lane.clone(), depth_packets);
        let advice = options.advice.is_on().then(giver);
        Ok(Self {
            flows: Flows::default(),
            _telemetry: telemetry,
            pages,
            interfaces,
            datapath,
            profile,
            settings,
            jobs: Jobs::default(),
            sessions: Sessions::default(),
            policy: Policy::default(),
            policy_logged: None,
            lanes: LaneTable::new(options.tick()),
            lane_budget: Budget::new("lanes", LANES as usize),
            receiver_ports: Budget::new("receiving ports", quota::RECEIVER_PORTS),
            known_paths: KnownPaths::default(),
            rings: Batcher::new(ack_rings.batch_max(), move |flows| ack_rings.renew(flows)),
            first_lane,
            advice,
            burst_bytes_max,
            rate_max: options.rate_max_bytes_per_s.map(Rate::from_bytes_per_s),
            registrations: HashMap::new(),
            rates_error: None,
            coverage: CoverageStats::default(),
            coverage_warned: None,
        })
    }

    /// The answer to a hello, on a connection of this protocol version.
    pub fn welcome(&self, protocol: u32) -> Reply {
        Reply::Welcome {
            version: env!("CARGO_PKG_VERSION").into(),
            pacing: self.datapath.pacing_name().into(),
            protocol,
        }
    }

    /// A reader of the page for every client.
    pub fn snapshot(&self) -> std::io::Result<Snapshot> {
        Snapshot::map(&self.pages.descriptors(false))
    }

    /// Whether `peer` may stop the daemon: its own user, or root.
    pub fn may_stop(&self, peer: Peer) -> Result<(), Refusal> {
        if sees_everything(peer) {
            return Ok(());
        }
        let own = nix::unistd::geteuid();
        refuse(
            RefusalKind::NotYours,
            format!("only user {own} or root may stop this daemon: ask as one of them"),
        )
    }

    /// The snapshot pages, and whether a client may have those of the identities.
    pub fn pages(&self, peer: Peer) -> (Arc<SnapshotPages>, bool) {
        (self.pages.clone(), sees_everything(peer))
    }

    /// Opens a session for a client.
    pub fn open_session(&mut self, peer: Peer, connection: Rc<Connection>) {
        self.sessions.open(peer, connection);
    }

    /// Answers a request that needs only the host. `endpoints` are those of the request's socket.
    pub fn handle(
        &mut self,
        request: Request,
        endpoints: Result<UdpEndpoints, Refusal>,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        match request {
            Request::JobCreate { id, name, cgroup } => self.job_create(id, name, cgroup, peer),
            Request::JobList { from, from_uid, from_container } => {
                let from_user = job_user(from_uid, from_container).unwrap_or_default();
                let page = self.jobs.infos((from, from_user), peer.user(), sees_everything(peer));
                Ok((page, Vec::new()))
            }
            Request::JobEnd { id, uid, container } => {
                self.job_end(id, job_user(uid, container), peer)
            }
            Request::JobAttach { id, uid, container, cgroup } => {
                self.job_attach(id, job_user(uid, container), cgroup, peer)
            }
            Request::ReceiverOpen {} => self.receiver_open(endpoints?, peer),
            Request::Hello { .. }
            | Request::SenderOpen { .. }
            | Request::NotCovered { .. }
            | Request::Snapshot {}
            | Request::Stop {} => Err(internal("it can't handle this request here")),
        }
    }

    /// Runs the control loop once.
    pub fn tick(&mut self, now_ns: u64) {
        self.datapath.heartbeat(now_ns);
        if let Some(advice) = &mut self.advice {
            advice.tick(now_ns, self.datapath.arrivals());
        }
        let tick = tick_of(&self.datapath, &self.profile, now_ns);
        let (flows, pages, follows_advice) = (&self.flows, &self.pages, self.advice.is_some());
        let changes = self.lanes.tick(
            &tick,
            |lane| progress_of(flows, lane.flow, lane.group),
            |lane| received_advice(flows, lane.flow, lane.group, follows_advice),
            |index, lane, status, entry| {
                if let Some(flow) = flows.get(lane.flow) {
                    flow.status.write(lane.group, status);
                }
                pages.set_lane(index, entry);
            },
        );
        pages.set_ticked(now_ns);
        if changes.is_empty() {
            return;
        }
        // An interface can disappear while the others go on. A repeated error is logged once, and
        // again when it returns after a success.
        let error = self.datapath.change_rates(&changes).map_err(|error| error.to_string()).err();
        if let Some(error) = &error
            && self.rates_error.as_ref() != Some(error)
        {
            tracing::warn!(%error, "can't change rates");
        }
        self.rates_error = error;
    }

    /// Whether a lane is open.
    pub fn has_lanes(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Whether a lane is open, or arrives and gets advice. Otherwise the control loop has little to
    /// do.
    pub fn is_busy(&self) -> bool {
        self.has_lanes() || self.advice.as_ref().is_some_and(AdviceGiver::is_awake)
    }

    /// Notified when the first lane opens or arrives.
    pub fn first_lane(&self) -> Rc<Notify> {
        self.first_lane.clone()
    }

    /// Notified when an interface came, went or changed, for [`Self::look_at_interfaces`].
    pub fn interfaces_changed(&self) -> Arc<Notify> {
        self.datapath.interfaces_changed()
    }

    /// Shows the present state of the interfaces. If the operator has set no highest rate, that of
    /// lanes that open from now on is the speed of the slowest one.
    pub fn look_at_interfaces(&mut self) {
        let covered = self.datapath.attached_ifindexes();
        self.interfaces.write(&covered);
        self.pages.set_interfaces(&self.datapath.interfaces());
        if let Some(speed) = self.datapath.speed().filter(|_| self.rate_max.is_none()) {
            self.settings.rate_max = speed;
        }
        if let Some(advice) = &mut self.advice {
            advice.set_lines(&match self.rate_max {
                Some(rate) => covered.into_iter().map(|interface| (interface, rate)).collect(),
                None => self.datapath.reported_speeds(),
            });
        }
    }

    /// Closes a session and frees its flows and ports.
    pub fn close_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(id) else { return };
        for flow in session.flows {
            self.close_flow(flow);
        }
        for (port, _) in session.receiver_ports {
            self.free_port(port);
        }
    }

    fn receiver_open(&mut self, endpoints: UdpEndpoints, peer: Peer) -> Result<Answer, Refusal> {
        let port = endpoints.local.port;
        self.check_port(port)?;
        let place = self.receiver_ports.take(peer.tenant, 1)?;
        let session = self.sessions.of_peer(peer)?;
        let socket = endpoints.id();
        let entry = PortEntry::receiver(endpoints.local.address, socket.cookie);
        self.datapath.set_port(port, entry).map_err(internal)?;
        let owner = peer.tenant;
        let registration = Registration { session: peer.session, flow: None, owner, socket };
        self.registrations.insert(port, registration);
        session.receiver_ports.push((port, place));
        let mut fds = vec![self.interfaces.as_fd().try_clone_to_owned().map_err(internal)?];
        if let Some(advice) = &mut self.advice {
            let map = self.datapath.new_arriving_map().map_err(internal)?;
            fds.extend(advice.add_receiver(port, peer.tenant, map).map_err(internal)?);
        }
        Ok((Reply::Receiver, fds))
    }
}

/// The user that a request names.
fn job_user(uid: Option<u32>, container: Option<u64>) -> Option<JobUser> {
    uid.map(|uid| JobUser { uid, container })
}

/// The input of the control loop at `now_ns`.
fn tick_of<'a>(datapath: &'a Datapath, profile: &'a Profile, now_ns: u64) -> Tick<'a> {
    Tick {
        now_ns,
        shared_ns: shared_ns(),
        paced_by_departure: datapath.paces_by_departure(),
        lanes: datapath.lanes(),
        laws: datapath.laws(),
        profile,
    }
}

fn law_name(law: RateLaw) -> &'static str {
    RateLaw::ALL.into_iter().find(|(known, _)| *known == law).map_or("", |(_, name)| name)
}

/// Whether a client is root or the daemon's own user. Such a client may stop the daemon, and sees
/// the names, addresses and processes of all users.
fn sees_everything(peer: Peer) -> bool {
    peer.is_root() || peer.tenant == Tenant::User(nix::unistd::geteuid().as_raw())
}

/// The progress of a group that its sender reports; the default if the flow is closed.
fn progress_of(flows: &Flows, flow: usize, group: u8) -> GroupProgress {
    flows.get(flow).map_or_else(GroupProgress::default, |flow| flow.progress.read(group))
}

/// The advice that a lane's sender has received. A host that follows no advice reports none.
fn received_advice(
    flows: &Flows,
    flow: usize,
    group: u8,
    follows_advice: bool,
) -> Option<ReceivedAdvice> {
    let advice = flows.get(flow)?.progress.read_advice(group);
    Some(if follows_advice { advice } else { advice.without_advice() })
}

/// Logs an error in clean-up that has no caller to return it to.
fn warn_on_error(outcome: Result<(), DatapathError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "clean-up failed");
    }
}

/// The settings of every lane of this host.
pub fn lane_settings(
    rate_max: Rate,
    epoch_ns_min: u64,
    packet_bytes: u32,
    rules: Rules,
    deep_queues: bool,
) -> Settings {
    let deep_queues = deep_queues.into();
    Settings { rate_max, epoch_ns_min, packet_bytes, exact: PodBool::FALSE, rules, deep_queues }
}
