//! Registers and closes sending sockets: flows with their lanes and ACK rings.

use super::{
    super::{
        clock::monotonic_ns,
        connection::{Answer, Peer},
        flows::FlowRecord,
        internal,
        jobs::{JobRecord, NewJob},
        known_paths::Ends,
        lanes::NewLane,
        refuse,
        sessions::Session,
        socket_addresses::{Endpoint, UdpEndpoints},
        status_page::StatusPage,
    },
    Host, RingMaker,
    registrations::Registration,
    tick_of, warn_on_error,
};
use approxlib::control::{GroupOpen, KnownPath, Refusal, RefusalKind, Reply, SenderGrant};
use atp_common::{
    laws::{backlog, lane::Settings},
    maps::{ACK_RING_WORDS, Flow, GROUPS, GroupProgress, LANE_NONE, PortEntry},
    units::{Msr, Rate},
};
use atp_datapath::{Datapath, DatapathError, ProgressMap, RouteQuery, UdpSocketId};
use std::{
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

/// A checked `SenderOpen` request.
pub struct SenderOpen {
    id: Option<u32>,
    /// The cookie of a flow that continues.
    cookie: Option<u32>,
    groups: Vec<NewGroup>,
    local: Endpoint,
    remote: Endpoint,
    socket: UdpSocketId,
    /// The route of its packets.
    pub route: RouteQuery,
}

/// A group of a new flow.
struct NewGroup {
    group: u8,
    msr: Msr,
    /// N; 0 if unknown.
    messages: u32,
    /// The first epoch of its lane.
    epoch: u16,
    /// The rate of a flow that continues; 0 for the law's own.
    rate: Rate,
    /// Whether the library limits the first window.
    first_window: bool,
}

impl SenderOpen {
    /// Checks the parameters of a request and the endpoints of its socket.
    pub fn new(
        id: Option<u32>,
        cookie: Option<u32>,
        groups: &[GroupOpen],
        endpoints: UdpEndpoints,
        uid: u32,
    ) -> Result<Self, Refusal> {
        // A forger would guess zero first.
        if cookie == Some(0) {
            return refuse(
                RefusalKind::BadRequest,
                "the cookie in this request is 0: give another one, or none",
            );
        }
        let mut seen = [false; GROUPS];
        let once =
            groups.iter().all(|open| !std::mem::replace(&mut seen[usize::from(open.group)], true));
        if groups.is_empty() || !once {
            return refuse(
                RefusalKind::BadRequest,
                "the list of groups is empty or repeats an id: give 1 to 256 different groups",
            );
        }
        let parsed = groups.iter().map(|open| {
            let msr = Msr::from_parts_per_billion(open.msr_parts_per_billion)?;
            let rate = Rate::from_bytes_per_s(open.rate_bytes_per_s);
            let GroupOpen { group, messages, epoch, first_window, .. } = *open;
            Some(NewGroup { group, msr, messages, epoch, rate, first_window })
        });
        let Some(groups) = parsed.collect() else {
            return refuse(
                RefusalKind::BadRequest,
                "an MSR in this request is above 1: give at most 1",
            );
        };
        let UdpEndpoints { local, remote: Some(remote), interface, mark, .. } = endpoints else {
            return refuse(
                RefusalKind::BadRequest,
                "the socket in this request is not connected: connect it first",
            );
        };
        let (from, to) = (local.socket_address(), remote.socket_address());
        let route = RouteQuery { local: from, remote: to, interface, mark, uid };
        Ok(Self { id, cookie, groups, local, remote, socket: endpoints.id(), route })
    }

    /// Whether the flow existed before, in userspace.
    pub const fn returns(&self) -> bool {
        self.cookie.is_some()
    }
}

impl Host {
    /// Reserves an index for a new flow, and returns the maker of its ACK ring.
    ///
    /// Another thread creates the ring: that takes longer than the control loop can wait.
    pub fn reserve_flow(&mut self, peer: Peer) -> Result<(usize, RingMaker), Refusal> {
        Ok((self.flows.reserve(peer.tenant)?, self.rings.clone()))
    }

    /// Opens a flow at a reserved index. Frees the index if that fails.
    pub fn sender_open(
        &mut self,
        open: &SenderOpen,
        flow: usize,
        ring: Result<OwnedFd, Refusal>,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        let granted = ring.and_then(|ring| self.grant_flow(open, flow, ring, peer));
        if granted.is_err() {
            self.flows.release(flow);
        }
        granted
    }

    /// Waits until the lanes opened so far are in the qdiscs.
    pub fn settled(&self) -> impl Future<Output = Result<(), DatapathError>> + use<> {
        self.datapath.settled()
    }

    /// Closes a flow that was opened for `peer`, if it is still that one.
    pub fn withdraw_flow(&mut self, flow: usize, peer: Peer) {
        if self.flows.get(flow).is_some_and(|open| open.session == peer.session) {
            self.close_flow(flow);
        }
    }

    fn grant_flow(
        &mut self,
        open: &SenderOpen,
        flow: usize,
        ring: OwnedFd,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        // First: it may end a flow whose client has ended, and the job of that flow.
        self.check_port(open.local.port)?;
        self.check_msrs(peer, open.groups.iter().map(|group| group.msr))?;
        let (job, is_new) = self.job_of_sender(open, peer)?;
        let granted = self.open_flow(job, open, flow, ring, peer);
        if granted.is_err() && is_new {
            self.remove_job(job);
        }
        granted
    }

    /// The job of a sender: the user's one with this id, that of its cgroup, or a new one that ends
    /// with its last socket. Returns whether the job is new.
    fn job_of_sender(&mut self, open: &SenderOpen, peer: Peer) -> Result<(usize, bool), Refusal> {
        let id = open.id;
        let session = self.sessions.of_peer(peer)?;
        let own = self.jobs.of_cgroups(session.connection.cgroups());
        let own = own.map(|(index, job)| (index, job.id));
        // Refused as a mistake of the request: a library that went on in userspace would send
        // packets that egress drops.
        if let Some((_, own)) = own
            && id.is_some_and(|id| id != own)
        {
            return refuse(
                RefusalKind::BadRequest,
                format!(
                    "this process is in the cgroup of job {own}: it can send for that job only"
                ),
            );
        }
        if own.is_none()
            && let Some(id) = id
            && self.jobs.bound(id).is_some()
        {
            return refuse(
                RefusalKind::BadRequest,
                format!(
                    "job {id} is bound to a cgroup that this process is not in: start the process there"
                ),
            );
        }
        let own = own.map(|(index, _)| index);
        let of_user = |id| self.jobs.of_user(id, peer.user()).map(|(index, _)| index);
        match own.or_else(|| id.and_then(of_user)) {
            Some(index) => Ok((index, false)),
            None => {
                let continues = open.returns();
                let new = NewJob { id, ephemeral: true, continues, ..NewJob::default() };
                Ok((self.add_job(new, peer)?, true))
            }
        }
    }

    fn open_flow(
        &mut self,
        job: usize,
        open: &SenderOpen,
        flow: usize,
        ring: OwnedFd,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        let lanes = self.lane_budget.take(peer.tenant, open.groups.len())?;
        // Zero is left out, because a forger would guess it first.
        let cookie = open.cookie.unwrap_or_else(|| rand::random_range(1..=u32::MAX));
        let (local, remote) = (open.local.address, open.remote.address);
        let scope = open.route.scope();
        let path = self.known_path(peer, Ends { user: peer.user(), local, remote, scope });
        let grant = self.grant(job, cookie, path)?;
        let session = self.sessions.of_peer(peer)?;
        let (progress, progress_fd) = progress_map(session, &self.datapath, open)?;
        let entry = Flow {
            local: open.local.address,
            remote: open.remote.address,
            local_port: open.local.port,
            remote_port: open.remote.port,
            job_index: job as u32,
            cookie,
            lanes: [LANE_NONE; GROUPS],
        };
        let status = StatusPage::new().map_err(internal)?;
        let status_fd = status.as_fd().try_clone_to_owned().map_err(internal)?;
        self.flows.fill(
            flow,
            FlowRecord {
                session: peer.session,
                user: peer.user(),
                job,
                entry,
                progress,
                route: open.route,
                status,
                lanes,
            },
        );
        session.flows.push(flow);
        if let Some(job) = self.jobs.get_mut(job) {
            job.flows += 1;
        }
        self.publish_job(job);
        let registration = Registration {
            session: peer.session,
            flow: Some(flow),
            owner: peer.tenant,
            socket: open.socket,
        };
        self.registrations.insert(open.local.port, registration);
        if let Err(refusal) = self.start_flow(flow, open, peer) {
            self.close_flow(flow);
            return Err(refusal);
        }
        self.count_coverage(|coverage| coverage.returned_flows += u64::from(open.returns()));
        Ok((Reply::Sender(grant), vec![ring, progress_fd, status_fd]))
    }

    /// Opens the flow's lanes and registers them in the datapath. The port comes last: from then on
    /// the flow's packets are paced.
    fn start_flow(&mut self, index: usize, open: &SenderOpen, peer: Peer) -> Result<(), Refusal> {
        let now_ns = monotonic_ns();
        let limits = self.lane_limits(peer.session);
        let Some(flow) = self.flows.get_mut(index) else {
            return Err(internal("the flow has ended"));
        };
        let (job_id, job_user) = self.jobs.get(flow.job).map(JobRecord::key).unwrap_or_default();
        if self.lanes.is_empty() {
            self.first_lane.notify_one();
        }
        let knows_departures = self.datapath.paces_by_departure();
        let backlog_packets = backlog::least_packets(knows_departures, open.groups.len());
        for &NewGroup { group, msr, epoch, rate, first_window, .. } in &open.groups {
            // Exact traffic shares its queue with others.
            let burst_bytes_max = if msr.is_exact() { 0 } else { self.burst_bytes_max };
            let lane = NewLane {
                job_id,
                job_user,
                flow: index,
                group,
                settings: Settings { exact: msr.is_exact().into(), ..self.settings },
                limits: limits.clone(),
                tlr: msr.slack_share(),
                now_ns,
                epoch,
                rate,
                first_window,
                burst_bytes_max,
                backlog_packets,
            };
            let (lanes, laws) = (self.datapath.lanes(), self.datapath.laws());
            let Some(lane) = self.lanes.open(lanes, laws, &self.profile, lane) else {
                return refuse(
                    RefusalKind::NoRoom,
                    "this host has too few free lanes for this request: end some jobs first",
                );
            };
            flow.entry.lanes[usize::from(group)] = lane;
            let rate_bytes_per_s = self.lanes.rate_bytes_per_s(lane).unwrap_or(0);
            self.datapath.add_lane(lane, rate_bytes_per_s, burst_bytes_max).map_err(internal)?;
            self.pages.open_lane(lane, now_ns, flow, peer);
            let tick = tick_of(&self.datapath, &self.profile, now_ns);
            if let Some(entry) = self.lanes.entry(lane, &tick, flow.progress.read(group)) {
                self.pages.set_lane(lane, &entry);
            }
        }
        let entry = flow.entry;
        self.datapath.set_flow(index as u32, &entry).map_err(internal)?;
        let port = PortEntry::sender(index as u16, open.socket.cookie);
        self.datapath.set_port(entry.local_port, port).map_err(internal)
    }

    fn grant(&self, job: usize, cookie: u32, path: KnownPath) -> Result<SenderGrant, Refusal> {
        let job = self.jobs.get(job).ok_or_else(|| internal("the job has ended"))?;
        Ok(SenderGrant {
            job: job.id,
            cookie,
            ack_ring_words: ACK_RING_WORDS,
            pacing: self.datapath.pacing_name().into(),
            path,
        })
    }

    /// The RTT that the user's closed flows measured to a host, and Rmax.
    fn known_path(&mut self, peer: Peer, ends: Ends) -> KnownPath {
        let (rtt, rtt_min_ns) = self.known_paths.get(monotonic_ns(), ends);
        KnownPath {
            rtt_smoothed_ns: rtt.smoothed_ns,
            rtt_variation_ns: rtt.variation_ns,
            rtt_min_ns,
            rate_max_bytes_per_s: self.lane_limits(peer.session).rate_max.bytes_per_s(),
        }
    }

    /// Closes a flow, its port before its lanes, so that no new packet reaches the lanes. An
    /// ephemeral job ends with its last flow.
    pub(super) fn close_flow(&mut self, index: usize) {
        let Some(flow) = self.flows.release(index) else { return };
        let scope = flow.route.scope();
        let FlowRecord { session, user, job, entry, status, .. } = flow;
        // The library learns of the end before the first packet leaves unpaced and unmarked.
        drop(status);
        self.free_port(entry.local_port);
        let lanes = || entry.lanes.into_iter().filter(|lane| *lane != LANE_NONE);
        if let Some(opened_ns) = lanes().filter_map(|lane| self.lanes.opened_ns(lane)).min() {
            let ends = Ends { user, local: entry.local, remote: entry.remote, scope };
            let rtts = lanes().map(|lane| self.datapath.lanes().rtt(lane));
            self.known_paths.note(monotonic_ns(), ends, opened_ns, rtts);
        }
        for lane in lanes() {
            self.lanes.close(self.datapath.lanes(), self.datapath.laws(), lane);
            self.pages.close_lane(lane);
            warn_on_error(self.datapath.remove_lane(lane));
        }
        // The ACK ring is unreachable now. It stays in the map until the next flow replaces it:
        // removing it would block the control loop.
        if let Some(session) = self.sessions.get_mut(session) {
            session.flows.retain(|kept| *kept != index);
        }
        match self.jobs.flow_closed(job) {
            true => self.remove_job(job),
            false => self.publish_job(job),
        }
    }
}

/// The session's progress map, created if needed, with the request's groups written to it.
fn progress_map(
    session: &mut Session,
    datapath: &Datapath,
    open: &SenderOpen,
) -> Result<(Rc<ProgressMap>, OwnedFd), Refusal> {
    let map = match &mut session.progress {
        Some(map) => map,
        none => none.insert(Rc::new(datapath.new_progress_map().map_err(internal)?)),
    };
    for &NewGroup { group, msr, messages, .. } in &open.groups {
        let msr_parts_per_billion = msr.parts_per_billion();
        map.write(group, GroupProgress { messages, msr_parts_per_billion, ..Default::default() });
    }
    let fd = map.as_fd().try_clone_to_owned().map_err(internal)?;
    Ok((map.clone(), fd))
}
