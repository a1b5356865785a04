//! Moves background traffic to the queue of a job (NetApprox §7.1.2: "we shift the background
//! traffic to queue 3 which starts to compete with the foreground job again").

use super::Point;
use crate::scheme::{Probe, background::Schedule};
use atp_common::laws::queue;

/// The rule by which background traffic follows a job. A fixed schedule would have to be fitted to
/// each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveBackground {
    /// The total time for which the job's target loss rate must ask for a higher queue before
    /// background traffic follows, picoseconds. The time may have gaps: a job without competition
    /// alternates between two queues.
    pub after_ps: u64,
    /// The highest queue that background traffic moves to.
    pub highest: u8,
}

/// Moves all background traffic of a point when one of its jobs moves.
pub(super) struct Mover {
    rule: AdaptiveBackground,
    /// The DSCP of each queue.
    dscps: Vec<u8>,
    schedules: Vec<Schedule>,
    queue: u8,
    away_ps: u64,
    observed_ps: u64,
}

impl Mover {
    /// Starts with background traffic in its first queue; `None` if there is no background traffic.
    pub(super) fn new(
        rule: AdaptiveBackground,
        point: &Point,
        schedules: Vec<Schedule>,
    ) -> Option<Self> {
        let observed_ps = point.begins_ps;
        let queue = point.background_queue(observed_ps)?;
        let dscps = (0..=queue::LAST).map(|queue| point.profile().dscp_of_queue(queue)).collect();
        Some(Self { rule, dscps, schedules, queue, away_ps: 0, observed_ps })
    }

    /// The present queue of background traffic.
    pub(super) fn queue(&self) -> u8 {
        self.queue
    }

    /// Takes the state of the job's laws at `now_ps`, and moves background traffic if the rule
    /// requires it.
    pub(super) fn observe(&mut self, now_ps: u64, job: &Probe) {
        let lasted_ps = now_ps - self.observed_ps;
        self.observed_ps = now_ps;
        let wanted = queue::of_target_loss_rate(job.tlr);
        if wanted >= self.queue || self.queue <= self.rule.highest {
            return;
        }
        self.away_ps += lasted_ps;
        if self.away_ps >= self.rule.after_ps {
            (self.queue, self.away_ps) = (wanted.max(self.rule.highest), 0);
            let dscp = self.dscps[usize::from(self.queue)];
            self.schedules.iter().for_each(|schedule| schedule.change(now_ps, dscp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::US, workload::Background};
    use atp_common::units::{Rate, Share};

    fn job(eighths: u32) -> Probe {
        Probe {
            tlr: Share::from_q16(eighths << 13),
            loss: Share::ZERO,
            rate: Rate::from_bytes_per_s(1),
            queue: 1,
            epochs_evaluated: 0,
            sent_bytes: 0,
        }
    }

    #[test]
    fn observe__moves_when_the_job_was_away_long_enough_in_total() {
        let background: Background = "0.5@4".parse().unwrap();
        let point = Point { background: vec![background], ..Point::default() };
        let schedule = Schedule::new(vec![(0, 40)]);
        let rule = AdaptiveBackground { after_ps: 30 * US, highest: 2 };
        let mut mover = Mover::new(rule, &point, vec![schedule.clone()]).unwrap();
        let profile = point.profile();
        // Every 10 us: the queue of the job's TLR, and the queue of background traffic afterwards.
        let observations = [
            (4, 4),
            (3, 4),
            (4, 4),
            (3, 4),
            (5, 4),
            (3, 3),
            (3, 3),
            (2, 3),
            (1, 3),
            (1, 2),
            (1, 2),
            (1, 2),
            (1, 2),
        ];
        for (now_us, (wanted, queue)) in (10..).step_by(10).zip(observations) {
            mover.observe(now_us * US, &job(wanted));
            assert_eq!(mover.queue(), queue, "at {now_us} us");
            let dscp = if queue == 4 { 40 } else { profile.dscp_of_queue(queue) };
            assert_eq!(schedule.dscp(now_us * US), dscp, "at {now_us} us");
        }
    }

    #[test]
    fn new__needs_background_traffic() {
        let rule = AdaptiveBackground { after_ps: US, highest: 1 };
        assert!(Mover::new(rule, &Point::default(), Vec::new()).is_none());
    }
}
