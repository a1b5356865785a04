//! Pacing by earliest departure time, with the runaway guard.

use crate::units::Rate;

/// How far ahead departures go at the safe rate of a lane whose controller is silent: a socket's
/// worth of packets would keep a fast lane waiting long after it is back.
pub const UNATTENDED_HORIZON_NS: u64 = 50_000_000;

/// What becomes of a packet that wants to leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It leaves at `at_ns`; the lane's clock becomes `clock_ns`.
    At {
        /// When it leaves.
        at_ns: u64,
        /// The first moment at which the next packet may leave.
        clock_ns: u64,
    },
    /// Its departure would be too far ahead: drop it and leave the clock alone. Without this a
    /// backlog of drops pushes departures past fq's horizon and goodput collapses (to 0.29 of the
    /// rate, against 0.99 with it).
    TooFar,
}

/// The departure of `bytes` from a lane whose clock stands at `clock_ns`.
///
/// A clock in the past counts as now: an idle lane saves up no burst.
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

/// Where a clock stands at `rate` that `left_ns`, the last departure, was given at the rate `before`:
/// earlier if the rate rose since. What leaves next then isn't held back by a rate that is no longer
/// true: an exact lane's second packet would wait a millisecond for an RTT that was only guessed.
///
/// Overflow: a gap of a minute in Q16 stays below 2^52, and a rate of 5 * 10^10 as well.
#[inline(always)]
pub const fn sooner(clock_ns: u64, left_ns: u64, before: Rate, rate: Rate) -> u64 {
    const GAP_NS_MAX: u64 = 1 << 36;
    let gap_ns = clock_ns.saturating_sub(left_ns);
    if rate.bytes_per_s() <= before.bytes_per_s() || gap_ns > GAP_NS_MAX {
        return clock_ns;
    }
    let share_q16 = (before.bytes_per_s() << 16) / rate.bytes_per_s();
    left_ns + ((gap_ns * share_q16) >> 16) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // The gap is what the present rate makes of the packet, within what Q16 cuts off.
        #[test]
        fn sooner__is_what_the_present_rate_says(
            before in 1_500u64..1_000_000_000,
            rate in 1_500u64..50_000_000_000,
            bytes in 64u32..65_536,
            left_ns in 0u64..1 << 60,
        ) {
            let (before, rate) = (Rate::from_bytes_per_s(before), Rate::from_bytes_per_s(rate));
            let clock_ns = left_ns + before.duration_ns(bytes);
            let next_ns = sooner(clock_ns, left_ns, before, rate);
            prop_assert!(next_ns <= clock_ns && next_ns >= left_ns);
            let expected_ns = before.duration_ns(bytes).min(rate.duration_ns(bytes));
            let error_ns = (next_ns - left_ns).abs_diff(expected_ns);
            prop_assert!(error_ns <= 2 + before.duration_ns(bytes) / 65_536 + expected_ns / 1_000);
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
