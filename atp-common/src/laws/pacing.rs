//! Pacing by earliest departure time, with the runaway guard.

use crate::units::Rate;

/// The horizon of departures at the safe rate, while the controller is silent. A full socket buffer
/// at that rate would delay a fast lane long after the controller is back.
pub const UNATTENDED_HORIZON_NS: u64 = 50_000_000;

/// A lane makes up for a thread or a timer that is late by this time. What a later one misses is
/// lost. On a busy machine most are late by less.
pub const CATCH_UP_NS: u64 = 10_000_000;

/// The departure of a packet that is ready now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The packet leaves at `at_ns`, and the lane's clock becomes `clock_ns`.
    At {
        /// When the packet leaves, nanoseconds.
        at_ns: u64,
        /// The first moment at which the next packet may leave.
        clock_ns: u64,
    },
    /// The packet's departure would be too far ahead: drop it and leave the clock alone. Without
    /// this guard, a backlog moves departures past fq's horizon, and goodput collapses to 0.29 of
    /// the rate instead of 0.99.
    TooFar,
}

/// The departure of `bytes` from a lane whose clock stands at `clock_ns`.
///
/// A clock in the past stays there, so that a lane whose packets came late sends the next ones at
/// once: for [`CATCH_UP_NS`] and `burst_bytes_max` at most. An idle lane collects no longer burst.
#[inline(always)]
pub const fn depart(
    clock_ns: u64,
    now_ns: u64,
    bytes: u32,
    rate: Rate,
    horizon_ns: u64,
    burst_bytes_max: u32,
) -> Departure {
    if clock_ns > now_ns {
        if clock_ns - now_ns > horizon_ns {
            return Departure::TooFar;
        }
        return Departure::At { at_ns: clock_ns, clock_ns: clock_ns + rate.duration_ns(bytes) };
    }
    let burst_ns = rate.duration_ns(burst_bytes_max);
    let late_ns = if burst_ns < CATCH_UP_NS { burst_ns } else { CATCH_UP_NS };
    let least_ns = now_ns.saturating_sub(late_ns);
    let from_ns = if clock_ns > least_ns { clock_ns } else { least_ns };
    Departure::At { at_ns: now_ns, clock_ns: from_ns + rate.duration_ns(bytes) }
}

/// The clock of a lane after its rate rises now from `before` to `rate`: the rest of the wait for
/// the next packet shrinks with the rate. Otherwise an exact lane's second packet would wait a
/// millisecond for an RTT that was only assumed. `left_ns` is the last departure, which may lie
/// ahead; no packet leaves before it.
///
/// Overflow: a wait of a minute in Q16 stays below 2^52, and a rate of 5 * 10^10 as well.
#[inline(always)]
pub const fn hastened(clock_ns: u64, left_ns: u64, now_ns: u64, before: Rate, rate: Rate) -> u64 {
    const WAIT_NS_MAX: u64 = 1 << 36;
    let from_ns = if left_ns > now_ns { left_ns } else { now_ns };
    let wait_ns = clock_ns.saturating_sub(from_ns);
    if rate.bytes_per_s() <= before.bytes_per_s() || wait_ns == 0 || wait_ns > WAIT_NS_MAX {
        return clock_ns;
    }
    // Rounded up, so that no packet leaves too soon.
    let share_q16 = (before.bytes_per_s() << 16) / rate.bytes_per_s() + 1;
    from_ns + ((wait_ns * share_q16) >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Over any time, a lane sends what the rate allows, one packet, and the burst.
        #[test]
        fn depart__makes_up_for_late_packets_with_a_bounded_burst(
            gaps in proptest::collection::vec(0u64..30_000_000, 2..200),
            rate in 100_000u64..1_000_000_000,
            burst_bytes_max in 0u32..200_000,
        ) {
            let rate = Rate::from_bytes_per_s(rate);
            let (mut now_ns, mut clock_ns, mut sent) = (1_000_000_000u64, 0, Vec::new());
            for gap_ns in gaps {
                now_ns += gap_ns;
                // As many as may leave at once, and one that waits.
                for _ in 0..200 {
                    let Departure::At { at_ns, clock_ns: next_ns } =
                        depart(clock_ns, now_ns, 1_500, rate, u64::MAX, burst_bytes_max)
                    else {
                        panic!("beyond any horizon")
                    };
                    clock_ns = next_ns;
                    sent.push(at_ns);
                    if at_ns > now_ns {
                        break;
                    }
                }
                now_ns = now_ns.max(*sent.last().unwrap());
            }
            let burst_ns = rate.duration_ns(burst_bytes_max).min(CATCH_UP_NS);
            let packet_ns = rate.duration_ns(1_500);
            for (first, from_ns) in sent.iter().enumerate() {
                for (number, at_ns) in (0u64..).zip(&sent[first..]) {
                    prop_assert!(at_ns - from_ns + burst_ns + packet_ns >= number * packet_ns);
                }
            }
        }

        // While the rate changes and packets wait, the sent bytes are at most those that the rates
        // allowed, plus a packet, plus one for each fall of the rate. Departures never go back.
        #[test]
        fn hastened__keeps_the_rate_while_it_changes(
            steps in proptest::collection::vec((1_000_000u64..1_000_000_000, 1u64..3_000_000), 2..100),
            bytes in 1_000u32..9_000,
        ) {
            let (mut now_ns, mut clock_ns, mut left_ns) = (1_000_000u64, 0, 0);
            let (mut sent_bytes, mut allowed_bytes, mut falls) = (0.0, 0.0, 0.0);
            let mut rate = Rate::from_bytes_per_s(steps[0].0);
            for (bytes_per_s, lasts_ns) in steps {
                let before = std::mem::replace(&mut rate, Rate::from_bytes_per_s(bytes_per_s));
                falls += f64::from(u8::from(rate < before));
                clock_ns = hastened(clock_ns, left_ns, now_ns, before, rate);
                let end_ns = now_ns + lasts_ns;
                while clock_ns <= end_ns {
                    let Departure::At { at_ns, clock_ns: next_ns } =
                        depart(clock_ns, now_ns, bytes, rate, u64::MAX, 0)
                    else {
                        panic!("beyond any horizon")
                    };
                    prop_assert!(at_ns >= left_ns);
                    (clock_ns, left_ns, now_ns) = (next_ns, at_ns, at_ns);
                    sent_bytes += f64::from(bytes);
                }
                now_ns = end_ns;
                allowed_bytes += bytes_per_s as f64 * lasts_ns as f64 / 1e9;
                // A rate that falls leaves a wait as it is: one packet leaves at the old rate.
                prop_assert!(sent_bytes <= allowed_bytes * 1.002 + (2.0 + falls) * f64::from(bytes),
                    "{sent_bytes} {allowed_bytes}");
            }
        }

        #[test]
        fn depart__keeps_the_rate_over_any_offered_pattern(
            gaps in proptest::collection::vec(0u64..2_000_000, 100..400),
            rate in 100_000u64..1_000_000_000,
        ) {
            let rate = Rate::from_bytes_per_s(rate);
            let (bytes, horizon_ns) = (1500, 5_000_000);
            let (mut now_ns, mut clock_ns) = (1_000_000u64, 0);
            let (mut last_ns, mut sent) = (0, 0u64);
            for gap in gaps {
                now_ns += gap;
                match depart(clock_ns, now_ns, bytes, rate, horizon_ns, 0) {
                    Departure::At { at_ns, clock_ns: next_ns } => {
                        prop_assert!(at_ns >= now_ns && at_ns <= now_ns + horizon_ns);
                        prop_assert!(sent == 0 || at_ns - last_ns >= rate.duration_ns(bytes));
                        (last_ns, clock_ns) = (at_ns, next_ns);
                        sent += 1;
                    }
                    Departure::TooFar => prop_assert!(clock_ns > now_ns + horizon_ns),
                }
            }
            prop_assert!(sent > 0);
        }
    }

    #[test]
    fn depart__of_a_late_packet() {
        let rate = Rate::from_bytes_per_s(1_000_000);
        let depart = |clock_ns, burst| depart(clock_ns, 50_000_000, 1_000, rate, 0, burst);
        let at = |clock_ns| Departure::At { at_ns: 50_000_000, clock_ns };
        // A packet takes 1 ms. The clock was 2 ms late, and is made up for.
        assert_eq!(depart(48_000_000, 5_000), at(49_000_000));
        // Later than the burst, and than 10 ms.
        assert_eq!(depart(40_000_000, 5_000), at(46_000_000));
        assert_eq!(depart(0, 100_000), at(41_000_000));
        // No burst: a clock in the past counts as now.
        assert_eq!(depart(48_000_000, 0), at(51_000_000));
    }
}
