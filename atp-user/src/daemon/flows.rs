//! The registry of sending sockets, by their index in the datapath.

use super::{
    connection::SessionId,
    quota::{Budget, Held},
    status_page::StatusPage,
    tenant::Tenant,
};
use approxlib::control::{JobUser, Refusal};
use atp_common::maps::FLOWS;
use atp_datapath::{ProgressMap, RouteQuery};
use slab::Slab;
use std::rc::Rc;

/// A registered sending socket.
pub struct FlowRecord {
    /// The session that owns it.
    pub session: SessionId,
    /// The session's user.
    pub user: JobUser,
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
    /// The places of its lanes in the budget.
    #[expect(dead_code, reason = "held until it is dropped")]
    pub lanes: Held,
}

/// All flows of a host, at most [`FLOWS`]. An index is reserved first and filled later, because the
/// flow's ACK ring is created in between.
pub struct Flows {
    entries: Slab<Entry>,
    budget: Budget,
}

struct Entry {
    _place: Held,
    /// `None` as long as the index is only reserved.
    flow: Option<FlowRecord>,
}

impl Default for Flows {
    fn default() -> Self {
        Self { entries: Slab::new(), budget: Budget::new("sending sockets", FLOWS as usize) }
    }
}

impl Flows {
    /// Reserves an index for a new flow.
    pub fn reserve(&mut self, owner: Tenant) -> Result<usize, Refusal> {
        let place = self.budget.take(owner, 1)?;
        Ok(self.entries.insert(Entry { _place: place, flow: None }))
    }

    /// Puts a flow at a reserved index.
    pub fn fill(&mut self, index: usize, flow: FlowRecord) {
        if let Some(reserved) = self.entries.get_mut(index) {
            reserved.flow = Some(flow);
        }
    }

    /// Frees an index and returns its flow.
    pub fn release(&mut self, index: usize) -> Option<FlowRecord> {
        self.entries.try_remove(index)?.flow
    }

    /// The flow of an index.
    pub fn get(&self, index: usize) -> Option<&FlowRecord> {
        self.entries.get(index)?.flow.as_ref()
    }

    /// The flow of an index, to change it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut FlowRecord> {
        self.entries.get_mut(index)?.flow.as_mut()
    }

    /// All flows.
    pub fn iter(&self) -> impl Iterator<Item = &FlowRecord> {
        self.entries.iter().filter_map(|(_, entry)| entry.flow.as_ref())
    }

    /// The flows of a job, each with its session.
    pub fn of_job(&self, job: usize) -> Vec<(usize, SessionId)> {
        let flows =
            self.entries.iter().filter_map(|(index, entry)| Some((index, entry.flow.as_ref()?)));
        flows
            .filter(|(_, flow)| flow.job == job)
            .map(|(index, flow)| (index, flow.session))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve__takes_from_the_budget_of_the_owner() {
        let (mut flows, owner) = (Flows::default(), Tenant::User(1000));
        let reserved: Vec<_> = (0..FLOWS / 4).map(|_| flows.reserve(owner).unwrap()).collect();
        let said = flows.reserve(owner).unwrap_err().message;
        assert!(said.starts_with("user 1000 has 512 sending sockets, the limit"), "{said}");
        flows.reserve(Tenant::User(1001)).unwrap();
        flows.release(reserved[0]);
        flows.reserve(owner).unwrap();
    }
}
