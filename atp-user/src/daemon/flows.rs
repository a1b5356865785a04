//! Registered sending sockets, by the index that the datapath knows them by.

use super::{jobs::SessionId, refuse, status_page::StatusPage};
use crate::datapath::ProgressMap;
use approxlib::control::{Refusal, RefusalKind};
use atp_common::maps::FLOWS;
use slab::Slab;
use std::rc::Rc;

/// A registered sending socket.
pub struct FlowRecord {
    /// Whose it is.
    pub session: SessionId,
    /// Its job's index.
    pub job: usize,
    /// What the datapath knows of it.
    pub entry: atp_common::maps::Flow,
    /// What its library says of its groups: its session's, here as well for the control loop, which
    /// looks at it for every lane.
    pub progress: Rc<ProgressMap>,
    /// What its library may read of its lanes.
    pub status: StatusPage,
}

/// All flows of a host, at most [`FLOWS`]. An index is reserved before its flow is there: its ACK ring
/// has to be made meanwhile.
#[derive(Default)]
pub struct Flows(Slab<Option<FlowRecord>>);

impl Flows {
    /// An index for a new flow.
    pub fn reserve(&mut self) -> Result<usize, Refusal> {
        if self.0.len() >= FLOWS as usize {
            return refuse(
                RefusalKind::NoRoom,
                format!("this host has {FLOWS} sending sockets, the most it can have"),
            );
        }
        Ok(self.0.insert(None))
    }

    /// Gives a reserved index its flow.
    pub fn fill(&mut self, index: usize, flow: FlowRecord) {
        if let Some(reserved) = self.0.get_mut(index) {
            *reserved = Some(flow);
        }
    }

    /// Gives an index back, and the flow that had it.
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
