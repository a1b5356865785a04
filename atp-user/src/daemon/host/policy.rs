//! Applies the operator's policy to jobs and lanes.

use super::{
    super::{
        connection::{Peer, SessionId},
        internal,
        lanes::LaneLimits,
        policy::{Identity, Limits, Policy, Subject},
    },
    Host,
};
use approxlib::control::Refusal;
use atp_common::{maps::LANE_NONE, units::Msr};
use std::rc::Rc;

impl Host {
    /// Replaces the policy. Jobs and lanes stay; open lanes follow the new limits.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        for flow in self.flows.iter() {
            let limits = self.lane_limits(flow.session);
            for lane in flow.entry.lanes.into_iter().filter(|lane| *lane != LANE_NONE) {
                self.lanes.set_limits(lane, limits.clone());
            }
        }
    }

    /// Whether a client may have another job.
    pub(super) fn check_new_job(&mut self, client: &Identity) -> Result<(), Refusal> {
        self.check_jobs(client).or_else(|_| {
            // A client that ended just before this request may not have been noticed yet.
            for session in self.sessions.closed() {
                self.close_session(session);
            }
            self.check_jobs(client)
        })
    }

    fn check_jobs(&self, client: &Identity) -> Result<(), Refusal> {
        let count = |subject: &Subject| {
            let subjects = self.jobs.clients().filter_map(|other| self.policy.of(other));
            subjects.filter(|(other, _)| other == subject).count()
        };
        self.policy.check_jobs(client, count)
    }

    /// Whether a client may open lanes with these MSRs.
    pub(super) fn check_msrs(
        &self,
        peer: Peer,
        mut msrs: impl Iterator<Item = Msr>,
    ) -> Result<(), Refusal> {
        let client = self.client(peer)?;
        msrs.try_for_each(|msr| self.policy.check_msr(&client, msr))
    }

    /// The limits of the lanes of a connection.
    pub(super) fn lane_limits(&self, session: SessionId) -> LaneLimits {
        let session = self.sessions.get(session);
        let found = session.and_then(|session| self.policy.of(session.connection.client()));
        let (subject, limits) = found.unzip();
        LaneLimits::of(limits.unwrap_or(Limits::NONE), subject, self.settings.rate_max)
    }

    pub(super) fn client(&self, peer: Peer) -> Result<Rc<Identity>, Refusal> {
        let session = self.sessions.get(peer.session);
        let session = session.ok_or_else(|| internal("the connection has ended"))?;
        Ok(session.connection.client().clone())
    }
}
