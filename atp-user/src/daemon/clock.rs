//! The clock of the datapath.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    // The call fails only for a clock that doesn't exist.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
