//! What the chart shows: samples of every lane, as far back as memory is given.

use approxlib::control::{HostStats, LaneStats};
use std::collections::{HashMap, VecDeque};

/// The most samples of a lane.
pub const SAMPLES_MAX: usize = 300;

/// Tells a lane from all others of a daemon: its index, and when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneKey {
    lane: u16,
    opened: u64,
}

impl From<&LaneStats> for LaneKey {
    fn from(lane: &LaneStats) -> Self {
        Self { lane: lane.lane, opened: lane.opened_s.to_bits() }
    }
}

/// A lane at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since the daemon's start.
    pub at_s: f64,
    /// Measured loss, 0 to 1.
    pub loss: f32,
    /// TLR, 0 to 1.
    pub tlr: f32,
    /// The rate, bits per second.
    pub rate: f32,
    /// The achieved rate, bits per second.
    pub achieved: Option<f32>,
    /// The queue.
    pub queue: u8,
}

/// The samples of all lanes.
#[derive(Default)]
pub struct History(HashMap<LaneKey, VecDeque<Sample>>);

impl History {
    /// Adds a sample of each lane, and forgets closed lanes except `kept`, which is on the screen.
    pub fn record(&mut self, stats: &HostStats, kept: Option<LaneKey>) {
        let mut before = std::mem::take(&mut self.0);
        for lane in &stats.lanes {
            let key = LaneKey::from(lane);
            let mut samples = before.remove(&key).unwrap_or_default();
            if samples.len() >= SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back(Sample {
                at_s: stats.uptime_s,
                loss: lane.loss as f32,
                tlr: lane.tlr as f32,
                rate: lane.rate_bytes_per_s as f32 * 8.0,
                achieved: lane.achieved_bytes_per_s.map(|bytes| bytes as f32 * 8.0),
                queue: lane.queue,
            });
            self.0.insert(key, samples);
        }
        if let Some(key) = kept
            && let Some(samples) = before.remove(&key)
        {
            self.0.insert(key, samples);
        }
    }

    /// The samples of a lane, oldest first.
    pub fn of(&self, key: LaneKey) -> impl Iterator<Item = &Sample> {
        self.0.get(&key).into_iter().flatten()
    }
}
