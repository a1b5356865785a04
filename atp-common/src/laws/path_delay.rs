//! The delay of a lane's path without queues that the lane has to make room in: that of the idle
//! path, and the wait of ACKs behind traffic of the opposite direction.

use super::rtt::Rtt;
use bytemuck::{Pod, Zeroable};

/// A period of the least delays is 2^30 ns: longer than a second, so each has a drain
/// ([`super::yielding::drains`]).
const PERIOD_LOG2_NS: u32 = 30;
/// A period of the least wait of ACKs is 2^22 ns, some 4 ms: longer than a busy host delays
/// packets, and shorter than TCP needs to fill a queue or to empty it.
const ACK_PERIOD_LOG2_NS: u32 = 22;
/// Shorter waits of ACKs may be the difference of two clocks: 100 ppm in two periods is 0.21 ms.
const ACK_WAIT_NS_MIN: u64 = 250_000;
/// After as many periods without a time of arrival, the wait of ACKs is unknown.
const ACK_PERIODS_MAX: u64 = 256;
/// Added to forward delays, which may be negative: larger than any 2^31 units.
const FORWARD_ORIGIN_NS: u64 = 1 << 42;
/// Marks a forward delay as known: these have 32 bits.
const IS_KNOWN: u64 = 1 << 32;

/// The least sample of the current period and the previous one. All zero before the first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Least {
    period: u64,
    /// The least samples of this period and of the one before, nanoseconds; 0: none was measured.
    minima_ns: [u64; 2],
}

impl Least {
    const UNKNOWN: Self = Self { period: 0, minima_ns: [0; 2] };

    /// Takes in a sample of a period; one of 0 counts as 1. Periods without any leave the estimate
    /// of the last one. A sample that another processor has overtaken counts in the current one.
    #[inline(always)]
    const fn observe(self, period: u64, sample_ns: u64) -> Self {
        let sample_ns = if sample_ns == 0 { 1 } else { sample_ns };
        let [least_ns, before_ns] = self.minima_ns;
        if period > self.period {
            let before_ns = if least_ns == 0 { before_ns } else { least_ns };
            return Self { period, minima_ns: [sample_ns, before_ns] };
        }
        let is_less = least_ns == 0 || sample_ns < least_ns;
        Self { period, minima_ns: [if is_less { sample_ns } else { least_ns }, before_ns] }
    }

    /// [`Self::observe`] in place; returns the new value.
    ///
    /// # Safety
    /// As [`PathDelay::observe_at`].
    #[inline(always)]
    unsafe fn observe_at(at: *mut Self, period: u64, sample_ns: u64) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let least = at.read_volatile().observe(period, sample_ns);
            at.write_volatile(least);
            least
        }
    }

    /// 0 before the first sample.
    #[inline(always)]
    const fn ns(self) -> u64 {
        let [least_ns, before_ns] = self.minima_ns;
        if before_ns == 0 || (least_ns != 0 && least_ns < before_ns) { least_ns } else { before_ns }
    }

    /// Whether both periods have much the same minimum. A clock that is being corrected, by ntpd at
    /// 500 ppm, changes it more. So does a queue that never empties.
    #[inline(always)]
    const fn is_steady(self) -> bool {
        let [least_ns, before_ns] = self.minima_ns;
        before_ns == 0 || least_ns.abs_diff(before_ns) < ACK_WAIT_NS_MIN
    }
}

/// The delays of a lane's path, measured by its ACKs. All zero before the first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PathDelay {
    /// Round-trip times.
    rtt: Least,
    /// Delays from departure to arrival, by two clocks, plus [`FORWARD_ORIGIN_NS`].
    forward: Least,
    /// The first packet's forward delay, in a header's units of time, and [`IS_KNOWN`].
    reference: u64,
    /// The waits of ACKs, of short periods.
    ack_wait: Least,
}

impl PathDelay {
    /// A period of the least delays, nanoseconds.
    pub const PERIOD_NS: u64 = 1 << PERIOD_LOG2_NS;
    /// No samples.
    pub const UNKNOWN: Self = Self {
        rtt: Least::UNKNOWN,
        forward: Least::UNKNOWN,
        reference: 0,
        ack_wait: Least::UNKNOWN,
    };

    /// Takes in an RTT. `forward`: the time of the packet's arrival by the receiver's clock minus
    /// that of its departure by this host's clock, in a header's units, wrapping; `None` if the
    /// receiver doesn't say it.
    #[inline(always)]
    pub fn observe(mut self, now_ns: u64, rtt_ns: u64, forward: Option<u32>) -> Self {
        // SAFETY: a value of its own.
        unsafe { Self::observe_at(&raw mut self, now_ns, rtt_ns, forward) };
        self
    }

    /// [`Self::observe`] in place, a part at a time: the stack of a program has no room for all.
    ///
    /// # Safety
    /// `path` points to a value that may be read and written. Other processors may write it too:
    /// of two samples at once, parts of either may be lost.
    #[inline(always)]
    pub unsafe fn observe_at(path: *mut Self, now_ns: u64, rtt_ns: u64, forward: Option<u32>) {
        if rtt_ns > Rtt::SAMPLE_NS_MAX {
            return;
        }
        let (period, ack_period) = (now_ns >> PERIOD_LOG2_NS, now_ns >> ACK_PERIOD_LOG2_NS);
        // SAFETY: parts of the value, as the caller promises.
        unsafe {
            let idle_ns = Least::observe_at(&raw mut (*path).rtt, period, rtt_ns).ns();
            let ack_wait = &raw mut (*path).ack_wait;
            let Some(forward) = forward else {
                let last = (&raw const (*ack_wait).period).read_volatile();
                if ack_period > last + ACK_PERIODS_MAX {
                    ack_wait.write_volatile(Least::UNKNOWN);
                }
                return;
            };
            let mut reference = (&raw const (*path).reference).read_volatile();
            if reference & IS_KNOWN == 0 {
                reference = u64::from(forward) | IS_KNOWN;
                (&raw mut (*path).reference).write_volatile(reference);
            }
            let units = i64::from(forward.wrapping_sub(reference as u32) as i32);
            let forward_ns =
                FORWARD_ORIGIN_NS.wrapping_add_signed(units * Rtt::CLOCK_UNIT_NS as i64);
            let forward = Least::observe_at(&raw mut (*path).forward, period, forward_ns);
            // The ACK's wait is the rest of what the RTT has beyond the idle path's.
            let packet_wait_ns = forward_ns - forward.ns();
            let wait_ns = match forward.is_steady() {
                true => rtt_ns.saturating_sub(idle_ns).saturating_sub(packet_wait_ns),
                false => 0,
            };
            Least::observe_at(ack_wait, ack_period, wait_ns);
        }
    }

    /// The least RTT of the current and the previous period, nanoseconds; 0 before any sample.
    #[inline(always)]
    pub const fn idle_ns(self) -> u64 {
        self.rtt.ns()
    }

    /// [`Self::idle_ns`] of a value that other processors may write.
    ///
    /// # Safety
    /// `path` points to a value that may be read.
    #[inline(always)]
    pub unsafe fn idle_ns_at(path: *const Self) -> u64 {
        // SAFETY: a part of the value, as the caller promises.
        unsafe { (&raw const (*path).rtt).read_volatile() }.ns()
    }

    /// The time that a window covers: the idle path, and the wait that all ACKs of the last
    /// milliseconds had, nanoseconds. 0 before the first sample. A receiver whose times are wrong
    /// can lengthen it to an RTT.
    ///
    /// More than one wait would let two lanes of opposite directions lengthen each other's queues.
    #[inline(always)]
    pub const fn covered_ns(self) -> u64 {
        let wait_ns = self.ack_wait.ns();
        self.idle_ns() + if wait_ns < ACK_WAIT_NS_MIN { 0 } else { wait_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD_NS: u64 = PathDelay::PERIOD_NS;
    const MS: u64 = 1_000_000;
    /// A unit of time; delays of whole units have no rounding.
    const UNIT: u64 = Rtt::CLOCK_UNIT_NS;

    proptest! {
        // The least of the last period at least, and of the last two with samples at most.
        #[test]
        fn observe__keeps_the_least_of_two_periods(
            steps in proptest::collection::vec((0..PERIOD_NS, 1u64..100_000), 1..60),
        ) {
            let (mut path, mut now_ns, mut samples) = (PathDelay::UNKNOWN, 0, vec![]);
            prop_assert_eq!(path.idle_ns(), 0);
            for (gap_ns, sample_ns) in steps {
                now_ns += gap_ns;
                path = path.observe(now_ns, sample_ns, None);
                samples.push((now_ns, sample_ns));
                let least_since = |since_ns: u64| {
                    let recent = samples.iter().filter(|(at_ns, _)| *at_ns >= since_ns);
                    recent.map(|(_, sample_ns)| *sample_ns).min().unwrap()
                };
                prop_assert!(path.idle_ns() <= least_since(now_ns.saturating_sub(PERIOD_NS - 1)));
                prop_assert!(path.idle_ns() >= least_since(now_ns.saturating_sub(3 * PERIOD_NS)));
                prop_assert_eq!(path.covered_ns(), path.idle_ns());
            }
        }

        // Clocks of any difference; packets and ACKs that wait for any time.
        #[test]
        fn observe__tells_the_wait_of_the_ack_from_that_of_the_packet(
            clocks: u32,
            waits in proptest::collection::vec((0u64..20_000, 0u64..20_000), 1..40),
        ) {
            const IDLE: u64 = 100;
            let forward = |wait: u64| Some(clocks.wrapping_add((IDLE / 2 + wait) as u32));
            let mut path = PathDelay::UNKNOWN.observe(0, IDLE * UNIT, forward(0));
            let mut now_ns = MS;
            for (packet, ack) in waits {
                // Each is alone in its periods of ACKs.
                now_ns += 3 << ACK_PERIOD_LOG2_NS;
                for at_ns in [now_ns, now_ns + (1 << ACK_PERIOD_LOG2_NS)] {
                    path = path.observe(at_ns, (IDLE + packet + ack) * UNIT, forward(packet));
                }
                prop_assert_eq!(path.idle_ns(), IDLE * UNIT);
                let wait_ns = if ack * UNIT < ACK_WAIT_NS_MIN { 0 } else { ack * UNIT };
                prop_assert_eq!(path.covered_ns(), IDLE * UNIT + wait_ns);
            }
        }

        // The receiver is hostile, or its clock jumps.
        #[test]
        fn observe__any_forward_delay_covers_an_rtt_at_most(
            samples in proptest::collection::vec((any::<u32>(), any::<u64>(), 0..PERIOD_NS), 1..60),
        ) {
            let (mut path, mut now_ns) = (PathDelay::UNKNOWN, 0);
            for (forward, rtt_ns, gap_ns) in samples {
                now_ns += gap_ns;
                let rtt_ns = rtt_ns % Rtt::SAMPLE_NS_MAX;
                path = path.observe(now_ns, rtt_ns, Some(forward));
                prop_assert!(path.covered_ns() >= path.idle_ns());
                prop_assert!(path.covered_ns() <= rtt_ns.max(path.idle_ns()));
            }
        }
    }

    /// The window of a lane whose packets wait for 2 ms, after two seconds without a wait. The
    /// receiver's clock is slow, so packets seem faster from time to time.
    fn covered_with_drift_ns(ppm: u64) -> u64 {
        let at = |path: PathDelay, ms: u64, wait_ns: u64| {
            let drift_ns = ms * MS / 1_000_000 * ppm;
            let forward = (50 * MS + wait_ns - drift_ns) / UNIT;
            path.observe(ms * MS, MS + wait_ns, Some(forward as u32))
        };
        let path = (0..2_000).fold(PathDelay::UNKNOWN, |path, ms| at(path, ms, 0));
        (2_000..2_100).fold(path, |path, ms| at(path, ms, 2 * MS)).covered_ns()
    }

    #[test]
    fn observe__clocks_that_drift_are_no_wait() {
        assert_eq!(covered_with_drift_ns(0), MS);
        assert_eq!(covered_with_drift_ns(100), MS);
        // A clock that is being corrected.
        assert_eq!(covered_with_drift_ns(500), MS);
        assert_eq!(covered_with_drift_ns(20_000), MS);
    }

    #[test]
    fn observe__an_idle_lane_keeps_its_estimate() {
        let path = PathDelay::UNKNOWN.observe(0, 300, None).observe(5 * PERIOD_NS, 900, None);
        assert_eq!(path.idle_ns(), 300);
        assert_eq!(path.observe(6 * PERIOD_NS, 800, None).idle_ns(), 800);
        // No RTT is that long: the clock is wrong, or the echo hostile.
        assert_eq!(path.observe(6 * PERIOD_NS, u64::MAX, Some(1)), path);
    }

    #[test]
    fn observe__one_late_ack_is_no_queue() {
        let late = |path: PathDelay, now_ns| path.observe(now_ns, 5 * MS, Some(9));
        let path = PathDelay::UNKNOWN.observe(0, MS, Some(9));
        assert_eq!(late(path, MS).covered_ns(), MS);
        // All of two periods.
        let path = (2..6).fold(path, |path, period| late(path, period << ACK_PERIOD_LOG2_NS));
        assert_eq!(path.covered_ns(), 5 * MS);
        assert_eq!(path.observe(30 * MS, MS, Some(9)).covered_ns(), MS);
        // A short packet's ACK has no time. An earlier version at the receiver sends none.
        assert_eq!(path.observe(30 * MS, 5 * MS, None).covered_ns(), 5 * MS);
        assert_eq!(path.observe(2_000 * MS, 5 * MS, None).covered_ns(), MS);
    }
}
