//! The clock of the datapath.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_REALTIME, the clock that hosts share well enough.
pub fn shared_ns() -> u64 {
    // A clock before 1970 counts as 1970.
    clock_gettime(ClockId::CLOCK_REALTIME)
        .ok()
        .and_then(|time| u64::try_from(time.tv_sec()).ok().zip(u64::try_from(time.tv_nsec()).ok()))
        .map_or(0, |(s, ns)| s.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    // The call fails only for a clock that doesn't exist.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
