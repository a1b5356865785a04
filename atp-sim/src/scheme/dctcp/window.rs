//! The congestion window: DCTCP's estimate of the marked share, and the reactions to marks, losses
//! and timeouts.

use super::SEGMENT_BYTES_MAX;
use crate::scheme::PathState;

/// DCTCP's g.
const GAIN: f64 = 1.0 / 16.0;

/// A sender's congestion window, bytes.
#[derive(Debug)]
pub struct Window {
    bytes: f64,
    threshold: f64,
    /// DCTCP's estimate of the share of marked bytes, and the counts of the current window.
    alpha: f64,
    acked_bytes: u64,
    marked_bytes: u64,
    /// Sequences whose acknowledgment permits the next update of the estimate, and the next
    /// reduction for marks.
    alpha_until: u64,
    reduced_until: u64,
    /// The sequence that permits the next reduction for losses, and the window before the last
    /// reduction for marks.
    halved_until: u64,
    before_bytes: f64,
}

/// The acknowledged and the sent part of the stream.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// All bytes below this are acknowledged.
    pub cumulative: u64,
    /// All bytes below this were sent.
    pub next: u64,
}

impl Window {
    /// Makes an initial window of `bytes` bytes.
    pub fn new(bytes: u32) -> Self {
        let bytes = f64::from(bytes);
        Self {
            bytes,
            threshold: f64::INFINITY,
            alpha: 1.0,
            acked_bytes: 0,
            marked_bytes: 0,
            alpha_until: 0,
            reduced_until: 0,
            halved_until: 0,
            before_bytes: bytes,
        }
    }

    /// Window, threshold and estimate of an earlier flow, see [`PathState`].
    pub fn resume(&mut self, state: &PathState) {
        (self.bytes, self.before_bytes) = (state.window_bytes, state.window_bytes);
        (self.threshold, self.alpha) = (state.threshold_bytes, state.alpha);
    }

    /// The window's part of a [`PathState`].
    pub fn path_state(&self, round_trip_ps: (f64, f64)) -> PathState {
        let Self { bytes: window_bytes, threshold: threshold_bytes, alpha, .. } = *self;
        PathState { window_bytes, threshold_bytes, alpha, round_trip_ps }
    }

    /// Bytes that may be in flight.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// RFC 8257 §3.3: updates the estimate once per window, and reduces the window at most once per
    /// window.
    pub fn on_ack(&mut self, bytes: u64, marked: bool, reach: Reach) {
        self.acked_bytes += bytes;
        self.marked_bytes += if marked { bytes } else { 0 };
        if marked && reach.cumulative >= self.reduced_until {
            self.before_bytes = self.bytes;
            self.reduce_to(self.bytes * (1.0 - self.alpha / 2.0));
            self.reduced_until = reach.next;
        }
        if reach.cumulative >= self.alpha_until && self.acked_bytes > 0 {
            let share = self.marked_bytes as f64 / self.acked_bytes as f64;
            self.alpha += GAIN * (share - self.alpha);
            (self.acked_bytes, self.marked_bytes) = (0, 0);
            self.alpha_until = reach.next;
        }
    }

    /// Halves the window after a loss, as TCP does (RFC 8257 §3.5), even if marks have just reduced
    /// it.
    pub fn on_loss(&mut self, reach: Reach) {
        if reach.cumulative >= self.halved_until {
            let is_reduced = reach.cumulative < self.reduced_until;
            let before_bytes = if is_reduced { self.before_bytes } else { self.bytes };
            self.reduce_to(before_bytes / 2.0);
            (self.reduced_until, self.halved_until) = (reach.next, reach.next);
        }
    }

    /// Reacts to a timeout, which loses everything in flight. `is_first` means the first timeout
    /// since the last acknowledgment. Further timeouts keep the threshold (RFC 5681 §3.1).
    pub fn on_timeout(&mut self, in_flight_bytes: u64, is_first: bool, reach: Reach) {
        if is_first {
            self.threshold = (in_flight_bytes as f64 / 2.0).max(least());
        }
        self.bytes = f64::from(SEGMENT_BYTES_MAX);
        (self.reduced_until, self.halved_until) = (reach.next, reach.next);
    }

    /// Grows after an acknowledgment of `bytes` unmarked bytes.
    pub fn grow(&mut self, bytes: u64) {
        let (bytes, segment) = (bytes as f64, f64::from(SEGMENT_BYTES_MAX));
        self.bytes +=
            if self.bytes < self.threshold { bytes } else { bytes * segment / self.bytes };
    }

    /// Reduces to `bytes`, but not below two segments. A smaller window stays.
    fn reduce_to(&mut self, bytes: f64) {
        self.bytes = bytes.max(least()).min(self.bytes);
        self.threshold = self.bytes;
    }
}

fn least() -> f64 {
    f64::from(2 * SEGMENT_BYTES_MAX)
}
