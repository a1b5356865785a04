//! Figure 10: one job's control laws over time, beside background traffic that comes after it
//! (NetApprox §7.1.2).

use super::scene;
use crate::{
    engine::{MS, US},
    experiment::{Chase, Point, Sample},
    workload::Interval,
};

/// A job over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The paper's number.
    pub number: u32,
    /// What the paper says about it.
    pub claim: &'static str,
    /// What is run. Its first job is looked at.
    pub point: Point,
    /// When background traffic comes after that job.
    pub chase: Chase,
    /// From sample to sample.
    pub every_ps: u64,
    /// The longest that it goes on.
    pub end_ps: u64,
}

impl Timeline {
    /// Figure 10: background traffic comes after a job of MSR 0.5.
    pub fn figure_10() -> Self {
        let end_ps = 100 * MS;
        let first = Interval { from_ps: 0, until_ps: end_ps, queue: 4 };
        Self {
            number: 10,
            claim: "the job leaves each queue for a higher one when background traffic comes into it, and loses less there",
            point: scene::beside_background(1_500 * US, vec![first]),
            chase: Chase { after_ps: 100 * US, highest: 2 },
            every_ps: 25 * US,
            end_ps,
        }
    }

    /// What it shows, and by which rule.
    pub fn title(&self) -> String {
        format!(
            "A job of MSR 0.5; background traffic follows when its TLR was above for {} us",
            self.chase.after_ps / US
        )
    }

    /// Runs it.
    pub fn run(&self) -> Vec<Sample> {
        self.point.timeline(0, self.every_ps, self.end_ps, Some(self.chase))
    }

    /// What the samples come to, from each change of background traffic to the next.
    pub fn phases(samples: &[Sample]) -> Vec<Phase> {
        let mut phases: Vec<Vec<&Sample>> = Vec::new();
        for sample in samples {
            match phases.last_mut() {
                Some(phase) if phase[0].background_queue == sample.background_queue => {
                    phase.push(sample);
                }
                _ => phases.push(vec![sample]),
            }
        }
        phases
            .iter()
            .flat_map(|phase| {
                // Before the job has left that queue, and after.
                let queue = phase[0].background_queue;
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
    /// therefore falls; then it goes to a higher queue, loses less and sends more. At last it is in queue 1.
    #[test]
    fn figure_10__the_job_leaves_the_queue_of_background_traffic() {
        for seed in 1..=3 {
            let mut timeline = Timeline::figure_10();
            timeline.point.seed = seed;
            let samples = timeline.run();
            let phases = Timeline::phases(&samples);
            let queues: Vec<_> = phases.iter().map(|phase| phase.background_queue).collect();
            let expected: Vec<_> = [4, 4, 3, 3, 2, 2].into_iter().map(Some).collect();
            assert_eq!(queues, expected, "seed {seed}: {phases:?}");
            for pair in phases.chunks_exact(2) {
                let [beside, after] = pair else { panic!("{phases:?}") };
                assert!(after.loss < 0.8 * beside.loss, "seed {seed}: {pair:?}");
                assert!(after.queue < beside.queue, "seed {seed}: {pair:?}");
                assert!(after.sent_gbit_per_s > 1.5 * beside.sent_gbit_per_s, "{pair:?}");
            }
            assert!(samples.windows(2).all(|pair| pair[1].tlr() < pair[0].tlr() + 0.01));
        }
    }
}
