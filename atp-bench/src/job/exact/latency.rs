//! Percentiles of request times.

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant digits: an error of at most 0.1 % of any value.
const DIGITS: u8 = 3;

/// A period, from the first to the last instant, in nanoseconds of the shared clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Window {
    pub fn contains(&self, at_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&at_ns)
    }

    pub fn seconds(&self) -> f64 {
        super::super::clock::seconds_between(self.from_ns, self.to_ns)
    }
}

/// Request times of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub requests: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// The percentiles of the requests that were due inside one of the windows; `None` if there are
/// none. `requests` are pairs (due, time) in nanoseconds.
pub fn latency(
    requests: impl IntoIterator<Item = (u64, u64)>,
    windows: &[Window],
) -> Result<Option<Latency>> {
    let mut times = Histogram::<u64>::new(DIGITS)?;
    for (due_ns, time_ns) in requests {
        if windows.iter().any(|window| window.contains(due_ns)) {
            times.record(time_ns)?;
        }
    }
    let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1e6;
    let latency = Latency { requests: times.len(), p50_ms: ms(0.5), p99_ms: ms(0.99) };
    Ok((!times.is_empty()).then_some(latency))
}

/// The times, in milliseconds and sorted, of the requests that were due inside one of the windows.
pub fn times_ms(requests: &[(u64, u64)], windows: &[Window]) -> Vec<f64> {
    let inside =
        requests.iter().filter(|(due_ns, _)| windows.iter().any(|window| window.contains(*due_ns)));
    let mut times_ms: Vec<f64> = inside.map(|(_, time_ns)| *time_ns as f64 / 1e6).collect();
    times_ms.sort_by(f64::total_cmp);
    times_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency__percentiles_of_what_was_due_inside() {
        let inside = (1..=1_000).map(|i| (i, i * 1_000_000));
        let outside = (2_000..2_100).map(|i| (i, 1));
        let windows = [Window { from_ns: 1, to_ns: 500 }, Window { from_ns: 501, to_ns: 1_500 }];
        let found = latency(inside.chain(outside), &windows).unwrap().unwrap();
        assert_eq!(found.requests, 1_000);
        assert!((found.p50_ms / 500.0 - 1.0).abs() < 0.002, "{}", found.p50_ms);
        assert!((found.p99_ms / 990.0 - 1.0).abs() < 0.002, "{}", found.p99_ms);
    }

    #[test]
    fn times_ms__sorted_and_only_those_due_inside() {
        let windows = [Window { from_ns: 10, to_ns: 20 }];
        let requests = [(12, 3_000_000), (9, 1), (20, 1_000_000)];
        assert_eq!(times_ms(&requests, &windows), [1.0, 3.0]);
    }

    #[test]
    fn latency__none_without_requests() {
        let windows = [Window { from_ns: 10, to_ns: 20 }];
        assert_eq!(latency([(9, 1), (21, 1)], &windows).unwrap(), None);
    }
}
