//! The operator's limits of a lane.

use super::{ActiveLane, LaneTable};
use crate::daemon::policy::{Demand, Limits, Subject, split};
use atp_common::{
    laws::queue,
    maps::GroupProgress,
    units::{Msr, Rate},
};
use std::collections::HashMap;

/// The limits of one lane.
#[derive(Clone, Debug)]
pub struct LaneLimits {
    /// Rmax.
    pub rate_max: Rate,
    /// Rmax, or less: its part of the rate that it shares.
    pub rate_max_now: Rate,
    queue_highest: u8,
    msr_min: Msr,
    /// The rate that it shares with the other lanes of a subject.
    shared: Option<(Subject, Rate)>,
}

impl LaneLimits {
    /// The limits of a lane on a line, for a client of `subject`, if the policy names one.
    pub fn of(limits: Limits, subject: Option<Subject>, line: Rate) -> Self {
        let shared = subject.zip(limits.shared_rate(line));
        let rate = shared.as_ref().map_or(Rate::MAX, |(_, rate)| *rate);
        let rate_max = limits.rate_max.min(line).min(rate);
        let Limits { queue_highest, msr_min, .. } = limits;
        Self { rate_max, rate_max_now: rate_max, queue_highest, msr_min, shared }
    }

    /// The queue to use for that of the law. Queue 0 is that of exact lanes only.
    pub fn queue(&self, of_law: u8) -> u8 {
        if of_law == queue::EXACT { of_law } else { of_law.max(self.queue_highest) }
    }

    /// The progress of a sender, with the least MSR that the operator allows. The library writes
    /// the MSR to its progress map, and may write another one than it asked for.
    pub fn allowed(&self, progress: GroupProgress) -> GroupProgress {
        let msr_parts_per_billion = progress.msr().max(self.msr_min).parts_per_billion();
        GroupProgress { msr_parts_per_billion, ..progress }
    }
}

impl LaneTable {
    /// Replaces the limits of a lane.
    pub fn set_limits(&mut self, index: u16, limits: LaneLimits) {
        if let Some(lane) = self.lanes.get_mut(usize::from(index)) {
            let rate_max_now = match limits.shared {
                Some(_) => lane.limits.rate_max_now.min(limits.rate_max),
                None => limits.rate_max,
            };
            lane.limits = LaneLimits { rate_max_now, ..limits };
        }
    }

    /// The limits of a new lane, whose rate isn't above an equal share until the rate is divided
    /// anew.
    pub(super) fn with_first_part(&self, limits: LaneLimits) -> LaneLimits {
        let Some((subject, rate)) = &limits.shared else { return limits };
        let shares = |lane: &ActiveLane| {
            lane.limits.shared.as_ref().is_some_and(|(other, _)| other == subject)
        };
        let lanes = 1 + self.lanes.iter().filter(|(_, lane)| shares(lane)).count() as u64;
        let part = Rate::from_bytes_per_s((rate.bytes_per_s() / lanes).max(1));
        LaneLimits { rate_max_now: limits.rate_max.min(part), ..limits }
    }

    /// Divides the rates that lanes share. Without a policy there are none.
    pub(super) fn divide_shares(&mut self) {
        let mut shares: HashMap<&Subject, (Rate, Vec<usize>)> = HashMap::new();
        for (index, lane) in &self.lanes {
            if let Some((subject, rate)) = &lane.limits.shared {
                shares.entry(subject).or_insert((*rate, Vec::new())).1.push(index);
            }
        }
        let parts: Vec<(usize, Rate)> = shares
            .into_values()
            .flat_map(|(rate, lanes)| {
                let demands: Vec<_> = lanes.iter().map(|lane| self.lanes[*lane].demand()).collect();
                lanes.into_iter().zip(split(rate, &demands))
            })
            .collect();
        for (index, part) in parts {
            let limits = &mut self.lanes[index].limits;
            limits.rate_max_now = limits.rate_max.min(part);
        }
    }
}

impl ActiveLane {
    fn demand(&self) -> Demand {
        match self.is_at_rest {
            true => Demand::Rest,
            false => Demand::Rate(self.law.rate(), self.limits.rate_max_now),
        }
    }
}
