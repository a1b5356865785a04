//! How long a run goes on that doesn't come to its end by itself.
//!
//! After the last message a run goes on as long as jobs get on: a packet of data is *news* if it comes to
//! a job that doesn't have enough, with something that wasn't there. Two bounds, whatever a scheme does:
//!
//! - Without news for [`SILENCE_PS`], a run is over.
//! - A run that is hard at work for next to nothing is given up, and its outcome says so. That is pFabric where a line is a hundred
//!   times slower than others: its timeout is three round trips of a fabric whose lines are all alike and
//!   neither adapts nor is backed off (pFabric §4.2; its authors' simulator returns the constant as well),
//!   so everything that waits before the slow line is sent again, and again, at the full rate of the fast
//!   ones, and what little comes through are mostly repetitions and probes. No sooner than it has taken
//!   [`EVENTS`] events and [`LABOUR_PS`] for fewer than [`NEWS`] packets of news, it is given up: 400 Mbit/s
//!   of full packets bring more.
//!
//! Jobs that aren't done by then are counted as not done.

use crate::{
    engine::{MS, S},
    net::FlowId,
    simulation::Simulation,
};

/// Timeouts double, ATP's and DCTCP's up to some seconds. Where nothing happens it costs nothing to wait.
const SILENCE_PS: u64 = 10 * S;
/// A packet that crosses a fat tree and is acknowledged takes some 24 events, so a run that works takes
/// one in a hundred and forty of these for so many packets.
const EVENTS: u64 = 10_000_000;
const NEWS: u64 = 3_000;
/// Others' traffic makes many events too, while a job waits for a timeout.
const LABOUR_PS: u64 = 100 * MS;
/// How often it is looked.
const LOOK_PS: u64 = MS;

/// What a run was seen to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// When it is looked next.
    look_ps: u64,
    /// When the last message comes.
    last_ps: u64,
    /// When there were `NEWS` packets of news last, or it began to be looked.
    mark: Mark,
    is_given_up: bool,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_ps: u64,
    events: u64,
    news: u64,
}

impl Patience {
    /// With a run whose last message comes at `last_ps`, from now on.
    pub fn new(simulation: &Simulation, last_ps: u64) -> Self {
        let look_ps = simulation.now_ps();
        Self { look_ps, last_ps, mark: Mark::of(simulation, look_ps), is_given_up: false }
    }

    /// Whether a run was ended that was still at work.
    pub const fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Goes on until every flow has what it needs; returns whether that is so. Every so often it has
    /// somebody look.
    pub fn run(&mut self, simulation: &mut Simulation, look: impl Fn(&Simulation)) -> bool {
        loop {
            if simulation.run(self.look_ps) {
                return true;
            }
            if !self.goes_on(simulation) {
                return false;
            }
            look(simulation);
        }
    }

    /// Goes on until one more flow has what it needs, which is named.
    pub fn next_done(&mut self, simulation: &mut Simulation) -> Option<FlowId> {
        loop {
            let done = simulation.next_done(self.look_ps);
            if done.is_some() || !self.goes_on(simulation) {
                return done;
            }
        }
    }

    /// Everything until `look_ps` has happened. Whether there is more to wait for: until then, now.
    fn goes_on(&mut self, simulation: &Simulation) -> bool {
        let now = Mark::of(simulation, self.look_ps);
        let quiet_since_ps = simulation.news().at_ps.max(self.last_ps);
        let is_quiet = now.at_ps.saturating_sub(quiet_since_ps) >= SILENCE_PS;
        let mark = &mut self.mark;
        if now.news - mark.news >= NEWS || now.at_ps <= self.last_ps {
            *mark = now;
        }
        let is_in_vain = now.events - mark.events >= EVENTS && now.at_ps - mark.at_ps >= LABOUR_PS;
        self.is_given_up = is_in_vain && !is_quiet && !simulation.is_over();
        if is_quiet || is_in_vain || simulation.is_over() {
            return false;
        }
        self.look_ps += LOOK_PS;
        true
    }
}

impl Mark {
    fn of(simulation: &Simulation, at_ps: u64) -> Self {
        Self { at_ps, events: simulation.events(), news: simulation.news().packets }
    }
}
