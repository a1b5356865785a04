//! Figure 10: one job's control laws over time, beside background traffic that changes its queue
//! (NetApprox §7.1.2).

use crate::{
    engine::{MS, US},
    experiment::{Pattern, Place, Point, Sample},
    net::topology::Star,
    workload::{Background, Between, Interval},
};

/// A job over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The paper's number.
    pub number: u32,
    /// What it shows.
    pub title: &'static str,
    /// What the paper says about it.
    pub claim: &'static str,
    /// What is run. Its first job is looked at.
    pub point: Point,
    /// From sample to sample.
    pub every_ps: u64,
    /// The longest that it goes on.
    pub end_ps: u64,
}

impl Timeline {
    /// Figure 10: hosts 1 to 4 send to host 0, the first of them a job of MSR 0.5, the others background
    /// traffic.
    ///
    /// Two lines' worth of it is the least that lets a job of MSR 0.5 lose more than it may. Its packets
    /// are as long as the job's messages are on the average: queues count bytes, and where full packets
    /// compete for the last of them, short ones find room. It changes its queue when the job has left
    /// that queue and has gone on for a while.
    pub fn figure_10() -> Self {
        let end_ps = 100 * MS;
        let interval = |from_ps, until_ps, queue| Interval { from_ps, until_ps, queue };
        let (second_ps, third_ps) = (4_100 * US, 8_450 * US);
        let background = Background {
            between: Between::Pairs(vec![(2, 0), (3, 0), (4, 0)]),
            share: 0.75,
            payload_bytes: 188,
            intervals: vec![
                interval(0, second_ps, 4),
                interval(second_ps, third_ps, 3),
                interval(third_ps, end_ps, 2),
            ],
        };
        let point = Point {
            place: Place::Star(Star { hosts: 5 }),
            pattern: Pattern::Incast(Some(1)),
            load: 1.0,
            duration_ps: 1_500 * US,
            background: vec![background],
            ..Point::default()
        };
        Self {
            number: 10,
            title: "A job of MSR 0.5 beside background traffic in queue 4, then 3, then 2",
            claim: "the job leaves each queue for a higher one when background traffic comes into it, and loses less there",
            point,
            every_ps: 50 * US,
            end_ps,
        }
    }

    /// Runs it.
    pub fn run(&self) -> Vec<Sample> {
        self.point.timeline(0, self.every_ps, self.end_ps)
    }

    /// Where background traffic goes at a time; `None` if there is none.
    pub fn background_queue(&self, at_ps: u64) -> Option<u8> {
        let mut intervals = self.point.background.iter().flat_map(|kind| &kind.intervals);
        let now = intervals.find(|interval| (interval.from_ps..interval.until_ps).contains(&at_ps));
        now.map(|interval| interval.queue)
    }

    /// What the samples come to, from each change of background traffic to the next.
    pub fn phases(&self, samples: &[Sample]) -> Vec<Phase> {
        let mut phases: Vec<Vec<&Sample>> = Vec::new();
        for sample in samples {
            let background = |sample: &Sample| self.background_queue(sample.at_ps);
            match phases.last_mut() {
                Some(phase) if background(phase[0]) == background(sample) => phase.push(sample),
                _ => phases.push(vec![sample]),
            }
        }
        phases
            .iter()
            .flat_map(|phase| {
                // Before the job has left that queue, and after.
                let queue = self.background_queue(phase[0].at_ps);
                let left = phase.iter().position(|sample| Some(sample.tlr_queue()) < queue);
                let (beside, after) = phase.split_at(left.unwrap_or(phase.len()));
                [beside, after].map(|part| Phase::of(queue, part))
            })
            .flatten()
            .collect()
    }
}

/// A time in which background traffic stays in one queue and the job's TLR on one side of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Where background traffic goes.
    pub background_queue: Option<u8>,
    /// When it ends, microseconds.
    pub until_us: f64,
    /// The mean queue of the job.
    pub queue: f64,
    /// The mean target loss rate.
    pub tlr: f64,
    /// The mean loss of the epochs that were looked at.
    pub loss: f64,
    /// What the rate allows, on the average, Gbit/s.
    pub rate_gbit_per_s: f64,
    /// What left, Gbit/s.
    pub sent_gbit_per_s: f64,
}

impl Phase {
    fn of(background_queue: Option<u8>, samples: &[&Sample]) -> Option<Self> {
        let last = samples.last()?;
        let mean = |of: &dyn Fn(&Sample) -> f64| {
            samples.iter().map(|sample| of(sample)).sum::<f64>() / samples.len() as f64
        };
        Some(Self {
            background_queue,
            until_us: last.at_ps as f64 / US as f64,
            queue: mean(&|sample| f64::from(sample.queue)),
            tlr: mean(&Sample::tlr),
            loss: mean(&Sample::loss),
            rate_gbit_per_s: mean(&Sample::rate_gbit_per_s),
            sent_gbit_per_s: mean(&Sample::sent_gbit_per_s),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NetApprox §7.1.2: where background traffic is, the job loses more than its target, which
    /// therefore falls; then it goes to a higher queue, loses less and sends more.
    #[test]
    fn figure_10__the_job_leaves_the_queue_of_background_traffic() {
        let timeline = Timeline::figure_10();
        let samples = timeline.run();
        let phases = timeline.phases(&samples);
        let queues: Vec<_> = phases.iter().map(|phase| phase.background_queue).collect();
        let expected: Vec<_> = [4, 4, 3, 3, 2].into_iter().map(Some).collect();
        assert_eq!(queues, expected, "{phases:?}");
        // The job is done before its TLR is that of queue 1; starved epochs bring it there before.
        assert!(phases[4].queue < 2.0, "{phases:?}");
        for pair in phases.chunks_exact(2) {
            let [beside, after] = pair else { panic!("{phases:?}") };
            assert!(after.loss < 0.8 * beside.loss, "{pair:?}");
            assert!(after.queue < beside.queue, "{pair:?}");
            assert!(after.sent_gbit_per_s > 1.5 * beside.sent_gbit_per_s, "{pair:?}");
        }
        assert!(samples.windows(2).all(|pair| pair[1].tlr() < pair[0].tlr() + 0.01));
    }
}
