//! Samples the control laws of one job over time.

use super::{AdaptiveBackground, Point, Setup, adaptive_background::Mover};
use crate::scheme::Probe;
use atp_common::{laws::queue, units::Share};
use serde::Serialize;

/// The state of a job at one time. All fields are integers; shares are in parts of 65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// The time, picoseconds.
    pub at_ps: u64,
    /// The target loss rate.
    pub tlr_q16: u32,
    /// The mean loss of the epochs evaluated since the last sample; 0 before the first evaluation.
    pub loss_q16: u32,
    /// The rate that the law allows, bytes per second.
    pub rate_bytes_per_s: u64,
    /// The time since the last sample, picoseconds.
    pub lasts_ps: u64,
    /// Data bytes sent since the last sample.
    pub sent_bytes: u64,
    /// The job's queue at switches.
    pub queue: u8,
    /// The queue of background traffic, if there is any.
    pub background_queue: Option<u8>,
    /// Messages delivered to the receiver.
    pub delivered: u32,
}

impl Sample {
    /// The target loss rate, as a fraction.
    pub fn tlr(&self) -> f64 {
        f64::from(self.tlr_q16) / 65_536.0
    }

    /// The loss, as a fraction.
    pub fn loss(&self) -> f64 {
        f64::from(self.loss_q16) / 65_536.0
    }

    /// The rate that the law allows, Gbit/s.
    pub fn rate_gbit_per_s(&self) -> f64 {
        self.rate_bytes_per_s as f64 * 8.0 / 1e9
    }

    /// The rate sent since the last sample, Gbit/s.
    pub fn sent_gbit_per_s(&self) -> f64 {
        self.sent_bytes as f64 * 8.0 * 1e3 / self.lasts_ps.max(1) as f64
    }

    /// The queue of the target loss rate alone (NetApprox §5.2).
    pub fn tlr_queue(&self) -> u8 {
        queue::of_target_loss_rate(Share::from_q16(self.tlr_q16))
    }
}

/// Observations per sample. An epoch lasts a round trip, some microseconds.
const OBSERVATIONS: u64 = 16;

impl Point {
    /// Samples job `job` every `every_ps`, from the start of the point until the job is complete or
    /// `end_ps`. Returns no sample if the scheme has no control laws or the job does not exist.
    /// Background traffic follows its plan, or `adaptive_background` if given.
    pub fn timeline(
        &self,
        job: usize,
        every_ps: u64,
        end_ps: u64,
        adaptive_background: Option<AdaptiveBackground>,
    ) -> Vec<Sample> {
        let Setup { mut simulation, jobs, background, .. } = self.set_up();
        let mut mover =
            adaptive_background.and_then(|rule| Mover::new(rule, self, background.schedules));
        let Some(flow) = jobs.get(job).map(|job| job.flow) else { return Vec::new() };
        let mut samples = Vec::new();
        let (mut at_ps, mut sent_bytes, mut evaluated) = (self.begins_ps, 0, 0);
        while at_ps < end_ps && simulation.progress(flow).done_ps.is_none() {
            let mut losses = MeanLoss::default();
            let mut last = None;
            for observation in 1..=OBSERVATIONS {
                let now_ps = at_ps + every_ps * observation / OBSERVATIONS;
                simulation.run_on(now_ps);
                let Some(probe) = simulation.sender(flow).probe() else { return samples };
                losses.observe(&probe, &mut evaluated);
                if let Some(mover) = &mut mover {
                    mover.observe(now_ps, &probe);
                }
                last = Some(probe);
            }
            at_ps += every_ps;
            let Some(probe) = last else { break };
            samples.push(Sample {
                at_ps,
                tlr_q16: probe.tlr.q16(),
                loss_q16: losses.mean_q16().unwrap_or(probe.loss.q16()),
                rate_bytes_per_s: probe.rate.bytes_per_s(),
                lasts_ps: every_ps,
                sent_bytes: probe.sent_bytes - sent_bytes,
                queue: probe.queue,
                background_queue: match &mover {
                    Some(mover) => Some(mover.queue()),
                    None => self.background_queue(at_ps),
                },
                delivered: simulation.progress(flow).delivered,
            });
            sent_bytes = probe.sent_bytes;
        }
        samples
    }
}

/// The mean loss of the observed epochs.
#[derive(Default)]
struct MeanLoss {
    sum_q16: u64,
    number: u64,
}

impl MeanLoss {
    fn observe(&mut self, probe: &Probe, evaluated: &mut u32) {
        if probe.epochs_evaluated != *evaluated {
            *evaluated = probe.epochs_evaluated;
            self.sum_q16 += u64::from(probe.loss.q16());
            self.number += 1;
        }
    }

    fn mean_q16(&self) -> Option<u32> {
        self.sum_q16.checked_div(self.number).map(|mean| mean as u32)
    }
}
