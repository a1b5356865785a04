//! Registering and letting go of sending sockets: a flow, its lane, its ACK ring.

use super::{
    super::{
        cgroup,
        connection::{Answer, Peer},
        internal,
        jobs::NewJob,
        lanes::NewLane,
        refuse,
        run::monotonic_ns,
        sessions::{FlowRecord, Session},
        socket_addresses::{Endpoint, UdpEnds},
        status_page::StatusPage,
    },
    Host, warn_on_error,
};
use crate::datapath::Datapath;
use approxlib::control::{Refusal, RefusalKind, Reply, SenderGrant};
use atp_common::{
    laws::lane::Settings,
    maps::{ACK_RING_WORDS, FLOWS, Flow, GROUPS, GroupProgress, LANE_NONE, PORT_SENDER, PortEntry},
    units::Msr,
};
use std::os::fd::{AsFd, OwnedFd};

/// The parameters of a `SenderOpen` request.
pub(super) struct SenderOpen {
    pub id: Option<u32>,
    pub group: u8,
    pub msr: Msr,
    /// N, 0 if unknown.
    pub messages: u32,
    pub ends: UdpEnds,
}

impl Host {
    pub(super) fn sender_open(&mut self, open: SenderOpen, peer: Peer) -> Result<Answer, Refusal> {
        let UdpEnds { local, remote: Some(remote) } = open.ends else {
            return refuse(RefusalKind::BadRequest, "the socket handed over is not connected");
        };
        let (job, made) = self.job_of_sender(open.id, peer)?;
        let granted = self.open_flow(job, &open, peer, local, remote);
        if granted.is_err() && made {
            self.remove_job(job);
        }
        granted
    }

    /// The job that a sender means: the one named, the one of its cgroup, or a new one that ends
    /// with its last socket. Says whether it was made.
    pub(super) fn job_of_sender(
        &mut self,
        id: Option<u32>,
        peer: Peer,
    ) -> Result<(usize, bool), Refusal> {
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

    pub(super) fn open_flow(
        &mut self,
        job: usize,
        open: &SenderOpen,
        peer: Peer,
        local: Endpoint,
        remote: Endpoint,
    ) -> Result<Answer, Refusal> {
        self.check_port(local.port)?;
        self.sessions.check_flows(peer.uid)?;
        if self.flows.len() >= FLOWS as usize {
            return refuse(
                RefusalKind::NoRoom,
                format!("this host has {FLOWS} sending sockets, the most it can have"),
            );
        }
        let grant = self.grant(job)?;
        let session = self.sessions.asking(peer)?;
        let progress = progress_map(session, &self.datapath, open)?;
        let entry = Flow {
            local: local.address,
            remote: remote.address,
            local_port: local.port,
            remote_port: remote.port,
            job_index: job as u32,
            lanes: [LANE_NONE; GROUPS],
        };
        let status = StatusPage::new().map_err(internal)?;
        let status_fd = status.as_fd().try_clone_to_owned().map_err(internal)?;
        let flow = self.flows.insert(FlowRecord { session: peer.session, job, entry, status });
        session.flows.push(flow);
        if let Some(job) = self.jobs.get_mut(job) {
            job.flows += 1;
        }
        self.ports.insert(local.port, peer.session);
        let ring = self.start_flow(flow, open);
        if ring.is_err() {
            self.close_flow(flow);
        }
        Ok((Reply::Sender(grant), vec![ring?, progress, status_fd]))
    }

    /// Opens the flow's lane and makes it known to the datapath, its port last: from then on its
    /// packets are paced.
    pub(super) fn start_flow(
        &mut self,
        index: usize,
        open: &SenderOpen,
    ) -> Result<OwnedFd, Refusal> {
        let Some(flow) = self.flows.get_mut(index) else {
            return Err(internal("the flow is gone"));
        };
        let lane = NewLane {
            job: flow.job,
            flow: index,
            group: open.group,
            settings: Settings { exact: open.msr.is_exact(), ..self.settings },
            tlr: open.msr.slack_share(),
            now_ns: monotonic_ns(),
        };
        let Some(lane) = self.lanes.open(self.datapath.lanes(), &self.profile, lane) else {
            return refuse(RefusalKind::NoRoom, "this host has no room for another lane");
        };
        flow.entry.lanes[usize::from(open.group)] = lane;
        let entry = flow.entry;
        let rate_bytes_per_s = self.lanes.rate_bytes_per_s(lane).unwrap_or(0);
        self.datapath.add_lane(lane, rate_bytes_per_s).map_err(internal)?;
        let ring = self.datapath.new_ack_ring(index as u32).map_err(internal)?;
        self.datapath.set_flow(index as u32, &entry).map_err(internal)?;
        let port = PortEntry { role: PORT_SENDER, reserved: 0, flow: index as u16 };
        self.datapath.set_port(entry.local_port, port).map_err(internal)?;
        Ok(ring)
    }

    pub(super) fn grant(&self, job: usize) -> Result<SenderGrant, Refusal> {
        let job = self.jobs.get(job).ok_or_else(|| internal("the job is gone"))?;
        Ok(SenderGrant {
            job: job.id,
            cookie: job.cookie,
            ack_ring_words: ACK_RING_WORDS,
            pacing: self.datapath.pacing_name().into(),
        })
    }

    /// Takes a flow out: its port first, so that nothing new reaches its lanes. A job made by sending
    /// ends with its last flow.
    pub(super) fn close_flow(&mut self, index: usize) {
        let Some(flow) = self.flows.try_remove(index) else { return };
        self.free_port(flow.entry.local_port);
        for lane in flow.entry.lanes.into_iter().filter(|lane| *lane != LANE_NONE) {
            self.lanes.close(self.datapath.lanes(), lane);
            warn_on_error(self.datapath.remove_lane(lane));
        }
        warn_on_error(self.datapath.remove_ack_ring(index as u32));
        if let Some(session) = self.sessions.get_mut(flow.session) {
            session.flows.retain(|kept| *kept != index);
        }
        if self.jobs.flow_closed(flow.job) {
            self.remove_job(flow.job);
        }
    }
}

/// The session's progress map, made if it has none, with what the request says of the group in it.
fn progress_map(
    session: &mut Session,
    datapath: &Datapath,
    open: &SenderOpen,
) -> Result<OwnedFd, Refusal> {
    let map = match &mut session.progress {
        Some(map) => map,
        none => none.insert(datapath.new_progress_map().map_err(internal)?),
    };
    let (messages, msr_parts_per_billion) = (open.messages, open.msr.parts_per_billion());
    let known = GroupProgress { messages, msr_parts_per_billion, ..GroupProgress::default() };
    map.write(open.group, known);
    map.as_fd().try_clone_to_owned().map_err(internal)
}
