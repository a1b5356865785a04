//! Pacing by earliest departure time, with the runaway guard.

use crate::units::Rate;

/// The horizon of departures at the safe rate, while the controller is silent. A full socket buffer
/// at that rate would delay a fast lane long after the controller is back.
pub const UNATTENDED_HORIZON_NS: u64 = 50_000_000;

/// The departure of a packet that is ready now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It leaves at `at_ns`, and the lane's clock becomes `clock_ns`.
    At {
        /// When it leaves.
        at_ns: u64,
        /// The first moment at which the next packet may leave.
        clock_ns: u64,
    },
    /// Its departure would be too far ahead: drop it and leave the clock alone. Without this guard,
    /// a backlog moves departures past fq's horizon, and goodput collapses to 0.29 of the rate
    /// instead of 0.99.
    TooFar,
}

/// The departure of `bytes` from a lane whose clock stands at `clock_ns`.
///
/// A clock in the past counts as now, so an idle lane collects no burst.
#[inline(always)]
pub const fn depart(
    clock_ns: u64,
    now_ns: u64,
    bytes: u32,
    rate: Rate,
    horizon_ns: u64,
) -> Departure {
    let at_ns = if clock_ns > now_ns { clock_ns } else { now_ns };
    if at_ns - now_ns > horizon_ns {
        return Departure::TooFar;
    }
    Departure::At { at_ns, clock_ns: at_ns + rate.duration_ns(bytes) }
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
                        depart(clock_ns, now_ns, bytes, rate, u64::MAX)
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
                match depart(clock_ns, now_ns, bytes, rate, horizon_ns) {
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
}
