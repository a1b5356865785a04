//! The clock that all processes of a run share. Network namespaces don't change the clock.

use std::time::Duration;

use anyhow::Result;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

/// The reading of CLOCK_MONOTONIC, nanoseconds.
pub fn now_ns() -> u64 {
    // Linux always has this clock, and it counts from boot, so it isn't negative.
    ClockId::CLOCK_MONOTONIC.now().map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// Sleeps until `at_ns`; returns at once if that has passed.
pub fn sleep_until(at_ns: u64) -> Result<()> {
    let at = TimeSpec::from(Duration::from_nanos(at_ns));
    loop {
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Seconds between two readings; 0 if they are out of order.
pub fn seconds_between(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_until__is_not_early() {
        let until = now_ns() + 3_000_000;
        sleep_until(until).unwrap();
        assert!(now_ns() >= until);
        sleep_until(0).unwrap();
    }

    #[test]
    fn seconds_between__never_negative() {
        assert_eq!(seconds_between(1_000_000_000, 2_500_000_000), 1.5);
        assert_eq!(seconds_between(5, 3), 0.0);
    }
}
