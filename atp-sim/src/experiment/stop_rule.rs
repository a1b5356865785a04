//! Ends a run that does not end by itself.
//!
//! After the last message, a run continues while its jobs make progress. A data packet is
//! *progress* if it brings something new to a job that is not complete. Two limits apply under
//! every scheme:
//!
//! - Without progress for [`IDLE_LIMIT_PS`], the run is over.
//! - A run with many events and almost no progress is given up, and its outcome says so.
//!
//! The second limit is for pFabric on networks where some lines are a hundred times slower than
//! others. Its timeout is constant: three round trips of a fabric of equal lines (pFabric §4.2, and
//! its authors' simulator). Packets that wait for a slow line are therefore retransmitted at full
//! rate, and most packets that arrive are repetitions and probes. A run is given up after
//! [`EVENTS`] events and [`BUSY_LIMIT_PS`] with fewer than [`PROGRESS_PACKETS`] packets of
//! progress. A goodput of 400 Mbit/s would exceed that.
//!
//! Jobs that are incomplete by then count as not complete.

use crate::{
    engine::{MS, S},
    net::FlowId,
    simulation::Simulation,
};

/// Timeouts double, up to some seconds for ATP and DCTCP, so the limit must exceed them. An idle
/// simulation costs nothing.
const IDLE_LIMIT_PS: u64 = 10 * S;
/// A packet that crosses a fat tree and is acknowledged takes about 24 events. A normal run
/// therefore makes [`PROGRESS_PACKETS`] packets of progress in a 140th of these events.
const EVENTS: u64 = 10_000_000;
const PROGRESS_PACKETS: u64 = 3_000;
/// The minimum time: background traffic may make many events while a job waits for a timeout.
const BUSY_LIMIT_PS: u64 = 100 * MS;
/// The time between two checks.
const CHECK_INTERVAL_PS: u64 = MS;

/// The state of the rule during one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopRule {
    /// The time of the next check.
    check_ps: u64,
    /// The time of the last message.
    last_ps: u64,
    /// The last time of enough progress, or the first check.
    mark: Mark,
    is_given_up: bool,
}

/// Time, events and progress at one check.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_ps: u64,
    events: u64,
    progress_packets: u64,
}

impl StopRule {
    /// Starts the rule now, for a run whose last message arrives at `last_ps`.
    pub fn new(simulation: &Simulation, last_ps: u64) -> Self {
        let check_ps = simulation.now_ps();
        Self { check_ps, last_ps, mark: Mark::of(simulation, check_ps), is_given_up: false }
    }

    /// Whether the rule ended a run that still had many events.
    pub const fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Runs until every flow is complete or the rule ends the run. Returns whether every flow is
    /// complete. Calls `on_check` at each check.
    pub fn run(&mut self, simulation: &mut Simulation, on_check: impl Fn(&Simulation)) -> bool {
        loop {
            if simulation.run(self.check_ps) {
                return true;
            }
            if !self.continues(simulation) {
                return false;
            }
            on_check(simulation);
        }
    }

    /// Runs until one more flow is complete, and returns it; `None` if the rule ends the run.
    pub fn next_done(&mut self, simulation: &mut Simulation) -> Option<FlowId> {
        loop {
            let done = simulation.next_done(self.check_ps);
            if done.is_some() || !self.continues(simulation) {
                return done;
            }
        }
    }

    /// Decides, at `check_ps`, whether the run continues.
    fn continues(&mut self, simulation: &Simulation) -> bool {
        let now = Mark::of(simulation, self.check_ps);
        let idle_since_ps = simulation.useful_arrivals().at_ps.max(self.last_ps);
        let is_idle = now.at_ps.saturating_sub(idle_since_ps) >= IDLE_LIMIT_PS;
        let mark = &mut self.mark;
        if now.progress_packets - mark.progress_packets >= PROGRESS_PACKETS
            || now.at_ps <= self.last_ps
        {
            *mark = now;
        }
        let is_stuck =
            now.events - mark.events >= EVENTS && now.at_ps - mark.at_ps >= BUSY_LIMIT_PS;
        self.is_given_up = is_stuck && !is_idle && !simulation.is_over();
        if is_idle || is_stuck || simulation.is_over() {
            return false;
        }
        self.check_ps += CHECK_INTERVAL_PS;
        true
    }
}

impl Mark {
    fn of(simulation: &Simulation, at_ps: u64) -> Self {
        Self {
            at_ps,
            events: simulation.events(),
            progress_packets: simulation.useful_arrivals().packets,
        }
    }
}
