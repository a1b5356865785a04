//! Whether packets come so densely that waiting a little gathers several.

/// A rest while packets gather, ...
const NAP_NS: u64 = 100_000;
/// ... and where so many come that waking up is what costs; far less than a socket's buffer holds.
const LONG_NAP_NS: u64 = 250_000;

/// How busy the socket is.
#[derive(Default)]
pub struct Traffic {
    since_ns: u64,
    packets: u32,
    dense: bool,
    very_dense: bool,
}

impl Traffic {
    const WINDOW_NS: u64 = 1_000_000;
    /// In one window; at this density a nap gathers two packets on average.
    const PACKETS_DENSE: u32 = 2 * (Self::WINDOW_NS / NAP_NS) as u32;
    /// Some 5 Gbit/s.
    const PACKETS_VERY_DENSE: u32 = 400;

    /// `packets` were read just now.
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

    /// How long a nap is worth its while, nanoseconds; `None` if none is.
    pub fn nap_ns(&self) -> Option<u64> {
        self.dense.then_some(if self.very_dense { LONG_NAP_NS } else { NAP_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nap_ns__follows_the_packet_rate() {
        let mut traffic = Traffic::default();
        let mut dense_at = |packets_per_ms| {
            for _ in 0..5 {
                let now_ns = traffic.since_ns + Traffic::WINDOW_NS;
                traffic.observe(now_ns, packets_per_ms);
            }
            traffic.nap_ns()
        };
        assert_eq!(dense_at(5), None);
        assert_eq!(dense_at(100), Some(NAP_NS));
        assert_eq!(dense_at(19), None);
        assert_eq!(dense_at(20), Some(NAP_NS));
        assert_eq!(dense_at(400), Some(LONG_NAP_NS));
    }

    #[test]
    fn nap_ns__not_after_a_pause() {
        let mut traffic = Traffic::default();
        traffic.observe(Traffic::WINDOW_NS, 64);
        traffic.observe(100 * Traffic::WINDOW_NS, 64);
        assert_eq!(traffic.nap_ns(), None);
    }
}
