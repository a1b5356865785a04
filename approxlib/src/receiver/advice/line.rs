//! One line: its adviser, and the others on it.

use super::others::{Others, Sample};
use atp_common::{
    laws::advice::{Span, WINDOW_NS},
    units::Rate,
    wire::Advice,
};
use atp_proto::{Adviser, AdviserConfig};

/// The most packets that an approximate queue counts as. Receivers on one line take each other for
/// exact traffic. A later one begins with the part that is left in, an eighth of the line with this
/// depth, and comes to its share in seconds: the difference between two receivers shrinks with that
/// part. With 96 it would begin at a sixteenth, and take twice as long.
const DEPTH_PACKETS_MAX: u32 = 48;

/// A line of known rate.
#[derive(Debug)]
pub struct Line {
    rate: Rate,
    adviser: Adviser<u64>,
    others: Others,
    /// Whether the others' rate is known in this tick.
    is_known: bool,
}

impl Line {
    /// A line without traffic. `depth_packets`: what an approximate queue at its other end holds; 0
    /// for one queue, which exact traffic shares.
    pub fn new(rate: Rate, depth_packets: u32) -> Self {
        let adviser = Adviser::new(AdviserConfig {
            line_bytes_per_s: rate.bytes_per_s(),
            // One computation a tick.
            interval_ns: 1,
            window_ns: WINDOW_NS,
            depth_packets: depth_packets.min(DEPTH_PACKETS_MAX),
        });
        Self { rate, adviser, others: Others::default(), is_known: false }
    }

    /// Counts `wire_bytes` of a lane's DATA that came in `span`.
    pub fn on_data(&mut self, span: Span, lane: u64, wire_bytes: u64, backlogged: bool) {
        self.others.on_own(wire_bytes);
        // A late thread reads at once what came in a longer time.
        let span_ns = span.until_ns - span.since_ns;
        let wire_bytes = wire_bytes.min(self.rate.bytes_in(span_ns.max(WINDOW_NS)));
        self.adviser.on_data(span, lane, wire_bytes, backlogged);
    }

    /// Counts `wire_bytes` of DATA beyond the limits of advice that came in `span`.
    pub fn on_unadvised(&mut self, span: Span, wire_bytes: u64) {
        self.others.on_own(wire_bytes);
        self.adviser.on_unadvised(span, wire_bytes);
    }

    /// Forgets a lane, which has ended or arrives over another line.
    pub fn remove(&mut self, lane: u64) {
        self.adviser.remove(lane);
    }

    /// Counts the others in `span`, up to this tick, with a new sample of the line's counter if one
    /// is due. Returns whether the counter has proved unfit since the last tick.
    pub fn count_others(
        &mut self,
        span: Span,
        is_drained: bool,
        sample: impl FnOnce() -> Option<Sample>,
    ) -> bool {
        let now_ns = span.until_ns;
        let was_fit = self.others.is_fit(now_ns);
        if self.others.is_due(now_ns, is_drained) {
            self.others.look(now_ns, sample());
        }
        let bytes = self.others.take_bytes(now_ns);
        self.is_known = bytes.is_some();
        self.adviser.on_other(span, bytes.unwrap_or(0));
        was_fit && !self.others.is_fit(now_ns)
    }

    /// The advice to a lane; none while the others aren't known.
    pub fn advice(&mut self, now_ns: u64, lane: u64) -> Advice {
        match self.is_known {
            true => self.adviser.advice(now_ns, lane),
            false => Advice::NONE,
        }
    }
}
