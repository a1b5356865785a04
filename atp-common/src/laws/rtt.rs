//! Measures round-trip times: smoothed as in RFC 6298 with bounded samples, and the minimum. Where
//! queues are deep, packets that others have overtaken give no samples.

use crate::units::PodBool;
use bytemuck::{Pod, Zeroable};

/// The RTT of a lane, measured by its ACKs. All zero before the first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Rtt {
    /// Smoothed, nanoseconds (RFC 6298, gain 1/8).
    pub smoothed_ns: u64,
    /// Mean deviation, nanoseconds (RFC 6298, gain 1/4).
    pub variation_ns: u64,
    /// The minimum, nanoseconds.
    pub min_ns: u64,
}

impl Rtt {
    /// The greatest accepted sample. Samples above ten seconds come from a wrong clock or from a
    /// hostile echo.
    pub const SAMPLE_NS_MAX: u64 = 10_000_000_000;
    /// The default timer granularity of hosts (G in RFC 6298): how late threads and timers usually
    /// are, at most.
    pub const TIMER_GRANULARITY_NS: u64 = 1_000_000;
    /// A sample counts as this many smoothed RTTs at most, so it doubles the estimate at most.
    /// Packets that starved in a low queue arrive milliseconds late. Three such samples would hide
    /// an RTT of microseconds for dozens of ACKs.
    const SAMPLE_RTTS_MAX: u64 = 9;
    /// The header's unit of time. Below it, the estimate is too coarse to bound a sample by.
    pub(crate) const CLOCK_UNIT_NS: u64 = 1_024;
    /// How long to wait for the first ACK, while the RTT is unknown.
    const UNKNOWN_NS: u64 = 200_000_000;

    /// The estimate with one more sample; samples out of bounds change nothing.
    ///
    /// It uses no division and no signed numbers: eBPF runs it for each ACK.
    #[inline(always)]
    pub const fn observe(self, sample_ns: u64) -> Self {
        if sample_ns > Self::SAMPLE_NS_MAX {
            return self;
        }
        let sample_ns = if sample_ns == 0 { 1 } else { sample_ns };
        if self.smoothed_ns == 0 {
            return Self { smoothed_ns: sample_ns, variation_ns: sample_ns / 2, min_ns: sample_ns };
        }
        let most_ns = self.sample_ns_max();
        let sample_ns = if sample_ns > most_ns { most_ns } else { sample_ns };
        let deviation = sample_ns.abs_diff(self.smoothed_ns);
        Self {
            smoothed_ns: self.smoothed_ns - (self.smoothed_ns >> 3) + (sample_ns >> 3),
            variation_ns: self.variation_ns - (self.variation_ns >> 2) + (deviation >> 2),
            min_ns: if sample_ns < self.min_ns { sample_ns } else { self.min_ns },
        }
    }

    /// The most that a sample counts as.
    const fn sample_ns_max(self) -> u64 {
        let known_ns = match self.smoothed_ns < Self::CLOCK_UNIT_NS {
            true => Self::CLOCK_UNIT_NS,
            false => self.smoothed_ns,
        };
        Self::SAMPLE_RTTS_MAX * known_ns
    }

    /// The usual time from a packet's departure to its ACK: one smoothed RTT and its mean
    /// deviation, or a default before the first sample.
    pub const fn usual_ns(self) -> u64 {
        match self.smoothed_ns {
            0 => Self::UNKNOWN_NS,
            smoothed_ns => smoothed_ns + self.variation_ns,
        }
    }

    /// The time from a packet's departure within which its ACK almost always comes (RFC 6298 §2.3).
    pub const fn late_ns(self) -> u64 {
        match self.smoothed_ns {
            0 => Self::UNKNOWN_NS,
            smoothed_ns => smoothed_ns + 4 * self.variation_ns,
        }
    }

    /// The timeout: after this long without an ACK a packet counts as lost, even if no later one
    /// was acknowledged. It is RFC 6298's `SRTT + 4 * RTTVAR`, at least five times the timer
    /// granularity, and twenty times the timer granularity before the first sample.
    ///
    /// Before the first sample, the timeout is shorter than the time that the laws wait for ACKs.
    /// The first packets of an incast may all be lost, and should be retransmitted soon. Timeouts
    /// double, so on a longer path an early timeout only costs some duplicates. An early evaluation
    /// would lower the rate for ACKs that are still in flight, which costs more.
    pub const fn timeout_ns(self, timer_granularity_ns: u64) -> u64 {
        if self.smoothed_ns == 0 {
            return 20 * timer_granularity_ns;
        }
        let (floor_ns, late_ns) = (5 * timer_granularity_ns, self.late_ns());
        if late_ns < floor_ns { floor_ns } else { late_ns }
    }
}

/// Measures the RTT of a lane by its ACKs.
///
/// A lane that changes its queue overtakes its own packets. In a deep queue dozens of them wait
/// until the traffic above ends, and then arrive at once, up to a second old. The bound on samples
/// is too weak for so many: they turned an RTT of 6 ms into one of 400 ms, and an epoch lasts an
/// RTT. So an overtaken packet is no sample where the bound would apply. RFC 9002 §5.1 takes none
/// of any overtaken packet, but on paths that reorder, RTTs would seem shorter than they are.
///
/// Short queues hold few packets. There every ACK is a sample, as in the paper's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RttMeter {
    /// The estimate.
    pub rtt: Rtt,
    /// When the last packet left of those acknowledged so far, nanoseconds.
    pub acked_departure_ns: u64,
    /// Whether overtaken packets are no samples.
    pub skips_overtaken: PodBool,
}

impl RttMeter {
    /// A meter without samples, in a network whose approximate queues are deep or aren't.
    pub const fn new(deep_queues: PodBool) -> Self {
        let rtt = Rtt { smoothed_ns: 0, variation_ns: 0, min_ns: 0 };
        Self { rtt, acked_departure_ns: 0, skips_overtaken: deep_queues }
    }

    /// Goes on from an estimate from elsewhere.
    pub const fn at_estimate(self, rtt: Rtt) -> Self {
        Self { rtt, ..self }
    }

    /// Takes in an ACK that came at `now_ns`, of a packet that left `age_ns` before.
    #[inline(always)]
    pub const fn on_ack(self, now_ns: u64, age_ns: u64) -> Self {
        let departure_ns = now_ns.saturating_sub(age_ns);
        let overtaken_ns = self.acked_departure_ns.saturating_sub(departure_ns);
        if self.skips_overtaken.is_true() && overtaken_ns > self.rtt.sample_ns_max() {
            return self;
        }
        let acked_departure_ns = match departure_ns > self.acked_departure_ns {
            true => departure_ns,
            false => self.acked_departure_ns,
        };
        Self { rtt: self.rtt.observe(age_ns), acked_departure_ns, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // RFC 6298 §2.3 with bounded samples, against floating point: within 16 ns, the rounding of
        // shifts at these gains.
        #[test]
        fn observe__matches_the_filter(samples in proptest::collection::vec(1u64..10_000_000_000, 1..300)) {
            let mut rtt = Rtt::default();
            let (mut smoothed, mut variation) = (0.0f64, 0.0f64);
            for (i, &sample) in samples.iter().enumerate() {
                let most = 9 * rtt.smoothed_ns.max(1_024);
                rtt = rtt.observe(sample);
                if i == 0 {
                    smoothed = sample as f64;
                    variation = sample as f64 / 2.0;
                } else {
                    let sample = sample.min(most) as f64;
                    variation += ((sample - smoothed).abs() - variation) / 4.0;
                    smoothed += (sample - smoothed) / 8.0;
                }
                prop_assert!((rtt.smoothed_ns as f64 - smoothed).abs() <= 16.0);
                prop_assert!((rtt.variation_ns as f64 - variation).abs() <= 32.0);
            }
            prop_assert_eq!(rtt.min_ns, *samples.iter().min().unwrap());
        }
    }

    /// The estimate after `number` more samples of `sample_ns`.
    fn after(rtt: Rtt, number: u32, sample_ns: u64) -> Rtt {
        (0..number).fold(rtt, |rtt, _| rtt.observe(sample_ns))
    }

    #[test]
    fn observe__late_packets_of_a_low_queue_hide_no_rtt() {
        let rtt = after(Rtt::default(), 100, 3_000);
        let late = after(rtt, 3, 2_000_000);
        assert!(late.smoothed_ns <= 8 * 3_000 && late.usual_ns() <= 100_000, "{late:?}");
        let again = after(late, 20, 3_000);
        assert!(again.usual_ns() <= 3 * 3_000, "{again:?}");
    }

    #[test]
    fn observe__learns_a_longer_path_within_a_few_acks() {
        for (shorter_ns, longer_ns, acks) in
            [(3_000, 2_000_000, 10), (100_000, 1_000_000, 2), (100_000, 100_000_000, 10)]
        {
            let rtt = after(after(Rtt::default(), 100, shorter_ns), acks, longer_ns);
            assert!(rtt.late_ns() >= longer_ns, "{shorter_ns} to {longer_ns}: {rtt:?}");
        }
        // The clock reads 0 within one of its units.
        assert!(after(after(Rtt::default(), 100, 0), 1, 5_000).late_ns() >= 5_000);
    }

    #[test]
    fn observe__ignores_impossible_samples() {
        let rtt = Rtt::default().observe(1000);
        assert_eq!(rtt.observe(u64::MAX), rtt);
    }

    const MS: u64 = 1_000_000;

    /// A meter in the middle of a stream of packets with this RTT, and the time.
    fn steady(rtt_ns: u64) -> (RttMeter, u64) {
        let now_ns = 1_000_000 * MS;
        let of = |meter: RttMeter, ack: u64| meter.on_ack(now_ns + ack * rtt_ns / 10, rtt_ns);
        ((0..100).fold(RttMeter::new(PodBool::TRUE), of), now_ns + 10 * rtt_ns)
    }

    proptest! {
        // However many packets starved in a low queue, and for how long.
        #[test]
        fn on_ack__overtaken_packets_are_no_samples(
            // A thousand of them are no impossible sample.
            rtt_ns in 2_000u64..9 * MS,
            overtaken_rtts in proptest::collection::vec(11u64..1_000, 1..200),
        ) {
            let (meter, now_ns) = steady(rtt_ns);
            let late = |meter: RttMeter, rtts: &u64| meter.on_ack(now_ns, (1 + rtts) * rtt_ns);
            prop_assert_eq!(overtaken_rtts.iter().fold(meter, late), meter);
            // In short queues they are.
            let short = RttMeter { skips_overtaken: PodBool::FALSE, ..meter };
            prop_assert!(overtaken_rtts.iter().fold(short, late).rtt.smoothed_ns > rtt_ns * 3 / 2);
        }

        // In order, and with reordering within the bound, every ACK is a sample.
        #[test]
        fn on_ack__packets_within_the_bound_are_samples(
            rtt_ns in 2_000u64..100 * MS,
            percents in proptest::collection::vec(50u64..400, 1..100),
        ) {
            let (mut meter, now_ns) = steady(rtt_ns);
            let mut rtt = meter.rtt;
            for percent in percents {
                let age_ns = rtt_ns * percent / 100;
                (meter, rtt) = (meter.on_ack(now_ns, age_ns), rtt.observe(age_ns));
                prop_assert_eq!(meter.rtt, rtt);
            }
        }
    }

    #[test]
    fn on_ack__learns_a_longer_path() {
        let (mut meter, mut now_ns) = steady(MS);
        // Packets of the longer path arrive in order.
        for _ in 0..40 {
            now_ns += MS;
            meter = meter.on_ack(now_ns + 100 * MS, 100 * MS);
        }
        assert!(meter.rtt.smoothed_ns > 90 * MS, "{meter:?}");
    }
}
