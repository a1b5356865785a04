//! Measures how late this thread reads acknowledgments. The window of the law `yield` depends on
//! it.

/// One part in eight of each sample, as in RFC 6298.
const GAIN_SHIFT: u32 = 3;
/// Longer sleeps count as this one: nothing was there to read before.
const SAMPLE_NS_MAX: u64 = 10_000_000;

/// The mean time from the arrival of an ACK to its reading.
#[derive(Debug, Default)]
pub struct ReadLag {
    /// When acknowledgments were read last.
    read_ns: u64,
    mean_ns: u64,
    /// How late timers wake the thread, on average.
    timer_ns: u64,
    /// The thread was woken by a packet, which it reads next.
    woken: bool,
}

impl ReadLag {
    /// Notes that a packet ended the thread's sleep.
    pub fn woken(&mut self) {
        self.woken = true;
    }

    /// Notes that a timer ended the thread's sleep, `late_ns` after its time. A packet wakes a
    /// thread as late as a timer does.
    pub fn timer_was_late(&mut self, late_ns: u64) {
        self.timer_ns = smoothed(self.timer_ns, late_ns.min(SAMPLE_NS_MAX));
    }

    /// Notes that the thread has read all acknowledgments there were, and whether there were any.
    /// They are taken to have come halfway since the last read, or, if a packet woke the thread, as
    /// long ago as timers are late.
    pub fn read(&mut self, now_ns: u64, any: bool) {
        let since_ns = now_ns.saturating_sub(self.read_ns).min(SAMPLE_NS_MAX);
        let sample_ns = match std::mem::take(&mut self.woken) {
            true => self.timer_ns.min(since_ns),
            false => since_ns / 2,
        };
        if any && self.read_ns > 0 {
            self.mean_ns = smoothed(self.mean_ns, sample_ns);
        }
        self.read_ns = now_ns;
    }

    /// The mean, nanoseconds; 0 before the first acknowledgment.
    pub fn mean_ns(&self) -> u64 {
        self.mean_ns
    }
}

const fn smoothed(mean_ns: u64, sample_ns: u64) -> u64 {
    mean_ns - (mean_ns >> GAIN_SHIFT) + (sample_ns >> GAIN_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// The mean after reads every `interval_ns`, all with acknowledgments.
    fn mean_of(interval_ns: u64, woken: bool) -> u64 {
        let mut lag = ReadLag::default();
        for read in 1..200 {
            if woken {
                lag.woken();
            }
            lag.read(read * interval_ns, true);
        }
        lag.mean_ns()
    }

    #[test]
    fn read__is_half_of_the_interval_between_reads() {
        for interval_ns in [20 * US, 100 * US, 500 * US] {
            let mean_ns = mean_of(interval_ns, false);
            assert!(mean_ns.abs_diff(interval_ns / 2) <= 8, "{interval_ns}: {mean_ns}");
        }
        assert!(mean_of(1 << 40, false) <= SAMPLE_NS_MAX);
    }

    #[test]
    fn read__a_thread_that_a_packet_woke_is_as_late_as_its_timers() {
        assert_eq!(mean_of(500 * US, true), 0);
        let mut lag = ReadLag::default();
        (1..200).for_each(|_| lag.timer_was_late(60 * US));
        for read in 1..200 {
            lag.woken();
            lag.read(read * 500 * US, true);
        }
        assert!(lag.mean_ns().abs_diff(60 * US) < US, "{}", lag.mean_ns());
    }

    #[test]
    fn read__without_acknowledgments_says_nothing() {
        let mut lag = ReadLag::default();
        (1..100).for_each(|read| lag.read(read * US, read % 2 == 0));
        // Each read without any shortens the time in which those of the next came.
        assert!(lag.mean_ns() < US);
    }
}
