//! Divides the rate that the lanes of a subject share.

use atp_common::units::Rate;

/// A lane at rest keeps one part in this many of an equal share, with which it begins.
const REST_DIVISOR: u64 = 16;
/// A lane that sends at less than nine tenths of its limit has another limit, such as the network.
const NEAR_LIMIT: (u64, u64) = (9, 10);
/// It may grow by a quarter until the rate is divided again.
const GROWTH: (u64, u64) = (5, 4);

/// The use that a lane makes of its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It sends nothing.
    Rest,
    /// The lane's rate, with the limit that it had so far.
    Rate(Rate, Rate),
}

/// Divides a rate by max-min fairness: nobody gets more than it demands as long as another gets
/// less than that. What nobody demands is divided equally. The parts, in the order of the lanes,
/// are at least one byte per second, and otherwise add up to the total at most.
pub fn split(total: Rate, demands: &[Demand]) -> Vec<Rate> {
    let total = total.bytes_per_s();
    let count = demands.len() as u64;
    let reserve = total / (REST_DIVISOR * count.max(1));
    let mut wanted: Vec<(usize, u64)> =
        demands.iter().map(|demand| demand.bytes_per_s(reserve)).enumerate().collect();
    wanted.sort_unstable_by_key(|&(_, wanted)| wanted);
    let mut parts = vec![0; demands.len()];
    let mut left = total;
    for (others, &(lane, wanted)) in (1..=count).rev().zip(&wanted) {
        parts[lane] = wanted.min(left / others);
        left -= parts[lane];
    }
    let more = left / count.max(1);
    parts.into_iter().map(|part| Rate::from_bytes_per_s((part + more).max(1))).collect()
}

impl Demand {
    fn bytes_per_s(self, reserve: u64) -> u64 {
        let Self::Rate(rate, limit) = self else { return reserve };
        let (rate, limit) = (rate.bytes_per_s(), limit.bytes_per_s());
        if rate * NEAR_LIMIT.1 >= limit * NEAR_LIMIT.0 {
            return u64::MAX;
        }
        (rate * GROWTH.0 / GROWTH.1).max(reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(bytes_per_s: u64) -> Rate {
        Rate::from_bytes_per_s(bytes_per_s)
    }

    fn demands() -> impl Strategy<Value = Vec<Demand>> {
        let rates = (0u64..50_000_000_000, 1u64..50_000_000_000);
        let demand = prop_oneof![
            Just(Demand::Rest),
            rates.prop_map(|(used, limit)| Demand::Rate(rate(used.min(limit)), rate(limit))),
        ];
        prop::collection::vec(demand, 1..100)
    }

    #[test]
    fn split__gives_to_the_greedy_what_others_leave() {
        let greedy = Demand::Rate(rate(500), rate(500));
        let modest = Demand::Rate(rate(80), rate(500));
        let parts = split(rate(1_600), &[greedy, modest, greedy, Demand::Rest]);
        assert_eq!(parts, [737, 100, 738, 25].map(rate));
        assert_eq!(split(rate(900), &[greedy; 3]), [rate(300); 3]);
        assert_eq!(split(rate(900), &[Demand::Rest; 3]), [rate(300); 3]);
        assert!(split(rate(900), &[]).is_empty());
    }

    proptest! {
        #[test]
        fn split__never_exceeds_the_total(total in 1u64..50_000_000_000, demands in demands()) {
            let parts = split(rate(total), &demands);
            let sum: u64 = parts.iter().map(|part| part.bytes_per_s()).sum();
            prop_assert!(sum <= total.max(demands.len() as u64));
            // Nothing but the rest of the divisions is left.
            prop_assert!(sum + 2 * demands.len() as u64 >= total);
        }

        /// A lane that wants more than its part has the largest one.
        #[test]
        fn split__is_max_min_fair(total in 100_000u64..50_000_000_000, demands in demands()) {
            let parts = split(rate(total), &demands);
            let most = parts.iter().max().unwrap().bytes_per_s();
            for (demand, part) in demands.iter().zip(&parts) {
                let reserve = total / (REST_DIVISOR * demands.len() as u64);
                if demand.bytes_per_s(reserve) > part.bytes_per_s() {
                    prop_assert!(part.bytes_per_s() + demands.len() as u64 >= most);
                }
            }
        }
    }
}
