//! How much may be in flight: DCTCP's estimate of marks, and what marks, losses and timeouts make of the window.

use super::SEGMENT_BYTES_MAX;

/// DCTCP's g.
const GAIN: f64 = 1.0 / 16.0;

/// A sender's window, bytes.
#[derive(Debug)]
pub struct Window {
    bytes: f64,
    threshold: f64,
    /// DCTCP's estimate of the share of marked bytes, and what it is made of.
    alpha: f64,
    acked_bytes: u64,
    marked_bytes: u64,
    /// The estimate is renewed, and the window reduced for marks, once everything below is
    /// acknowledged.
    alpha_until: u64,
    reduced_until: u64,
    /// The same for losses; and the window before marks reduced it.
    halved_until: u64,
    before_bytes: f64,
}

/// How far the stream is: what is acknowledged, and what was sent.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// All bytes below are acknowledged.
    pub cumulative: u64,
    /// All bytes below were sent.
    pub next: u64,
}

impl Window {
    /// A first window of so many bytes.
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

    /// How much may be in flight.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// RFC 8257 §3.3: the estimate, once per window; the window, at most once per window.
    pub fn heed_marks(&mut self, bytes: u64, marked: bool, reach: Reach) {
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

    /// Something was lost. As any TCP does (RFC 8257 §3.5), also where marks have reduced this window a
    /// little before.
    pub fn heed_loss(&mut self, reach: Reach) {
        if reach.cumulative >= self.halved_until {
            let is_reduced = reach.cumulative < self.reduced_until;
            let before_bytes = if is_reduced { self.before_bytes } else { self.bytes };
            self.reduce_to(before_bytes / 2.0);
            (self.reduced_until, self.halved_until) = (reach.next, reach.next);
        }
    }

    /// Everything in flight is lost. `is_first`: nothing was since anything was heard; if the same is lost
    /// again, the threshold stays (RFC 5681 §3.1).
    pub fn timeout(&mut self, flying_bytes: u64, is_first: bool, reach: Reach) {
        if is_first {
            self.threshold = (flying_bytes as f64 / 2.0).max(least());
        }
        self.bytes = f64::from(SEGMENT_BYTES_MAX);
        (self.reduced_until, self.halved_until) = (reach.next, reach.next);
    }

    /// So many bytes were acknowledged, none of them marked.
    pub fn grow(&mut self, bytes: u64) {
        let (bytes, segment) = (bytes as f64, f64::from(SEGMENT_BYTES_MAX));
        self.bytes +=
            if self.bytes < self.threshold { bytes } else { bytes * segment / self.bytes };
    }

    /// Never below two segments, unless it is there already.
    fn reduce_to(&mut self, bytes: f64) {
        self.bytes = bytes.max(least()).min(self.bytes);
        self.threshold = self.bytes;
    }
}

fn least() -> f64 {
    f64::from(2 * SEGMENT_BYTES_MAX)
}
