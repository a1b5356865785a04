//! Background traffic that comes after a job (NetApprox §7.1.2: "we shift the background traffic to
//! queue 3 which starts to compete with the foreground job again").

use super::Point;
use crate::scheme::{Probe, background::Schedule};
use atp_common::laws::queue;

/// When background traffic comes after a job: a rule instead of a table of times, which would have to be
/// fitted to each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chase {
    /// For how long altogether, since it came into its queue, the job's target loss rate has asked for a
    /// higher one, picoseconds. Not without a break: beside nobody a job hovers between two queues.
    pub after_ps: u64,
    /// The highest queue that it comes into.
    pub highest: u8,
}

/// All of a point's background traffic, after one of its jobs.
pub(super) struct Chaser {
    rule: Chase,
    /// By queue.
    dscps: Vec<u8>,
    schedules: Vec<Schedule>,
    queue: u8,
    away_ps: u64,
    looked_ps: u64,
}

impl Chaser {
    /// Background traffic in the queue in which it begins; `None` if there isn't any then.
    pub(super) fn new(rule: Chase, point: &Point, schedules: Vec<Schedule>) -> Option<Self> {
        let looked_ps = point.begins_ps;
        let queue = point.background_queue(looked_ps)?;
        let dscps = (0..=queue::LAST).map(|queue| point.profile.dscp_of_queue(queue)).collect();
        Some(Self { rule, dscps, schedules, queue, away_ps: 0, looked_ps })
    }

    /// Where it goes now.
    pub(super) fn queue(&self) -> u8 {
        self.queue
    }

    /// What the job's laws have come to by `now_ps`.
    pub(super) fn look(&mut self, now_ps: u64, job: &Probe) {
        let lasted_ps = now_ps - self.looked_ps;
        self.looked_ps = now_ps;
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
    fn look__comes_when_the_job_was_away_for_long_enough_altogether() {
        let background: Background = "0.5@4".parse().unwrap();
        let point = Point { background: vec![background], ..Point::default() };
        let schedule = Schedule::new(vec![(0, 40)]);
        let rule = Chase { after_ps: 30 * US, highest: 2 };
        let mut chaser = Chaser::new(rule, &point, vec![schedule.clone()]).unwrap();
        let profile = &point.profile;
        // Every 10 us: the queue of the job's TLR, and that of background traffic afterwards.
        let looks = [
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
        for (now_us, (wanted, queue)) in (10..).step_by(10).zip(looks) {
            chaser.look(now_us * US, &job(wanted));
            assert_eq!(chaser.queue(), queue, "at {now_us} us");
            let dscp = if queue == 4 { 40 } else { profile.dscp_of_queue(queue) };
            assert_eq!(schedule.dscp(now_us * US), dscp, "at {now_us} us");
        }
    }

    #[test]
    fn new__nothing_to_come_after_a_job() {
        let rule = Chase { after_ps: US, highest: 1 };
        assert!(Chaser::new(rule, &Point::default(), Vec::new()).is_none());
    }
}
