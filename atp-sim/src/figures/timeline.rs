//! Figure 10: the control laws of one job over time, while background traffic follows it (NetApprox
//! §7.1.2).

use super::setups::job_beside_background;
use crate::{
    engine::{MS, US},
    experiment::{AdaptiveBackground, Point, Sample},
    workload::Interval,
};

/// The description of a timeline of one job.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The paper's number.
    pub number: u32,
    /// The paper's statement about this figure.
    pub claim: &'static str,
    /// The point to run. The timeline shows its first job.
    pub point: Point,
    /// The rule by which background traffic follows that job.
    pub adaptive_background: AdaptiveBackground,
    /// The time between samples.
    pub every_ps: u64,
    /// The time limit.
    pub end_ps: u64,
}

impl Timeline {
    /// Figure 10: background traffic follows a job of MSR 0.5.
    pub fn figure_10() -> Self {
        let end_ps = 100 * MS;
        let first = Interval { from_ps: 0, until_ps: end_ps, queue: 4 };
        Self {
            number: 10,
            claim: "the job leaves each queue for a higher one when background traffic moves into it, and loses less \
                    there",
            point: job_beside_background(1_500 * US, vec![first]),
            adaptive_background: AdaptiveBackground { after_ps: 100 * US, highest: 2 },
            every_ps: 25 * US,
            end_ps,
        }
    }

    /// The title, with the rule of background traffic.
    pub fn title(&self) -> String {
        format!(
            "A job of MSR 0.5; background traffic follows after its TLR asked for a higher queue for {} us",
            self.adaptive_background.after_ps / US
        )
    }

    /// Runs the timeline.
    pub fn run(&self) -> Vec<Sample> {
        self.point.timeline(0, self.every_ps, self.end_ps, Some(self.adaptive_background))
    }

    /// The means of the samples in each phase between two moves of background traffic.
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
                // Split the phase where the job leaves that queue.
                let queue = phase[0].background_queue;
                let left = phase.iter().position(|sample| Some(sample.tlr_queue()) < queue);
                let (beside, after) = phase.split_at(left.unwrap_or(phase.len()));
                [beside, after].map(|part| Phase::of(queue, part))
            })
            .flatten()
            .collect()
    }
}

/// A time in which background traffic stays in one queue, and the job's TLR on one side of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// The queue of background traffic.
    pub background_queue: Option<u8>,
    /// The end of the phase, microseconds.
    pub until_us: f64,
    /// The mean queue of the job.
    pub queue: f64,
    /// The mean target loss rate.
    pub tlr: f64,
    /// The mean loss of the observed epochs.
    pub loss: f64,
    /// The mean rate that the law allows, Gbit/s.
    pub rate_gbit_per_s: f64,
    /// The mean rate sent, Gbit/s.
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

    /// NetApprox §7.1.2: in the queue of background traffic, the job loses more than its target, so
    /// the target falls. The job then moves to a higher queue, loses less and sends more. It ends
    /// in queue 1.
    ///
    /// The time after a move is as short as six samples, so its mean queue is compared over all
    /// seeds.
    #[test]
    fn figure_10__the_job_leaves_the_queue_of_background_traffic() {
        let mut queues_left = [0.0; 3];
        for seed in 1..=8 {
            let mut timeline = Timeline::figure_10();
            timeline.point.seed = seed;
            let samples = timeline.run();
            let phases = Timeline::phases(&samples);
            let queues: Vec<_> = phases.iter().map(|phase| phase.background_queue).collect();
            let expected: Vec<_> = [4, 4, 3, 3, 2, 2].into_iter().map(Some).collect();
            assert_eq!(queues, expected, "seed {seed}: {phases:?}");
            for (pair, left) in phases.chunks_exact(2).zip(&mut queues_left) {
                let [beside, after] = pair else { panic!("{phases:?}") };
                assert!(after.loss < 0.8 * beside.loss, "seed {seed}: {pair:?}");
                assert!(after.sent_gbit_per_s > 1.5 * beside.sent_gbit_per_s, "{pair:?}");
                *left += (beside.queue - after.queue) / 8.0;
            }
            assert!(samples.windows(2).all(|pair| pair[1].tlr() < pair[0].tlr() + 0.01));
        }
        assert!(queues_left.iter().all(|left| *left > 0.2), "{queues_left:?}");
    }
}
