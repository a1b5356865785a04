//! A planner while Python computes the answers of a look.

use approx_answers::{Action, Planner};

/// A planner, and the sources that changed while a look runs on a copy of it.
pub struct Plan {
    planner: Planner,
    /// `None` while no look runs.
    changes: Option<Vec<Change>>,
}

/// A call about a source.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Started { stratum: u32, msr: f64 },
    Known { stratum: u32 },
    Ending { stratum: u32 },
    Ended { stratum: u32 },
}

impl Plan {
    pub fn new(planner: Planner) -> Self {
        Self { planner, changes: None }
    }

    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The first request to a source that starts.
    pub fn change(&mut self, change: Change) -> Option<Action> {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
        apply(&mut self.planner, change)
    }

    /// None is due while one runs: each costs confidence.
    pub fn is_look_due(&self, messages: u64) -> bool {
        self.changes.is_none() && self.planner.is_look_due(messages)
    }

    /// A copy to look with; `None` while another look runs.
    pub fn begin_look(&mut self) -> Option<Planner> {
        if self.changes.is_some() {
            return None;
        }
        self.changes = Some(Vec::new());
        Some(self.planner.clone())
    }

    /// Keeps the copy. The look knows nothing of sources that changed since.
    pub fn end_look(&mut self, planner: Planner) {
        self.planner = planner;
        for change in self.changes.take().into_iter().flatten() {
            apply(&mut self.planner, change);
        }
    }
}

fn apply(planner: &mut Planner, change: Change) -> Option<Action> {
    match change {
        Change::Started { stratum, msr } => return planner.source_started(stratum, msr),
        Change::Known { stratum } => planner.source_known(stratum),
        Change::Ending { stratum } => planner.source_ending(stratum),
        Change::Ended { stratum } => planner.source_ended(stratum),
    }
    None
}
