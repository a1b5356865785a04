//! What a job says at its end.

use serde::{Deserialize, Serialize};

/// What became of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The job's id.
    pub job: u32,
    /// `ebpf`, or `userspace` where there is no daemon.
    pub datapath: String,
    /// `fq`, `htb` or `userspace`.
    pub pacing: String,
    /// From the first message handed over to the confirmed end, seconds.
    pub elapsed_s: f64,
    /// DATA packets that left, repeated ones included.
    pub packets_sent: u64,
    /// Of these, packets that had been sent before.
    pub packets_retransmitted: u64,
    /// DATA packets that reached the receiving library, by its own count.
    pub packets_arrived: u64,
    /// Message bytes in the packets that left, headers not counted.
    pub bytes_sent: u64,
    /// Group by group; of a stream, of its last window.
    pub groups: Vec<GroupReport>,
    /// Windows of a stream that have ended; 1 for a job without windows.
    pub windows: u32,
    /// The job was ended before its groups had what they need, as [`Job::cancel`](crate::Job::cancel)
    /// asked.
    pub cancelled: bool,
    /// The job's lanes over time.
    pub timeline: Vec<Sample>,
}

/// What became of one window of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// Which window, counted from 0.
    pub window: u32,
    /// Whether every group has what it needs; otherwise its deadline came before.
    pub complete: bool,
    /// Group by group.
    pub groups: Vec<GroupReport>,
}

/// What became of one group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// The group's id.
    pub group: u8,
    /// N.
    pub messages: u32,
    /// Messages that the receiver has.
    pub delivered: u32,
    /// `ceil(MSR * N)`.
    pub needed: u32,
    /// Messages that it doesn't have.
    pub lost: u32,
    /// The minimal sampling rate.
    pub msr: f64,
}

/// A lane at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, seconds since the job was connected.
    pub at_s: f64,
    /// The lane's group.
    pub group: u8,
    /// Target loss rate (NetApprox §4.2, Eq. 1), 0 to 1.
    pub tlr: f64,
    /// The lane's rate.
    pub rate_bytes_per_s: u64,
    /// Loss of the last evaluated epoch, 0 to 1.
    pub loss: f64,
    /// The lane's queue, 0 to 7.
    pub queue: u8,
    /// Smoothed round-trip time; 0 before the first.
    pub rtt_us: f64,
}

/// Samples at even distances, never more than a fixed number: when it is full, every other one
/// goes, and the distance doubles.
#[derive(Debug)]
pub(crate) struct Timeline {
    started_ns: u64,
    interval_ns: u64,
    due_ns: u64,
    samples: Vec<Sample>,
}

impl Timeline {
    const INTERVAL_NS: u64 = 50_000_000;
    const SAMPLES_MAX: usize = 2_000;

    pub fn new(started_ns: u64) -> Self {
        let interval_ns = Self::INTERVAL_NS;
        Self { started_ns, interval_ns, due_ns: started_ns, samples: Vec::new() }
    }

    /// Takes samples if they are due; `samples` gets the seconds since the start. Returns whether any
    /// were taken.
    pub fn observe<S>(&mut self, now_ns: u64, samples: impl FnOnce(f64) -> S) -> bool
    where
        S: IntoIterator<Item = Sample>,
    {
        if now_ns < self.due_ns {
            return false;
        }
        self.samples.extend(samples((now_ns - self.started_ns) as f64 / 1e9));
        if self.samples.len() >= Self::SAMPLES_MAX {
            let mut moments = 0;
            let mut last_s = None;
            self.samples.retain(|sample| {
                if last_s.replace(sample.at_s) != Some(sample.at_s) {
                    moments += 1;
                }
                moments % 2 == 1
            });
            self.interval_ns *= 2;
        }
        self.due_ns = now_ns + self.interval_ns;
        true
    }

    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observe__stays_bounded_and_even() {
        let mut timeline = Timeline::new(0);
        for ms in 0..1_000_000 {
            timeline.observe(ms * 1_000_000, |at_s| {
                [1, 7].map(|group| Sample {
                    at_s,
                    group,
                    tlr: 0.0,
                    rate_bytes_per_s: 0,
                    loss: 0.0,
                    queue: 1,
                    rtt_us: 0.0,
                })
            });
        }
        let samples = timeline.samples();
        assert!(samples.len() < Timeline::SAMPLES_MAX && samples.len() > Timeline::SAMPLES_MAX / 3);
        let (first, second): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|s| s.group == 1);
        assert!(
            first.len() == second.len() && first.iter().zip(&second).all(|(a, b)| a.at_s == b.at_s)
        );
        let gaps: Vec<f64> = first.windows(2).map(|w| w[1].at_s - w[0].at_s).collect();
        let widest = gaps.iter().copied().fold(0.0, f64::max);
        assert!(gaps[0] > 0.4 * widest, "{} {widest}", gaps[0]);
    }
}
