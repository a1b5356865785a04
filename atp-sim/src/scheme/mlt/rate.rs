//! A rate by the share of marked packets: DCTCP's law (RFC 8257), of a rate instead of a window.
//!
//! A window that the network doesn't take in keeps its sender from sending; a rate doesn't. So what is
//! reduced is no more than what came through in the last round, as it came.

use super::{MltSettings, PACKET_BYTES};
use crate::engine::S;

/// One, as far as shares go.
const ONE: u64 = 1 << 16;
/// DCTCP's g, as a shift.
const GAIN_SHIFT: u32 = 4;

/// Fewer answers in a round say nothing about the rate at which they come.
const ANSWERS_MIN: u64 = 8;

/// A transmission that came through.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Which.
    pub turn: u64,
    /// What it took on the wire.
    pub wire_bytes: u32,
    /// It was marked.
    pub marked: bool,
}

/// A sender's rate.
#[derive(Debug)]
pub struct RateControl {
    max_bits_per_s: u64,
    bits_per_s: u64,
    /// One packet per round trip, added each round trip without marks.
    step_bits_per_s: u64,
    /// DCTCP's estimate of the share of marked packets, of [`ONE`].
    alpha: u64,
    acked: u64,
    marked: u64,
    /// Bytes that were acknowledged after the round's first acknowledgement, and when that came.
    bytes: u64,
    first_ps: u64,
    /// A round ends with the answer to this transmission or a later one.
    until_turn: u64,
}

impl RateControl {
    /// The line's rate.
    pub fn new(settings: &MltSettings) -> Self {
        // 2^11 bytes times 2^43 ps of a second: below 2^64.
        let step_bits_per_s = u64::from(8 * PACKET_BYTES) * S / settings.round_trip_ps.max(1);
        Self {
            max_bits_per_s: settings.bits_per_s,
            bits_per_s: settings.bits_per_s,
            step_bits_per_s,
            // DCTCP begins with 1; here what came through is a bound already.
            alpha: 0,
            acked: 0,
            marked: 0,
            bytes: 0,
            first_ps: 0,
            until_turn: 0,
        }
    }

    /// Now.
    pub const fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// A transmission was answered; `last_turn` is the latest one that has left.
    pub fn acknowledge(&mut self, now_ps: u64, answer: Answer, last_turn: u64) {
        match self.acked {
            0 => self.first_ps = now_ps,
            _ => self.bytes += u64::from(answer.wire_bytes),
        }
        self.acked += 1;
        self.marked += u64::from(answer.marked);
        if answer.turn < self.until_turn {
            return;
        }
        let share = self.marked * ONE / self.acked;
        self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT) + (share >> GAIN_SHIFT);
        if self.marked > 0 {
            let rate = self.bits_per_s.min(self.came_through(now_ps));
            // 400 Gbit/s are below 2^39, so the product is below 2^56.
            self.reduce_to(rate - rate * self.alpha / (2 * ONE));
        } else {
            self.bits_per_s = (self.bits_per_s + self.step_bits_per_s).min(self.max_bits_per_s);
        }
        self.begin_round(last_turn);
    }

    /// Nothing was heard for too long.
    pub fn timeout(&mut self, last_turn: u64) {
        self.reduce_to(self.bits_per_s / 2);
        self.begin_round(last_turn);
    }

    /// At what rate the round's packets came through; the highest there is, if they were too few to
    /// tell.
    fn came_through(&self, now_ps: u64) -> u64 {
        let took_ps = u128::from(now_ps.saturating_sub(self.first_ps));
        if self.acked < ANSWERS_MIN || took_ps == 0 {
            return u64::MAX;
        }
        let rate = u128::from(self.bytes) * 8 * u128::from(S) / took_ps;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Never below a thousandth of the line: it has to hear how it is.
    fn reduce_to(&mut self, bits_per_s: u64) {
        self.bits_per_s = bits_per_s.max(self.max_bits_per_s / 1_024);
    }

    fn begin_round(&mut self, last_turn: u64) {
        (self.acked, self.marked, self.bytes) = (0, 0, 0);
        self.until_turn = last_turn + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::US;

    const SETTINGS: MltSettings =
        MltSettings { round_trip_ps: 8 * US, bits_per_s: 40_000_000_000, needed: 1 };

    fn answer(turn: u64, marked: bool) -> Answer {
        Answer { turn, wire_bytes: PACKET_BYTES, marked }
    }

    /// RFC 8257 §3.3: marked all over, a rate is halved each round in the end; unmarked, a packet per round
    /// trip is added each round.
    #[test]
    fn rate__follows_marks() {
        let mut rate = RateControl::new(&SETTINGS);
        for round in 0..100 {
            rate.acknowledge(0, answer(round, true), round);
        }
        assert!(ONE - rate.alpha < ONE / 50, "{} of {ONE}", rate.alpha);
        let floor = 40_000_000_000 / 1_024;
        assert_eq!(rate.bits_per_s(), floor);
        for round in 100..106 {
            rate.acknowledge(0, answer(round, false), round);
        }
        assert_eq!(rate.bits_per_s(), floor + 6 * 1_538_000_000);
        rate.acknowledge(0, answer(106, true), 106);
        assert!(rate.bits_per_s() * 3 < 2 * (floor + 6 * 1_538_000_000));
        for round in 107..200 {
            rate.acknowledge(0, answer(round, false), round);
        }
        assert_eq!(rate.bits_per_s(), 40_000_000_000);
    }

    /// A round is what was sent before its first answer: marks of one round reduce the rate once.
    #[test]
    fn rate__is_reduced_once_a_round() {
        let mut rate = RateControl::new(&SETTINGS);
        rate.acknowledge(0, answer(0, true), 99);
        let reduced = rate.bits_per_s();
        assert!(reduced < 40_000_000_000);
        for turn in 1..100 {
            rate.acknowledge(0, answer(turn, true), 199);
            assert_eq!(rate.bits_per_s(), reduced);
        }
        rate.acknowledge(0, answer(100, true), 299);
        assert!(rate.bits_per_s() < reduced);
    }

    /// One of ten senders hears of a packet each ten packet times, and sends no more from then on.
    #[test]
    fn rate__is_at_once_what_comes_through() {
        let mut rate = RateControl::new(&SETTINGS);
        // A round of one packet, then one of a hundred.
        rate.acknowledge(0, answer(0, false), 99);
        for turn in 1..=100 {
            rate.acknowledge(turn * 3_076_000, answer(turn, true), 200);
        }
        let share = rate.bits_per_s() as f64 / 4e9;
        assert!((0.9..1.0).contains(&share), "{share} of a tenth of the line");
    }

    #[test]
    fn rate__never_stands_still() {
        let mut rate = RateControl::new(&SETTINGS);
        for turn in 0..100 {
            rate.timeout(turn);
        }
        assert_eq!(rate.bits_per_s(), 40_000_000_000 / 1_024);
    }
}
