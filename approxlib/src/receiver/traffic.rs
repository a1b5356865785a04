//! Whether packets come so densely that waiting a little gathers several.

/// A rest while packets gather.
pub const NAP_NS: u64 = 100_000;

/// How busy the socket is.
#[derive(Default)]
pub struct Traffic {
    since_ns: u64,
    packets: u32,
    dense: bool,
}

impl Traffic {
    const WINDOW_NS: u64 = 1_000_000;
    /// In one window; at this density a nap gathers two packets on average.
    const PACKETS_DENSE: u32 = 2 * (Self::WINDOW_NS / NAP_NS) as u32;

    /// `packets` were read just now.
    pub fn observe(&mut self, now_ns: u64, packets: usize) {
        self.packets += packets as u32;
        if now_ns - self.since_ns >= Self::WINDOW_NS {
            let windows = (now_ns - self.since_ns) / Self::WINDOW_NS;
            self.dense = u64::from(self.packets) >= u64::from(Self::PACKETS_DENSE) * windows;
            (self.since_ns, self.packets) = (now_ns, 0);
        }
    }

    /// Whether a nap is worth its while.
    pub fn is_dense(&self) -> bool {
        self.dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_dense__follows_the_packet_rate() {
        let mut traffic = Traffic::default();
        let mut dense_at = |packets_per_ms| {
            for _ in 0..5 {
                let now_ns = traffic.since_ns + Traffic::WINDOW_NS;
                traffic.observe(now_ns, packets_per_ms);
            }
            traffic.is_dense()
        };
        assert!(!dense_at(5));
        assert!(dense_at(100));
        assert!(!dense_at(19));
        assert!(dense_at(20));
    }

    #[test]
    fn is_dense__not_after_a_pause() {
        let mut traffic = Traffic::default();
        traffic.observe(Traffic::WINDOW_NS, 64);
        traffic.observe(100 * Traffic::WINDOW_NS, 64);
        assert!(!traffic.is_dense());
    }
}
