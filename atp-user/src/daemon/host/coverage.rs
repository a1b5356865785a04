//! Refuses flows whose packets don't pass the programs, and counts those that ceased to.

use super::{
    super::{
        connection::{Answer, Peer},
        refuse,
    },
    Host,
};
use approxlib::control::{CoverageStats, Refusal, RefusalKind, Reply};
use atp_datapath::{Route, RouteQuery};
use std::{
    io,
    time::{Duration, Instant},
};

/// The shortest time between two warnings about flows without coverage.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The interface of a lookup that failed, or the reason.
fn way_out(route: &io::Result<Route>) -> String {
    match route {
        Ok(route) => format!("by {}", route.name),
        Err(error) => format!("by an unknown interface ({error})"),
    }
}

impl Host {
    /// Counts flows without coverage, or those that came back.
    pub(super) fn count_coverage(&mut self, count: impl FnOnce(&mut CoverageStats)) {
        count(&mut self.coverage);
        self.pages.set_coverage(&self.coverage);
    }

    /// Checks the route of a new flow: its packets must pass the programs. `returns`: the flow
    /// existed before, and tries to return.
    ///
    /// # Errors
    /// The refusal, with the interface that isn't attached.
    pub fn check_coverage(
        &mut self,
        route: &io::Result<Route>,
        returns: bool,
    ) -> Result<(), Refusal> {
        let message = match route {
            Ok(route) if self.covers(route) => return Ok(()),
            Ok(route) => format!(
                "its packets leave by {0}, where this daemon's programs aren't attached: run the \
                 daemon with `--iface {0}`, if that interface carries Ethernet frames",
                route.name
            ),
            Err(error) if is_unreachable(error) => {
                format!("this host has no route to its peer ({error}): check the routes")
            }
            Err(error) => {
                // The counts will show whether the packets pass the programs.
                tracing::warn!(%error, "can't look up a route");
                return Ok(());
            }
        };
        // A flow that waits for its return asks again and again.
        if !returns {
            self.count_coverage(|coverage| {
                coverage.refused_flows += 1;
                coverage.last_reason = Some(format!("refused a job: {message}"));
            });
        }
        refuse(RefusalKind::NotCovered, message)
    }

    fn covers(&self, route: &Route) -> bool {
        let attached = self.datapath.attached_ifindexes();
        route.interfaces.iter().any(|index| attached.contains(index))
    }

    /// The routes of a session's sending sockets, to look them up on another thread.
    pub fn routes_of_session(&self, peer: Peer) -> Vec<RouteQuery> {
        let session = self.sessions.get(peer.session);
        let flows = session.into_iter().flat_map(|session| &session.flows);
        flows.filter_map(|flow| self.flows.get(*flow).map(|flow| flow.route)).collect()
    }

    /// Closes a session's sending sockets, because its library saw packets leave past the programs.
    /// `route` is the present route of one of them.
    pub fn not_covered(
        &mut self,
        peer: Peer,
        route: &io::Result<Route>,
        packets: u64,
        after_us: u64,
    ) -> Result<Answer, Refusal> {
        let flows = self.sessions.of_peer(peer)?.flows.clone();
        let Some(record) = flows.first().and_then(|flow| self.flows.get(*flow)) else {
            return refuse(
                RefusalKind::BadRequest,
                "this connection has no sending socket: register one first",
            );
        };
        let job = self.jobs.get(record.job).map_or(0, |job| job.id);
        let reason = format!(
            "job {job}: {packets} packets left past the programs, noticed after {} ms; now they \
             leave {}",
            after_us / 1_000,
            way_out(route)
        );
        // Any user can cause this line, and a slow log would delay the control loop.
        if self.coverage_warned.is_none_or(|at| at.elapsed() > WARNING_INTERVAL) {
            self.coverage_warned = Some(Instant::now());
            let way_out = way_out(route);
            tracing::warn!(job, packets, after_us, way_out, "lost coverage of a flow");
        }
        for flow in &flows {
            self.close_flow(*flow);
        }
        self.count_coverage(|coverage| {
            coverage.lost_flows += flows.len() as u64;
            coverage.last_reason = Some(reason);
        });
        Ok((Reply::Done, Vec::new()))
    }
}

fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), HostUnreachable | NetworkUnreachable)
}
