//! The counts of a sender or receiver.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The counts of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Packets sent or received; 0 for TCP.
    pub packets: u64,
    /// Retransmitted packets among those sent.
    pub packets_retransmitted: u64,
    /// Application bytes sent or received.
    pub bytes: u64,
    /// The time from the first packet or byte to the last.
    pub active_s: f64,
    /// User and system time of all threads of the process.
    pub cpu_s: f64,
}

/// Counts arrivals, and records the first and the last instant.
#[derive(Debug)]
pub struct Arrivals {
    span: Option<(Instant, Instant)>,
    packets: u64,
    bytes: u64,
}

impl Arrivals {
    pub const fn new() -> Self {
        Self { span: None, packets: 0, bytes: 0 }
    }

    /// The time since the last arrival; `None` before the first.
    pub fn idle(&self) -> Option<Duration> {
        self.span.map(|(_, last)| last.elapsed())
    }

    pub fn count(&mut self, packets: u64, bytes: u64) {
        let now = Instant::now();
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        self.packets += packets;
        self.bytes += bytes;
    }

    pub fn tally(&self) -> Tally {
        let active = self.span.map_or(Duration::ZERO, |(first, last)| last - first);
        Tally {
            packets: self.packets,
            bytes: self.bytes,
            active_s: active.as_secs_f64(),
            ..Tally::default()
        }
    }
}
