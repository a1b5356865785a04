//! The registry of sending sockets, by their index in the datapath.

use super::{jobs::SessionId, refuse, status_page::StatusPage};
use approxlib::control::{Refusal, RefusalKind};
use atp_common::maps::FLOWS;
use atp_datapath::{ProgressMap, RouteQuery};
use slab::Slab;
use std::rc::Rc;

/// A registered sending socket.
pub struct FlowRecord {
    /// The session that owns it.
    pub session: SessionId,
    /// The session's user.
    pub uid: u32,
    /// The job's index.
    pub job: usize,
    /// The flow's entry in the datapath's map.
    pub entry: atp_common::maps::Flow,
    /// The progress map of its session. Here as well, because the control loop reads it for every
    /// lane.
    pub progress: Rc<ProgressMap>,
    /// The flow's route, for lookups.
    pub route: RouteQuery,
    /// The page in which its library reads the state of its lanes.
    pub status: StatusPage,
}

/// All flows of a host, at most [`FLOWS`]. An index is reserved first and filled later, because the
/// flow's ACK ring is created in between.
#[derive(Default)]
pub struct Flows(Slab<Option<FlowRecord>>);

impl Flows {
    /// Reserves an index for a new flow.
    pub fn reserve(&mut self) -> Result<usize, Refusal> {
        if self.0.len() >= FLOWS as usize {
            return refuse(
                RefusalKind::NoRoom,
                format!(
                    "this host has reached its limit of {FLOWS} sending sockets: end some jobs first"
                ),
            );
        }
        Ok(self.0.insert(None))
    }

    /// Puts a flow at a reserved index.
    pub fn fill(&mut self, index: usize, flow: FlowRecord) {
        if let Some(reserved) = self.0.get_mut(index) {
            *reserved = Some(flow);
        }
    }

    /// Frees an index and returns its flow.
    pub fn release(&mut self, index: usize) -> Option<FlowRecord> {
        self.0.try_remove(index).flatten()
    }

    /// The flow of an index.
    pub fn get(&self, index: usize) -> Option<&FlowRecord> {
        self.0.get(index)?.as_ref()
    }

    /// The flow of an index, to change it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut FlowRecord> {
        self.0.get_mut(index)?.as_mut()
    }

    /// The flows of a job, each with its session.
    pub fn of_job(&self, job: usize) -> Vec<(usize, SessionId)> {
        let flows = self.0.iter().filter_map(|(index, flow)| Some((index, flow.as_ref()?)));
        flows
            .filter(|(_, flow)| flow.job == job)
            .map(|(index, flow)| (index, flow.session))
            .collect()
    }
}
