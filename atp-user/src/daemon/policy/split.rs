//! Divides the rate that the lanes of a subject share.

use atp_common::units::Rate;

/// A lane at rest counts as one part in this many of an equal share.
const REST_DIVISOR: u64 = 16;
/// A lane may grow by this factor until the rate is divided again.
const GROWTH: u64 = 2;

/// Divides a rate by max-min fairness, from the rates that lanes use; `None` is a lane at rest.
/// No lane gets more than it can use as long as another gets less than that. What no lane can use
/// is divided equally.
///
/// The parts, in the order of the lanes, are at least one byte per second, and otherwise those of
/// lanes that send add up to the total at most. A lane at rest may begin with an equal share: the
/// next division takes the others' parts back.
pub fn split(total: Rate, used: &[Option<Rate>]) -> Vec<Rate> {
    let total = total.bytes_per_s();
    let count = (used.len() as u64).max(1);
    let (equal, reserve) = (total / count, total / (REST_DIVISOR * count));
    let mut wanted: Vec<(usize, u64)> =
        used.iter().map(|used| wanted(*used, reserve)).enumerate().collect();
    wanted.sort_unstable_by_key(|&(_, wanted)| wanted);
    let mut parts = vec![0; used.len()];
    let mut left = total;
    for (others, &(lane, wanted)) in (1..=count).rev().zip(&wanted) {
        parts[lane] = wanted.min(left / others);
        left -= parts[lane];
    }
    let more = left / count;
    let part = |(part, used): (u64, &Option<Rate>)| {
        let least = if used.is_none() { equal } else { 1 };
        Rate::from_bytes_per_s((part + more).max(least).max(1))
    };
    parts.into_iter().zip(used).map(part).collect()
}

fn wanted(used: Option<Rate>, reserve: u64) -> u64 {
    used.map_or(0, |used| used.bytes_per_s() * GROWTH).max(reserve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(bytes_per_s: u64) -> Rate {
        Rate::from_bytes_per_s(bytes_per_s)
    }

    fn uses() -> impl Strategy<Value = Vec<Option<Rate>>> {
        let used =
            prop_oneof![Just(None), (0u64..50_000_000_000).prop_map(|used| Some(rate(used)))];
        prop::collection::vec(used, 1..100)
    }

    #[test]
    fn split__gives_to_the_greedy_what_others_leave() {
        let (greedy, modest) = (Some(rate(500)), Some(rate(50)));
        // The one at rest counts as 25, and may begin with 400.
        let parts = split(rate(1_600), &[greedy, modest, greedy, None]);
        assert_eq!(parts, [737, 100, 738, 400].map(rate));
        assert_eq!(split(rate(900), &[greedy; 3]), [rate(300); 3]);
        assert_eq!(split(rate(900), &[None; 3]), [rate(300); 3]);
        assert!(split(rate(900), &[]).is_empty());
    }

    /// Each lane uses what it gets, up to what it needs.
    #[test]
    fn split__settles_where_nothing_is_wasted() {
        let needs = [u64::MAX, 40, u64::MAX, 3];
        let mut parts = vec![rate(250); 4];
        for _ in 0..20 {
            let used = |(part, need): (&Rate, &u64)| Some(rate(part.bytes_per_s().min(*need)));
            let used: Vec<_> = parts.iter().zip(&needs).map(used).collect();
            parts = split(rate(1_000), &used);
        }
        // Twice its use, or one part in sixteen of an equal share, is kept for a modest lane.
        assert_eq!(parts, [452, 80, 453, 15].map(rate));
    }

    proptest! {
        #[test]
        fn split__never_exceeds_the_total(total in 1u64..50_000_000_000, uses in uses()) {
            let parts = split(rate(total), &uses);
            let sending = parts.iter().zip(&uses).filter(|(_, used)| used.is_some());
            let sum: u64 = sending.map(|(part, _)| part.bytes_per_s()).sum();
            prop_assert!(sum <= total.max(uses.len() as u64));
        }

        /// A lane that wants more than its part has the largest one of those that send.
        #[test]
        fn split__is_max_min_fair(total in 100_000u64..50_000_000_000, uses in uses()) {
            let parts = split(rate(total), &uses);
            let sending = || parts.iter().zip(&uses).filter(|(_, used)| used.is_some());
            let most = sending().map(|(part, _)| part.bytes_per_s()).max().unwrap_or(0);
            let reserve = total / (REST_DIVISOR * uses.len() as u64);
            for (part, used) in sending() {
                if wanted(*used, reserve) > part.bytes_per_s() {
                    prop_assert!(part.bytes_per_s() + uses.len() as u64 >= most);
                }
            }
        }
    }
}
