//! Rate control by the share of marked packets: DCTCP's law (RFC 8257), applied to a rate instead
//! of a window.
//!
//! A full window stops its sender, but a rate doesn't. So a reduction starts from the delivery rate
//! of the last round trip, if that is lower than the sending rate.

use super::{MltSettings, PACKET_BYTES};
use crate::engine::S;

/// A share of 1.
const ONE: u64 = 1 << 16;
/// DCTCP's g, as a shift.
const GAIN_SHIFT: u32 = 4;

/// The minimum number of acknowledgments in a round trip for a delivery rate.
const ACKS_MIN: u64 = 8;

/// The acknowledgment of a transmission.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The acknowledged transmission.
    pub transmission: u64,
    /// Bytes of that packet on the wire.
    pub wire_bytes: u32,
    /// Whether that packet was ECN-marked.
    pub marked: bool,
}

/// A sender's rate.
#[derive(Debug)]
pub struct RateControl {
    max_bits_per_s: u64,
    bits_per_s: u64,
    /// The increase after a round trip without marks: one packet per round trip.
    step_bits_per_s: u64,
    /// DCTCP's estimate of the share of marked packets, in parts of [`ONE`].
    alpha: u64,
    acked: u64,
    marked: u64,
    /// Bytes acknowledged after the round trip's first acknowledgment, and the time of the first.
    bytes: u64,
    first_ps: u64,
    /// A round trip ends with the acknowledgment of this transmission or a later one.
    end_transmission: u64,
}

impl RateControl {
    /// Starts at the line's rate.
    pub fn new(settings: &MltSettings) -> Self {
        // 2^14 bits times 2^40 ps per second: below 2^64.
        let step_bits_per_s = u64::from(8 * PACKET_BYTES) * S / settings.round_trip_ps.max(1);
        Self {
            max_bits_per_s: settings.bits_per_s,
            bits_per_s: settings.bits_per_s,
            step_bits_per_s,
            // DCTCP begins with 1. Here the delivery rate already bounds the first rate.
            alpha: 0,
            acked: 0,
            marked: 0,
            bytes: 0,
            first_ps: 0,
            end_transmission: 0,
        }
    }

    /// The present rate.
    pub const fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// Takes an acknowledgment. `last` is the largest transmission sent.
    pub fn acknowledge(&mut self, now_ps: u64, ack: Ack, last: u64) {
        match self.acked {
            0 => self.first_ps = now_ps,
            _ => self.bytes += u64::from(ack.wire_bytes),
        }
        self.acked += 1;
        self.marked += u64::from(ack.marked);
        if ack.transmission < self.end_transmission {
            return;
        }
        let share = self.marked * ONE / self.acked;
        self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT) + (share >> GAIN_SHIFT);
        if self.marked > 0 {
            let rate = self.bits_per_s.min(self.delivery_rate(now_ps));
            // 400 Gbit/s is below 2^39 bit/s, so the product is below 2^56.
            self.reduce_to(rate - rate * self.alpha / (2 * ONE));
        } else {
            self.bits_per_s = (self.bits_per_s + self.step_bits_per_s).min(self.max_bits_per_s);
        }
        self.begin_round_trip(last);
    }

    /// Halves the rate after a timeout.
    pub fn on_timeout(&mut self, last: u64) {
        self.reduce_to(self.bits_per_s / 2);
        self.begin_round_trip(last);
    }

    /// The delivery rate of this round trip. `u64::MAX` if there were too few acknowledgments.
    fn delivery_rate(&self, now_ps: u64) -> u64 {
        let took_ps = u128::from(now_ps.saturating_sub(self.first_ps));
        if self.acked < ACKS_MIN || took_ps == 0 {
            return u64::MAX;
        }
        let rate = u128::from(self.bytes) * 8 * u128::from(S) / took_ps;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Reduces the rate, but not below 1/1024 of the line: the sender needs further
    /// acknowledgments.
    fn reduce_to(&mut self, bits_per_s: u64) {
        self.bits_per_s = bits_per_s.max(self.max_bits_per_s / 1_024);
    }

    fn begin_round_trip(&mut self, last: u64) {
        (self.acked, self.marked, self.bytes) = (0, 0, 0);
        self.end_transmission = last + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::US;

    const SETTINGS: MltSettings =
        MltSettings { round_trip_ps: 8 * US, bits_per_s: 40_000_000_000, needed: 1 };

    fn ack(transmission: u64, marked: bool) -> Ack {
        Ack { transmission, wire_bytes: PACKET_BYTES, marked }
    }

    /// RFC 8257 §3.3: with all packets marked, the reduction per round trip approaches one half.
    /// Without marks, each round trip adds one packet per round trip.
    #[test]
    fn rate__follows_marks() {
        let mut rate = RateControl::new(&SETTINGS);
        for round in 0..100 {
            rate.acknowledge(0, ack(round, true), round);
        }
        assert!(ONE - rate.alpha < ONE / 50, "{} of {ONE}", rate.alpha);
        let floor = 40_000_000_000 / 1_024;
        assert_eq!(rate.bits_per_s(), floor);
        for round in 100..106 {
            rate.acknowledge(0, ack(round, false), round);
        }
        assert_eq!(rate.bits_per_s(), floor + 6 * 1_538_000_000);
        rate.acknowledge(0, ack(106, true), 106);
        assert!(rate.bits_per_s() * 3 < 2 * (floor + 6 * 1_538_000_000));
        for round in 107..200 {
            rate.acknowledge(0, ack(round, false), round);
        }
        assert_eq!(rate.bits_per_s(), 40_000_000_000);
    }

    /// Marks of one round trip reduce the rate once.
    #[test]
    fn rate__is_reduced_once_per_round_trip() {
        let mut rate = RateControl::new(&SETTINGS);
        rate.acknowledge(0, ack(0, true), 99);
        let reduced = rate.bits_per_s();
        assert!(reduced < 40_000_000_000);
        for transmission in 1..100 {
            rate.acknowledge(0, ack(transmission, true), 199);
            assert_eq!(rate.bits_per_s(), reduced);
        }
        rate.acknowledge(0, ack(100, true), 299);
        assert!(rate.bits_per_s() < reduced);
    }

    /// One of ten senders gets an acknowledgment every ten packet times, and adopts that rate at
    /// once.
    #[test]
    fn rate__is_the_delivery_rate_at_once() {
        let mut rate = RateControl::new(&SETTINGS);
        // A round trip of one packet, then one of a hundred.
        rate.acknowledge(0, ack(0, false), 99);
        for transmission in 1..=100 {
            rate.acknowledge(transmission * 3_076_000, ack(transmission, true), 200);
        }
        let share = rate.bits_per_s() as f64 / 4e9;
        assert!((0.9..1.0).contains(&share), "{share} of a tenth of the line");
    }

    #[test]
    fn rate__has_a_minimum() {
        let mut rate = RateControl::new(&SETTINGS);
        for transmission in 0..100 {
            rate.on_timeout(transmission);
        }
        assert_eq!(rate.bits_per_s(), 40_000_000_000 / 1_024);
    }
}
