//! A job's control laws over time.

use super::{Chase, Point, Setup, chase::Chaser};
use crate::scheme::Probe;
use atp_common::{laws::queue, units::Share};
use serde::Serialize;

/// How a job stands at a moment. Integers only; shares are in parts of 65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// When, picoseconds.
    pub at_ps: u64,
    /// The target loss rate.
    pub tlr_q16: u32,
    /// The loss of the epochs that were evaluated since the last sample, on the average over the moments
    /// that were looked at; before the first evaluation 0.
    pub loss_q16: u32,
    /// What its rate allows, bytes per second.
    pub rate_bytes_per_s: u64,
    /// How long ago the last sample was, picoseconds.
    pub lasts_ps: u64,
    /// Bytes of data that left since.
    pub sent_bytes: u64,
    /// The switches' queue.
    pub queue: u8,
    /// The queue of background traffic, if there is any.
    pub background_queue: Option<u8>,
    /// Messages that its receiver has.
    pub delivered: u32,
}

impl Sample {
    /// The target loss rate.
    pub fn tlr(&self) -> f64 {
        f64::from(self.tlr_q16) / 65_536.0
    }

    /// The loss.
    pub fn loss(&self) -> f64 {
        f64::from(self.loss_q16) / 65_536.0
    }

    /// What its rate allows, Gbit/s.
    pub fn rate_gbit_per_s(&self) -> f64 {
        self.rate_bytes_per_s as f64 * 8.0 / 1e9
    }

    /// What left since the last sample, Gbit/s.
    pub fn sent_gbit_per_s(&self) -> f64 {
        self.sent_bytes as f64 * 8.0 * 1e3 / self.lasts_ps.max(1) as f64
    }

    /// The queue that its target loss rate alone would give it (NetApprox §5.2).
    pub fn tlr_queue(&self) -> u8 {
        queue::of_target_loss_rate(Share::from_q16(self.tlr_q16))
    }
}

/// Looks for one sample: an epoch is a round trip, some microseconds.
const LOOKS: u64 = 16;

impl Point {
    /// How its job number `job` stands every `every_ps` from its beginning until it is complete or it is
    /// `end_ps`. Empty for schemes without control laws to look at, and for jobs that there aren't.
    /// Background traffic goes where it was planned to go, or from its first queue on after the job.
    pub fn timeline(
        &self,
        job: usize,
        every_ps: u64,
        end_ps: u64,
        chase: Option<Chase>,
    ) -> Vec<Sample> {
        let Setup { mut simulation, jobs, background, .. } = self.set_up();
        let mut chaser = chase.and_then(|rule| Chaser::new(rule, self, background.schedules));
        let Some(flow) = jobs.get(job).map(|job| job.flow) else { return Vec::new() };
        let mut samples = Vec::new();
        let (mut at_ps, mut sent_bytes, mut evaluated) = (self.begins_ps, 0, 0);
        while at_ps < end_ps && simulation.progress(flow).done_ps.is_none() {
            let mut losses = LossDetector::default();
            let mut last = None;
            for look in 1..=LOOKS {
                let now_ps = at_ps + every_ps * look / LOOKS;
                simulation.run_on(now_ps);
                let Some(probe) = simulation.sender(flow).probe() else { return samples };
                losses.look(&probe, &mut evaluated);
                if let Some(chaser) = &mut chaser {
                    chaser.look(now_ps, &probe);
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
                background_queue: match &chaser {
                    Some(chaser) => Some(chaser.queue()),
                    None => self.background_queue(at_ps),
                },
                delivered: simulation.progress(flow).delivered,
            });
            sent_bytes = probe.sent_bytes;
        }
        samples
    }
}

/// LossDetector of epochs, as far as they were looked at in time.
#[derive(Default)]
struct LossDetector {
    sum_q16: u64,
    number: u64,
}

impl LossDetector {
    fn look(&mut self, probe: &Probe, evaluated: &mut u32) {
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
