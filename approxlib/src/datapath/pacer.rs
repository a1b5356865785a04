//! Pacing by sleeping: packets leave a little early, in bunches, so that one wake-up serves
//! several, and the clock of [`depart`] keeps the rate exact over any longer while.

use atp_common::{
    laws::pacing::{Departure, depart, hastened},
    units::Rate,
};

/// Packets may leave this early: at 200 Mbit/s that is two packets a wake-up. Longer bunches would
/// overflow the few places of an approximate queue.
pub const EARLY_NS: u64 = 120_000;

/// The clock of one lane.
pub struct Pacer {
    clock_ns: u64,
    early_ns: u64,
}

impl Pacer {
    /// Packets may leave `early_ns` before their time: the bunch that one wake-up sends.
    pub fn new(now_ns: u64, early_ns: u64) -> Self {
        Self { clock_ns: now_ns, early_ns }
    }

    /// How far the clock is ahead: what was handed over and has not left.
    pub fn ahead_ns(&self, now_ns: u64) -> u64 {
        self.clock_ns.saturating_sub(now_ns)
    }

    /// Until when to sleep; `None` if a packet may leave now. Sleeping ends before the clock is
    /// reached, so that a late wake-up loses nothing.
    pub fn hold_until(&self, now_ns: u64) -> Option<u64> {
        let early_by_ns = self.clock_ns.saturating_sub(now_ns);
        (early_by_ns > self.early_ns).then(|| self.clock_ns - self.early_ns / 4)
    }

    /// A packet of `bytes` leaves.
    pub fn depart(&mut self, now_ns: u64, bytes: u32, rate: Rate) {
        match depart(self.clock_ns, now_ns, bytes, rate, self.early_ns) {
            Departure::At { clock_ns, .. } => self.clock_ns = clock_ns,
            // Nobody asked `hold_until`; keep the rate all the same.
            Departure::TooFar => self.clock_ns += rate.duration_ns(bytes),
        }
    }

    /// The rate rises, or falls, now. Nothing waits here: what was given away has left.
    pub fn hasten(&mut self, now_ns: u64, before: Rate, rate: Rate) {
        self.clock_ns = hastened(self.clock_ns, now_ns, now_ns, before, rate);
    }

    /// The youngest packet did not leave after all.
    pub fn unsent(&mut self, bytes: u32, rate: Rate) {
        self.clock_ns = self.clock_ns.saturating_sub(rate.duration_ns(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends whenever it may, with wake-ups as late as a busy host makes them.
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
    fn hold_until__keeps_the_rate_despite_late_wake_ups() {
        for bytes_per_s in [150_000, 25_000_000, 1_250_000_000] {
            let rate = Rate::from_bytes_per_s(bytes_per_s);
            let expected = rate.bytes_in(1_000_000_000) as f64;
            let sent = bytes_sent(rate, 25_000, 1_000_000_000) as f64;
            assert!((sent / expected - 1.0).abs() < 0.02, "{bytes_per_s}: {sent}");
        }
    }

    #[test]
    fn hold_until__an_idle_lane_saves_up_no_burst() {
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
