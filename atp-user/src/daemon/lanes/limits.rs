//! The operator's limits of a lane.

use super::{ActiveLane, LaneTable, REST, Tick};
use crate::daemon::policy::{Limits, Subject, split};
use atp_common::{
    laws::queue,
    units::{Rate, Share},
};
use std::{collections::HashMap, rc::Rc, time::Duration};

/// The use of a lane is measured over this time or more.
const MEASURED: Duration = Duration::from_millis(16);

/// The limits of one lane.
#[derive(Clone, Debug)]
pub struct LaneLimits {
    /// Rmax.
    pub rate_max: Rate,
    /// Rmax, or less: its part of the rate that it shares.
    pub rate_max_now: Rate,
    /// The highest target loss rate. A client can forge all that a target comes from.
    pub tlr_max: Share,
    queue_highest: u8,
    /// The rate that it shares with the other lanes of a subject.
    shared: Option<(Rc<Subject>, Rate)>,
}

/// The bytes that a lane has sent, and their rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    measured_ns: u64,
    sent_bytes: u64,
    rate: Rate,
}

/// The lanes that share a rate.
#[derive(Default)]
struct Shared {
    rate: Rate,
    lanes: Vec<usize>,
    used: Vec<Option<Rate>>,
}

impl LaneLimits {
    /// The limits of a lane on a line, for a client of `subject`, if the policy names one.
    pub fn of(limits: Limits, subject: Option<Subject>, line: Rate) -> Self {
        let shared = subject.map(Rc::new).zip(limits.shared_rate(line));
        let rate = shared.as_ref().map_or(Rate::MAX, |(_, rate)| *rate);
        let rate_max = limits.rate_max.min(line).min(rate);
        let Limits { queue_highest, msr_min, .. } = limits;
        let tlr_max = msr_min.slack_share();
        Self { rate_max, rate_max_now: rate_max, tlr_max, queue_highest, shared }
    }

    /// The queue to use for that of the law. Queue 0 is that of exact lanes only.
    pub fn queue(&self, of_law: u8) -> u8 {
        if of_law == queue::EXACT { of_law } else { of_law.max(self.queue_highest) }
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
    pub(super) fn divide_shares(&mut self, tick: &Tick<'_>) {
        let mut shares: HashMap<Rc<Subject>, Shared> = HashMap::new();
        for (index, lane) in &mut self.lanes {
            if let Some((subject, rate)) = lane.limits.shared.clone() {
                let used = lane.used(index as u16, tick);
                let shared = shares.entry(subject).or_default();
                shared.rate = rate;
                shared.lanes.push(index);
                shared.used.push(used);
            }
        }
        for Shared { rate, lanes, used } in shares.into_values() {
            for (index, part) in lanes.into_iter().zip(split(rate, &used)) {
                let limits = &mut self.lanes[index].limits;
                limits.rate_max_now = limits.rate_max.min(part);
            }
        }
    }
}

impl ActiveLane {
    /// The rate that the lane uses; `None` if it is at rest. Nothing counts the bytes of lanes
    /// whose laws the programs run: they use all that they may.
    fn used(&mut self, index: u16, tick: &Tick<'_>) -> Option<Rate> {
        if tick.laws.is_some() {
            let rests = tick.now_ns.saturating_sub(self.ran_ns) > REST.as_nanos() as u64;
            return (!rests).then_some(Rate::MAX);
        }
        let sent_bytes = self.sent(index, tick.lanes).bytes;
        let Use { measured_ns, sent_bytes: before, .. } = self.used;
        let elapsed_ns = tick.now_ns.saturating_sub(measured_ns);
        if elapsed_ns >= MEASURED.as_nanos() as u64 || self.is_at_rest {
            let rate = Rate::of(sent_bytes.saturating_sub(before), elapsed_ns);
            self.used = Use { measured_ns: tick.now_ns, sent_bytes, rate };
        }
        match self.used.rate.bytes_per_s() {
            _ if self.is_at_rest => None,
            // It has just begun.
            0 => Some(self.limits.rate_max_now),
            _ => Some(self.used.rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::units::Msr;

    #[test]
    fn of__least_of_all_limits() {
        let rate = Rate::from_bytes_per_s;
        let line = rate(1_000_000);
        let subject = Some(Subject::User(7));
        let free = LaneLimits::of(Limits::NONE, subject.clone(), line);
        assert_eq!((free.rate_max, free.tlr_max), (line, Share::ONE));
        assert_eq!([0, 1, 7].map(|queue| free.queue(queue)), [0, 1, 7]);
        let msr_min = Msr::from_parts_per_billion(750_000_000).unwrap();
        let quarter = Share::from_q16(1 << 14);
        let limits = Limits { msr_min, queue_highest: 4, port_share_max: quarter, ..Limits::NONE };
        let limited = LaneLimits::of(limits, subject.clone(), line);
        assert_eq!((limited.rate_max, limited.tlr_max), (rate(250_000), quarter));
        assert_eq!([0, 1, 7].map(|queue| limited.queue(queue)), [0, 4, 7]);
        let limits = Limits { rate_max: rate(100_000), ..limits };
        assert_eq!(LaneLimits::of(limits, subject, line).rate_max, rate(100_000));
    }
}
