//! Bytes that arrived of late.

/// Arrived bytes over a sliding window, from the counts of the present and the previous window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// The number of the present window.
    window: u64,
    /// Bytes in it so far.
    bytes: u64,
    /// Bytes in the window before.
    bytes_before: u64,
}

impl Arrivals {
    /// Counts `bytes` that arrived by `now_ns`. `window_ns`: at least 1, always the same.
    pub fn add(&mut self, now_ns: u64, window_ns: u64, bytes: u64) {
        self.turn(now_ns / window_ns);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Bytes per second over the last window. The part of the previous window that is in it counts
    /// in proportion.
    ///
    /// Overflow: bytes are limited to 2^33 a window, which 400 Gbit/s take 170 ms for; times 10^9
    /// that is below 2^63.
    pub fn bytes_per_s(&mut self, now_ns: u64, window_ns: u64) -> u64 {
        self.turn(now_ns / window_ns);
        let before_q16 = (1 << 16) - ((now_ns % window_ns) << 16) / window_ns;
        let limit = |bytes: u64| bytes.min(1 << 32);
        let bytes = limit(self.bytes) + ((limit(self.bytes_before) * before_q16) >> 16);
        bytes * 1_000_000_000 / window_ns
    }

    fn turn(&mut self, window: u64) {
        if window == self.window {
            return;
        }
        self.bytes_before = if window == self.window + 1 { self.bytes } else { 0 };
        (self.window, self.bytes) = (window, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // A steady stream is measured within the bytes of one arrival, at any time after one
        // window.
        #[test]
        fn bytes_per_s__of_a_steady_stream(
            gap_ns in 100u64..10_000,
            bytes in 84u64..9_000,
            window_ns in 30_000u64..10_000_000,
            windows in 1u64..4,
            phase_ns in 0u64..1 << 40,
        ) {
            let mut arrivals = Arrivals::default();
            let mut now_ns = phase_ns;
            while now_ns < phase_ns + (1 + windows) * window_ns {
                arrivals.add(now_ns, window_ns, bytes);
                now_ns += gap_ns;
            }
            let found = arrivals.bytes_per_s(now_ns - gap_ns, window_ns) as f64;
            let expected = bytes as f64 * 1e9 / gap_ns as f64;
            let packet = bytes as f64 * 1e9 / window_ns as f64;
            prop_assert!((found - expected).abs() <= 3.0 * packet + expected / 32_768.0,
                "{found} {expected}");
        }
    }

    #[test]
    fn bytes_per_s__forgets_silence() {
        let mut arrivals = Arrivals::default();
        arrivals.add(1_000, 1_000, 500);
        assert_eq!(arrivals.bytes_per_s(1_999, 1_000), 500_000_000);
        assert_eq!(arrivals.bytes_per_s(2_500, 1_000), 250_000_000);
        assert_eq!(arrivals.bytes_per_s(3_000, 1_000), 0);
    }
}
