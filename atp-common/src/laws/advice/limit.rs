//! The sender's side of advice: limits the rate law, and makes gaps between packets uneven.
//!
//! Lanes at the same advised rate stay in step: their packets meet in a queue of a few packets
//! again and again. With uneven gaps they don't.

use super::{Floor, PACKETS_MIN};
use crate::{laws::rtt::Rtt, units::Rate, wire::Advice};
use bytemuck::{Pod, Zeroable};

/// Advice without a further receipt ends after this time, or after four RTTs or packets if that is
/// longer.
const LIFETIME_NS_MIN: u64 = 10_000_000;
/// The least advised rate is a full packet in this time, so that no receiver stops a lane.
const PACKETS_PER_S_MIN: u64 = 10;
/// The bytes of a packet that advice counts and paced rates don't: checksum, preamble and gap.
const UNPACED_BYTES: u64 = 24;
/// An exact lane that advice holds up sends at least this part of it.
const HELD_UP_DIVISOR: u64 = 4;
/// The gain of the mean packet's average, as a shift.
const GAIN_SHIFT: u32 = 2;

/// A lane's advice, as its sender uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AdviceLimit {
    /// Bytes per second on the wire; 0 for none.
    advice_bytes_per_s: u64,
    /// When the last receipt came.
    received_ns: u64,
    /// The lane's mean packet, as paced.
    packet_bytes: u64,
}

impl AdviceLimit {
    /// No advice yet. `packet_bytes`: a full packet, as paced.
    pub const fn new(packet_bytes: u32) -> Self {
        Self { advice_bytes_per_s: 0, received_ns: 0, packet_bytes: packet_bytes as u64 }
    }

    /// Takes in the advice of the newest receipt, which came at `received_ns`.
    pub const fn receive(&mut self, advice: Advice, received_ns: u64) {
        self.advice_bytes_per_s = advice.bytes_per_s();
        self.received_ns = received_ns;
    }

    /// Whether there is advice.
    pub const fn is_advised(&self) -> bool {
        self.advice_bytes_per_s > 0
    }

    /// The advice, bytes per second on the wire; 0 for none.
    pub const fn bytes_per_s(&self) -> u64 {
        self.advice_bytes_per_s
    }

    /// Forgets advice that no receipt has repeated for too long.
    pub const fn expire(&mut self, now_ns: u64, rtt: Rtt) {
        if self.advice_bytes_per_s == 0 {
            return;
        }
        let packets_ns = PACKETS_MIN * self.advised().duration_ns(self.packet_bytes as u32);
        let rtts_ns = 4 * rtt.smoothed_ns;
        let longer_ns = if packets_ns > rtts_ns { packets_ns } else { rtts_ns };
        let lifetime_ns = if longer_ns > LIFETIME_NS_MIN { longer_ns } else { LIFETIME_NS_MIN };
        if now_ns.saturating_sub(self.received_ns) > lifetime_ns {
            self.advice_bytes_per_s = 0;
        }
    }

    /// Takes in the packets of an epoch, for the mean packet.
    pub const fn note_sent(&mut self, packets: u64, bytes: u64) {
        if let Some(mean) = bytes.checked_div(packets) {
            self.packet_bytes =
                self.packet_bytes - (self.packet_bytes >> GAIN_SHIFT) + (mean >> GAIN_SHIFT);
        }
    }

    /// The rate to send at, if the law's rate is `law`: between the part of the advice that `floor`
    /// says and the advice, and at most `rate_max`.
    pub const fn limited(&self, law: Rate, rate_max: Rate, floor: Floor) -> Rate {
        if self.advice_bytes_per_s == 0 {
            return law;
        }
        let most = self.most(rate_max);
        let (law, least) = (law.bytes_per_s(), most / floor.divisor());
        let rate = if law < least { least } else { law };
        Rate::from_bytes_per_s(if rate > most { most } else { rate })
    }

    /// The rate to send at, if the law's rate is `law` and advice only holds it up: at least a
    /// quarter of the advice, and at most `rate_max`.
    pub const fn held_up(&self, law: Rate, rate_max: Rate) -> Rate {
        if self.advice_bytes_per_s == 0 {
            return law;
        }
        let (law, least) = (law.bytes_per_s(), self.most(rate_max) / HELD_UP_DIVISOR);
        Rate::from_bytes_per_s(if law < least { least } else { law })
    }

    /// The rate to send at, if the law's rate is `law` and advice is an upper limit only.
    pub const fn capped(&self, law: Rate, rate_max: Rate) -> Rate {
        if self.advice_bytes_per_s == 0 {
            return law;
        }
        let (law, most) = (law.bytes_per_s(), self.most(rate_max));
        Rate::from_bytes_per_s(if law > most { most } else { law })
    }

    /// The advice as a paced rate, and at most `rate_max`; bytes per second.
    const fn most(&self, rate_max: Rate) -> u64 {
        let (most, rate_max) = (self.advised().bytes_per_s(), rate_max.bytes_per_s());
        if most > rate_max { rate_max } else { most }
    }

    /// The advice as a paced rate.
    ///
    /// Overflow: a rate of 5 * 10^10 times a packet below 2^17.
    const fn advised(&self) -> Rate {
        let bytes = if self.packet_bytes > 1 << 16 { 1 << 16 } else { self.packet_bytes };
        let most = Rate::from_bytes_per_s(self.advice_bytes_per_s).bytes_per_s();
        let paced = most * bytes / (bytes + UNPACED_BYTES);
        let least = PACKETS_PER_S_MIN * bytes;
        Rate::from_bytes_per_s(if paced < least { least } else { paced })
    }
}

/// The most that a gap is longer or shorter than the rate says, Q16: 0.3.
const JITTER_Q16: u64 = 19_661;

/// The bytes that a packet of `bytes` counts for in a lane with uneven gaps: 0.7 to 1.3 of them.
/// Their mean over `numbers`, of which each packet has its own, is `bytes`.
#[inline(always)]
pub const fn uneven_bytes(bytes: u32, number: u32) -> u32 {
    // 0 to 2^17 - 1 times 0.3, around 0.7: 0.7 to 1.3 in Q16.
    let random = (hash(number) >> 15) as u64;
    let factor_q16 = (1 << 16) - JITTER_Q16 + ((random * JITTER_Q16) >> 16);
    ((bytes as u64 * factor_q16) >> 16) as u32
}

/// The finalizer of MurmurHash3.
const fn hash(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn limit(advice: Advice, packet_bytes: u32) -> AdviceLimit {
        let mut limit = AdviceLimit::new(packet_bytes);
        limit.receive(advice, 0);
        limit
    }

    proptest! {
        // No advice pushes a lane beyond Rmax, or beyond the greater of the law's rate and a
        // quarter of the advice. Beyond the law's rate, it is a quarter of Rmax at most.
        #[test]
        fn limited__whatever_a_receiver_says(
            message: u32,
            law in 1_000u64..50_000_000_000,
            rate_max in 1_000_000u64..50_000_000_000,
            packet_bytes in 74u32..9_014,
            measured in 0..100,
            acked in 0u64..=10,
        ) {
            let (rate_max, law) = (Rate::from_bytes_per_s(rate_max), Rate::from_bytes_per_s(law));
            let law = law.min(rate_max);
            let advice = Advice::from_wire(message);
            let mut floor = Floor::USUAL;
            (0..measured).for_each(|_| floor.observe(true, 10, acked));
            let rate = limit(advice, packet_bytes).limited(law, rate_max, floor);
            let least = PACKETS_PER_S_MIN * u64::from(packet_bytes);
            let quarter = (advice.bytes_per_s() / 4).max(least).min(rate_max.bytes_per_s() / 4);
            prop_assert!(rate <= rate_max);
            prop_assert!(rate.bytes_per_s() <= law.bytes_per_s().max(quarter));
            prop_assert!(rate.bytes_per_s() > 0);
        }

        #[test]
        fn limited__is_between_an_eighth_of_the_advice_and_the_advice(
            advice in 1_000_000u64..50_000_000_000,
            law in 1_000u64..50_000_000_000,
            packet_bytes in 74u32..9_014,
        ) {
            let paced = f64::from(packet_bytes) / f64::from(packet_bytes + 24);
            let advised = (advice / 64 * 64) as f64 * paced;
            let expected = (law as f64).max(advised / 8.0).min(advised);
            let limit = limit(Advice::of(advice), packet_bytes);
            let found = limit.limited(Rate::from_bytes_per_s(law), Rate::MAX, Floor::USUAL);
            prop_assert!((found.bytes_per_s() as f64 - expected).abs() <= 2.0);
        }

        #[test]
        fn limited__is_monotone(
            advice in (1u64..50_000_000_000, 0u64..1_000_000_000),
            law in (1u64..50_000_000_000, 0u64..1_000_000_000),
        ) {
            let at = |advice, law| {
                limit(Advice::of(advice), 1_474).limited(
                    Rate::from_bytes_per_s(law),
                    Rate::MAX,
                    Floor::USUAL,
                )
            };
            prop_assert!(at(advice.0, law.0) <= at(advice.0 + advice.1, law.0 + law.1));
        }
    }

    #[test]
    fn held_up__is_never_below_the_law() {
        let limit = limit(Advice::of(1_000_000), 1_474);
        let held_up = |law| {
            let law = Rate::from_bytes_per_s(law);
            limit.held_up(law, Rate::from_bytes_per_s(800_000)).bytes_per_s()
        };
        assert_eq!(
            (held_up(1_000), held_up(300_000), held_up(790_000)),
            (200_000, 300_000, 790_000)
        );
        let hasty = AdviceLimit::new(1_474).held_up(Rate::from_bytes_per_s(9), Rate::MAX);
        assert_eq!(hasty, Rate::from_bytes_per_s(9));
    }

    #[test]
    fn limited__without_advice_is_the_law() {
        let law = Rate::from_bytes_per_s(77);
        assert_eq!(limit(Advice::NONE, 1_474).limited(law, Rate::MAX, Floor::USUAL), law);
    }

    #[test]
    fn expire__after_ten_milliseconds_four_rtts_or_four_packets() {
        for (advice, rtt_ns, lifetime_ns) in [
            (125_000_000, MS / 5, 10 * MS),
            (125_000_000, 20 * MS, 80 * MS),
            (149_800, MS / 5, 40 * MS),
        ] {
            let mut limit = limit(Advice::of(advice), 1_474);
            let rtt = Rtt::default().observe(rtt_ns);
            limit.expire(lifetime_ns - MS / 10, rtt);
            assert!(limit.is_advised(), "{advice} {rtt_ns}");
            limit.expire(lifetime_ns + MS / 10, rtt);
            assert!(!limit.is_advised(), "{advice} {rtt_ns}");
        }
    }

    #[test]
    fn note_sent__follows_the_mean_packet() {
        let mut limit = AdviceLimit::new(1_474);
        (0..40).for_each(|_| limit.note_sent(10, 1_740));
        assert!(limit.packet_bytes.abs_diff(174) <= 4, "{limit:?}");
        limit.note_sent(0, 0);
        assert!(limit.packet_bytes.abs_diff(174) <= 4);
    }

    #[test]
    fn uneven_bytes__keep_the_rate_on_average() {
        let all: Vec<u32> = (0..10_000).map(|number| uneven_bytes(1_474, number)).collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        assert!((1_031..1_040).contains(least) && (1_908..=1_916).contains(most), "{least} {most}");
        let mean = all.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / 10_000.0;
        assert!((mean - 1_474.0).abs() < 10.0, "{mean}");
        let next = all.windows(2).map(|pair| f64::from(pair[0].abs_diff(pair[1]))).sum::<f64>();
        assert!((next / 9_999.0 - 1_474.0 * 0.2).abs() < 10.0, "neighbors depend on each other");
    }
}
