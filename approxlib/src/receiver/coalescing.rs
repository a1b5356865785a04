//! Measures the packet rate, to decide whether a pause before the next read collects several
//! packets for one wakeup.

/// The pause at a high packet rate.
const PAUSE_NS: u64 = 100_000;
/// The pause at a packet rate where wakeups dominate the cost. The socket's buffer holds far more
/// packets than arrive in it.
const LONG_PAUSE_NS: u64 = 250_000;

/// The packet rate of the socket.
#[derive(Default)]
pub struct Coalescing {
    since_ns: u64,
    packets: u32,
    dense: bool,
    very_dense: bool,
}

impl Coalescing {
    const WINDOW_NS: u64 = 1_000_000;
    /// The packets of one window from which on a pause collects two packets on average.
    const PACKETS_DENSE: u32 = 2 * (Self::WINDOW_NS / PAUSE_NS) as u32;
    /// The packets of one window from which on the pause is long: about 5 Gbit/s.
    const PACKETS_VERY_DENSE: u32 = 400;

    /// Counts `packets` that were read now.
    pub fn observe(&mut self, now_ns: u64, packets: usize) {
        self.packets += packets as u32;
        if now_ns - self.since_ns >= Self::WINDOW_NS {
            let windows = (now_ns - self.since_ns) / Self::WINDOW_NS;
            let is_dense = |packets| u64::from(self.packets) >= u64::from(packets) * windows;
            self.dense = is_dense(Self::PACKETS_DENSE);
            self.very_dense = is_dense(Self::PACKETS_VERY_DENSE);
            (self.since_ns, self.packets) = (now_ns, 0);
        }
    }

    /// The pause before the next read, nanoseconds; `None` if packets come too rarely for one.
    pub fn pause_ns(&self) -> Option<u64> {
        self.dense.then_some(if self.very_dense { LONG_PAUSE_NS } else { PAUSE_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nap_ns__follows_the_packet_rate() {
        let mut coalescing = Coalescing::default();
        let mut dense_at = |packets_per_ms| {
            for _ in 0..5 {
                let now_ns = coalescing.since_ns + Coalescing::WINDOW_NS;
                coalescing.observe(now_ns, packets_per_ms);
            }
            coalescing.pause_ns()
        };
        assert_eq!(dense_at(5), None);
        assert_eq!(dense_at(100), Some(PAUSE_NS));
        assert_eq!(dense_at(19), None);
        assert_eq!(dense_at(20), Some(PAUSE_NS));
        assert_eq!(dense_at(400), Some(LONG_PAUSE_NS));
    }

    #[test]
    fn nap_ns__not_after_a_pause() {
        let mut coalescing = Coalescing::default();
        coalescing.observe(Coalescing::WINDOW_NS, 64);
        coalescing.observe(100 * Coalescing::WINDOW_NS, 64);
        assert_eq!(coalescing.pause_ns(), None);
    }
}
