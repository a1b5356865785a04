//! Registering and letting go of sending sockets: a flow, its lane, its ACK ring.

use super::{
    super::{
        cgroup,
        connection::{Answer, Peer},
        flows::FlowRecord,
        internal,
        jobs::NewJob,
        lanes::{ActiveLane, NewLane},
        quota, refuse,
        run::monotonic_ns,
        sessions::Session,
        socket_addresses::{Endpoint, UdpEnds},
        status_page::StatusPage,
    },
    Host, warn_on_error,
};
use crate::datapath::{AckRings, Datapath, ProgressMap};
use approxlib::control::{GroupOpen, Refusal, RefusalKind, Reply, SenderGrant};
use atp_common::{
    laws::lane::Settings,
    maps::{ACK_RING_WORDS, Flow, GROUPS, GroupProgress, LANE_NONE, PortEntry},
    units::Msr,
};
use std::{
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

/// A `SenderOpen` request that makes sense.
pub struct SenderOpen {
    id: Option<u32>,
    /// Each with its MSR and N, 0 if unknown.
    groups: Vec<(u8, Msr, u32)>,
    local: Endpoint,
    remote: Endpoint,
}

impl SenderOpen {
    /// The parameters of a request, and what is known of the socket that came along.
    pub fn new(id: Option<u32>, groups: &[GroupOpen], ends: UdpEnds) -> Result<Self, Refusal> {
        let mut seen = [false; GROUPS];
        let once =
            groups.iter().all(|open| !std::mem::replace(&mut seen[usize::from(open.group)], true));
        if groups.is_empty() || !once {
            return refuse(RefusalKind::BadRequest, "a job has 1 to 256 groups, each id once");
        }
        let parsed = groups.iter().map(|open| {
            let msr = Msr::from_parts_per_billion(open.msr_parts_per_billion)?;
            Some((open.group, msr, open.messages))
        });
        let Some(groups) = parsed.collect() else {
            return refuse(RefusalKind::BadRequest, "an MSR is at most 1");
        };
        let UdpEnds { local, remote: Some(remote) } = ends else {
            return refuse(RefusalKind::BadRequest, "the socket handed over is not connected");
        };
        Ok(Self { id, groups, local, remote })
    }
}

impl Host {
    /// An index for a flow that is about to be opened, and where its ACK ring is made: elsewhere, for
    /// it takes longer than the control loop can wait.
    pub fn reserve_flow(&mut self) -> Result<(usize, AckRings), Refusal> {
        let rings = self.datapath.ack_rings().map_err(internal)?;
        Ok((self.flows.reserve()?, rings))
    }

    /// Opens a flow at a reserved index, or gives the index back.
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

    fn grant_flow(
        &mut self,
        open: &SenderOpen,
        flow: usize,
        ring: OwnedFd,
        peer: Peer,
    ) -> Result<Answer, Refusal> {
        let (job, made) = self.job_of_sender(open.id, peer)?;
        let granted = self.open_flow(job, open, flow, ring, peer);
        if granted.is_err() && made {
            self.remove_job(job);
        }
        granted
    }

    /// The job that a sender means: the one named, the one of its cgroup, or a new one that ends
    /// with its last socket. Says whether it was made.
    fn job_of_sender(&mut self, id: Option<u32>, peer: Peer) -> Result<(usize, bool), Refusal> {
        let cgroups = cgroup::ids_of_process(peer.pid);
        let own = self.jobs.of_cgroups(&cgroups).map(|(index, _)| index);
        let existing = match id {
            Some(id) if self.jobs.by_id(id).is_some() => {
                let (index, job) = self.jobs.owned(id, peer.uid)?;
                // Egress would drop every packet; say it now.
                if job.cgroup.is_some() && own != Some(index) {
                    return refuse(
                        RefusalKind::NotYours,
                        format!(
                            "job {id} belongs to a cgroup that this process is not in: start it there"
                        ),
                    );
                }
                Some(index)
            }
            Some(_) => None,
            None => own,
        };
        if let Some(own) = own
            && existing != Some(own)
        {
            let id = self.jobs.get(own).map_or(0, |job| job.id);
            return refuse(
                RefusalKind::NotYours,
                format!("this process is in the cgroup of job {id} and can send for no other"),
            );
        }
        match existing {
            Some(index) => Ok((index, false)),
            None => {
                let new = NewJob { id, uid: peer.uid, ephemeral: true, ..NewJob::default() };
                Ok((self.add_job(new)?, true))
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
        self.check_port(open.local.port)?;
        self.sessions.check_flows(peer.uid)?;
        self.check_lanes(open.groups.len(), peer.uid)?;
        // Zero is what a forger would try first.
        let cookie = rand::random_range(1..=u32::MAX);
        let grant = self.grant(job, cookie)?;
        let session = self.sessions.asking(peer)?;
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
        self.flows.fill(flow, FlowRecord { session: peer.session, job, entry, progress, status });
        session.flows.push(flow);
        if let Some(job) = self.jobs.get_mut(job) {
            job.flows += 1;
        }
        self.ports.insert(open.local.port, peer.session);
        if let Err(refusal) = self.start_flow(flow, open) {
            self.close_flow(flow);
            return Err(refusal);
        }
        Ok((Reply::Sender(grant), vec![ring, progress_fd, status_fd]))
    }

    /// Refuses more lanes to a user who would have too many.
    fn check_lanes(&self, more: usize, uid: u32) -> Result<(), Refusal> {
        let of_user = |lane: &ActiveLane| {
            let session = self.flows.get(lane.flow).map(|flow| flow.session);
            session.and_then(|session| self.sessions.get(session)).is_some_and(|s| s.uid == uid)
        };
        let held = self.lanes.from(0).filter(|(_, lane)| of_user(lane)).count();
        quota::check(uid, held + more - 1, quota::LANES_MAX, "lanes")
    }

    /// Opens the flow's lanes and makes them known to the datapath, its port last: from then on its
    /// packets are paced.
    fn start_flow(&mut self, index: usize, open: &SenderOpen) -> Result<(), Refusal> {
        let Some(flow) = self.flows.get_mut(index) else {
            return Err(internal("the flow is gone"));
        };
        for &(group, msr, _) in &open.groups {
            let lane = NewLane {
                job: flow.job,
                flow: index,
                group,
                settings: Settings { exact: msr.is_exact().into(), ..self.settings },
                tlr: msr.slack_share(),
                now_ns: monotonic_ns(),
            };
            let (lanes, laws) = (self.datapath.lanes(), self.datapath.laws());
            let Some(lane) = self.lanes.open(lanes, laws, &self.profile, lane) else {
                return refuse(RefusalKind::NoRoom, "this host has no room for so many lanes");
            };
            flow.entry.lanes[usize::from(group)] = lane;
            let rate_bytes_per_s = self.lanes.rate_bytes_per_s(lane).unwrap_or(0);
            self.datapath.add_lane(lane, rate_bytes_per_s).map_err(internal)?;
        }
        let entry = flow.entry;
        self.datapath.set_flow(index as u32, &entry).map_err(internal)?;
        let port = PortEntry::sender(index as u16);
        self.datapath.set_port(entry.local_port, port).map_err(internal)
    }

    fn grant(&self, job: usize, cookie: u32) -> Result<SenderGrant, Refusal> {
        let job = self.jobs.get(job).ok_or_else(|| internal("the job is gone"))?;
        Ok(SenderGrant {
            job: job.id,
            cookie,
            ack_ring_words: ACK_RING_WORDS,
            pacing: self.datapath.pacing_name().into(),
        })
    }

    /// Takes a flow out: its port before its lanes, so that nothing new reaches its lanes. A job made by sending
    /// ends with its last flow.
    pub(super) fn close_flow(&mut self, index: usize) {
        let Some(flow) = self.flows.release(index) else { return };
        let FlowRecord { session, job, entry, status, .. } = flow;
        // Its library learns it before the first packet leaves unpaced and unmarked.
        drop(status);
        self.free_port(entry.local_port);
        for lane in entry.lanes.into_iter().filter(|lane| *lane != LANE_NONE) {
            self.lanes.close(self.datapath.lanes(), self.datapath.laws(), lane);
            warn_on_error(self.datapath.remove_lane(lane));
        }
        // Nothing leads to its ACK ring any more. It stays until the next flow of this index gets its
        // own: taking it out would keep the control loop waiting.
        if let Some(session) = self.sessions.get_mut(session) {
            session.flows.retain(|kept| *kept != index);
        }
        if self.jobs.flow_closed(job) {
            self.remove_job(job);
        }
    }
}

/// The session's progress map, made if it has none, with what the request says of the groups in it.
fn progress_map(
    session: &mut Session,
    datapath: &Datapath,
    open: &SenderOpen,
) -> Result<(Rc<ProgressMap>, OwnedFd), Refusal> {
    let map = match &mut session.progress {
        Some(map) => map,
        none => none.insert(Rc::new(datapath.new_progress_map().map_err(internal)?)),
    };
    for &(group, msr, messages) in &open.groups {
        let msr_parts_per_billion = msr.parts_per_billion();
        map.write(group, GroupProgress { messages, msr_parts_per_billion, ..Default::default() });
    }
    let fd = map.as_fd().try_clone_to_owned().map_err(internal)?;
    Ok((map.clone(), fd))
}
