//! Paces by sleeping. Packets leave a little early, in bursts, so that one wakeup sends several.
//! The clock of [`depart`] keeps the rate exact over longer times.

use atp_common::{
    laws::pacing::{Departure, depart, hastened},
    units::Rate,
};

/// How early packets may leave: at 200 Mbit/s two packets per wakeup. Longer bursts would overflow
/// the short queues for approximate traffic.
pub const EARLY_NS: u64 = 120_000;

/// The pacing clock of one lane.
pub struct Pacer {
    clock_ns: u64,
    early_ns: u64,
}

impl Pacer {
    /// Packets may leave `early_ns` before their time.
    pub fn new(now_ns: u64, early_ns: u64) -> Self {
        Self { clock_ns: now_ns, early_ns }
    }

    /// How far the clock is ahead of the time: the backlog as time.
    pub fn ahead_ns(&self, now_ns: u64) -> u64 {
        self.clock_ns.saturating_sub(now_ns)
    }

    /// The time until which to sleep; `None` if a packet may leave now. The sleep ends a little
    /// before the clock's time, so that a late wakeup doesn't lower the rate.
    pub fn hold_until(&self, now_ns: u64) -> Option<u64> {
        let early_by_ns = self.clock_ns.saturating_sub(now_ns);
        (early_by_ns > self.early_ns).then(|| self.clock_ns - self.early_ns / 4)
    }

    /// Advances the clock for a packet of `bytes` that leaves.
    pub fn depart(&mut self, now_ns: u64, bytes: u32, rate: Rate) {
        match depart(self.clock_ns, now_ns, bytes, rate, self.early_ns, 0) {
            Departure::At { clock_ns, .. } => self.clock_ns = clock_ns,
            // Keeps the rate even if the caller did not respect `hold_until`.
            Departure::TooFar => self.clock_ns += rate.duration_ns(bytes),
        }
    }

    /// Adapts the clock to a new rate. No packet waits here: all that were counted have left.
    pub fn hasten(&mut self, now_ns: u64, before: Rate, rate: Rate) {
        self.clock_ns = hastened(self.clock_ns, now_ns, now_ns, before, rate);
    }

    /// Takes back the last packet: it did not leave.
    pub fn take_back(&mut self, bytes: u32, rate: Rate) {
        self.clock_ns = self.clock_ns.saturating_sub(rate.duration_ns(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends whenever the pacer allows, with wakeups as late as on a busy host.
    fn bytes_sent(rate: Rate, late_ns: u64, duration_ns: u64) -> u64 {
        let mut pacer = Pacer::new(0, EARLY_NS);
        let (mut now_ns, mut sent) = (0, 0);
        while now_ns < duration_ns {
            match pacer.hold_until(now_ns) {
                Some(until_ns) => now_ns = until_ns + late_ns,
                None => {
                    pacer.depart(now_ns, 1_500, rate);
                    sent += 1_500;
                }
            }
        }
        sent
    }

    #[test]
    fn hold_until__keeps_the_rate_despite_late_wakeups() {
        for bytes_per_s in [150_000, 25_000_000, 1_250_000_000] {
            let rate = Rate::from_bytes_per_s(bytes_per_s);
            let expected = rate.bytes_in(1_000_000_000) as f64;
            let sent = bytes_sent(rate, 25_000, 1_000_000_000) as f64;
            assert!((sent / expected - 1.0).abs() < 0.02, "{bytes_per_s}: {sent}");
        }
    }

    #[test]
    fn hold_until__an_idle_lane_accumulates_no_burst() {
        let rate = Rate::from_bytes_per_s(25_000_000);
        let mut pacer = Pacer::new(0, EARLY_NS);
        let mut burst = 0;
        while pacer.hold_until(1_000_000_000).is_none() {
            pacer.depart(1_000_000_000, 1_500, rate);
            burst += 1;
        }
        assert!(burst <= 3, "{burst}");
    }
}
