//! Applies the operator's policy to jobs and lanes.

use super::{
    super::{
        connection::{Peer, SessionId},
        internal,
        lanes::LaneLimits,
        policy::{Forbidden, Identity, Limits, Policy, Subject},
        refuse,
    },
    Host,
};
use approxlib::control::{Refusal, RefusalKind};
use atp_common::{maps::LANE_NONE, units::Msr};
use std::{
    rc::Rc,
    time::{Duration, Instant},
};

/// The shortest time between two lines about refusals.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Host {
    /// Replaces the policy. Jobs and lanes stay; open lanes follow the new limits.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        let unknown = self.datapath.reported_speeds().len() < self.datapath.interfaces().len();
        if self.policy.has_shares() && self.rate_max.is_none() && unknown {
            tracing::warn!(
                line_bytes_per_s = self.settings.rate_max.bytes_per_s(),
                "an interface reports no speed: state --rate-max, of which the policy's \
                 port_share_max is a part"
            );
        }
        for flow in self.flows.iter() {
            let limits = self.lane_limits(flow.session);
            for lane in flow.entry.lanes.into_iter().filter(|lane| *lane != LANE_NONE) {
                self.lanes.set_limits(lane, limits.clone());
            }
        }
    }

    /// Whether a client may have another job. `continues`: one that sends in userspace already.
    pub(super) fn check_new_job(
        &mut self,
        client: &Identity,
        continues: bool,
    ) -> Result<(), Refusal> {
        let checked = self.check_jobs(client).or_else(|_| {
            // A client that ended just before this request may not have been noticed yet.
            for session in self.sessions.closed() {
                self.close_session(session);
            }
            self.check_jobs(client)
        });
        match checked {
            // As after the other limits, the library asks again, which is no news.
            Err(Forbidden { may_pass: true, message, .. }) if continues => {
                refuse(RefusalKind::NoRoom, message)
            }
            checked => checked.map_err(|forbidden| self.note(forbidden)),
        }
    }

    /// Counts and logs a refusal.
    fn note(&mut self, forbidden: Forbidden) -> Refusal {
        self.pages.count_refusal(forbidden.limit);
        // Any user can cause this line, and a slow log would delay the control loop.
        if self.policy_logged.is_none_or(|at| at.elapsed() > LOG_INTERVAL) {
            self.policy_logged = Some(Instant::now());
            tracing::info!("refused by the policy: {}", forbidden.message);
        }
        forbidden.into()
    }

    fn check_jobs(&self, client: &Identity) -> Result<(), Forbidden> {
        let count = |subject: &Subject| {
            let subjects = self.jobs.clients().filter_map(|other| self.policy.of(other));
            subjects.filter(|(other, _)| other == subject).count()
        };
        self.policy.check_jobs(client, count)
    }

    /// Whether a client may open lanes with these MSRs.
    pub(super) fn check_msrs(
        &mut self,
        peer: Peer,
        mut msrs: impl Iterator<Item = Msr>,
    ) -> Result<(), Refusal> {
        let client = self.client(peer)?;
        msrs.try_for_each(|msr| self.policy.check_msr(&client, msr))
            .map_err(|forbidden| self.note(forbidden))
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
