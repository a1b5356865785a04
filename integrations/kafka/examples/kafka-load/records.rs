//! Records of a partition, drawn from a seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The mean of the values, which have an exponential distribution.
const MEAN: f64 = 100.0;
/// The bytes of a record's value that are a number. Others fill it up.
const NUMBER_BYTES: usize = 8;

/// The records of a partition, in order of their event times.
pub struct Records {
    values: ChaCha8Rng,
    sample: ChaCha8Rng,
    share: f64,
    bytes: usize,
    begin_ms: i64,
    per_s: f64,
    next: u64,
}

/// A record.
#[derive(Debug, PartialEq)]
pub struct Drawn {
    pub time_ms: i64,
    pub number: f64,
    /// `None` if the sample leaves it out.
    pub value: Option<Vec<u8>>,
}

impl Records {
    /// `per_s` records a second from `begin_ms` on, of which each is in the sample with a
    /// probability of `share`.
    pub fn new(
        seed: u64,
        partition: u32,
        share: f64,
        bytes: usize,
        begin_ms: i64,
        per_s: f64,
    ) -> Self {
        let rng = |stream: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(2 * u64::from(partition) + stream);
            rng
        };
        let bytes = bytes.max(NUMBER_BYTES);
        Self { values: rng(0), sample: rng(1), share, bytes, begin_ms, per_s, next: 0 }
    }

    /// The next record, if it is due.
    pub fn due(&mut self, now_ms: f64) -> Option<Drawn> {
        let time_ms = self.begin_ms + (self.next as f64 * 1e3 / self.per_s) as i64;
        if time_ms as f64 > now_ms {
            return None;
        }
        self.next += 1;
        let uniform: f64 = self.values.random();
        // `uniform` is below 1, so the logarithm exists.
        let number = -MEAN * (1.0 - uniform).ln();
        let is_in_sample = self.sample.random::<f64>() < self.share;
        let value = is_in_sample.then(|| {
            let mut value = vec![b'x'; self.bytes];
            value[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
            value
        });
        Some(Drawn { time_ms, number, value })
    }
}

/// The number in a record's value.
pub fn number(value: Option<&[u8]>) -> Option<f64> {
    value?.first_chunk::<NUMBER_BYTES>().map(|bytes| f64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(share: f64) -> Vec<Drawn> {
        let mut records = Records::new(7, 2, share, 100, 5_000, 1_000.0);
        std::iter::from_fn(|| records.due(14_999.0)).collect()
    }

    #[test]
    fn due__has_the_rate_and_the_mean() {
        let records = drawn(1.0);
        assert_eq!(records.len(), 10_000);
        assert_eq!((records[0].time_ms, records[9_999].time_ms), (5_000, 14_999));
        let mean = records.iter().map(|record| record.number).sum::<f64>() / 1e4;
        assert!((mean / MEAN - 1.0).abs() < 0.05, "{mean}");
        let value = records[3].value.as_deref().unwrap();
        assert_eq!((value.len(), number(Some(value))), (100, Some(records[3].number)));
    }

    #[test]
    fn due__a_sample_has_the_same_numbers() {
        let (all, some) = (drawn(1.0), drawn(0.5));
        assert!(all.iter().zip(&some).all(|(all, some)| all.number == some.number));
        let kept = some.iter().filter(|record| record.value.is_some()).count();
        assert!((4_700..5_300).contains(&kept), "{kept}");
    }

    #[test]
    fn number__of_short_values_is_none() {
        assert_eq!((number(None), number(Some(b"short"))), (None, None));
    }
}
