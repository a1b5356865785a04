//! How many messages each stratum needs for an accepted error.

use std::collections::BTreeMap;

use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::part::Part;
use crate::spread::Spread;
use crate::warning::MESSAGES_MIN;

/// The confidence of the variance's upper bound: so often does a plan suffice.
const PLAN_CONFIDENCE: f64 = 0.9;

/// A stratum whose number of messages is sought.
#[derive(Clone, Copy)]
struct Open {
    stratum: u32,
    sent: f64,
    arrived: f64,
    square: f64,
}

/// The messages that each stratum needs, so that the answer's variance is at most `variance`.
///
/// One stratum needs `m* = N z^2 S^2 / (z^2 S^2 + N e^2)`, with the upper confidence bound of S^2.
/// Several strata share by Neyman's allocation, `m_h ~ N_h S_h`, between the messages that arrived
/// and those that were sent. Strata that haven't said their N aren't in the plan.
pub(super) fn needed(spread: &Spread, variance: f64) -> BTreeMap<u32, f64> {
    let mut needed = BTreeMap::new();
    let mut variance = variance - spread.fixed;
    let mut open = Vec::new();
    for part in &spread.parts {
        let arrived = part.arrived as f64;
        let Some(sent) = part.sent.map(|sent| sent as f64) else {
            variance -= upper(part) / arrived;
            continue;
        };
        if part.is_thin() {
            needed.insert(part.stratum, sent.min(MESSAGES_MIN as f64));
        } else {
            open.push(Open { stratum: part.stratum, sent, arrived, square: upper(part) });
        }
    }
    while !open.is_empty() {
        let roots: f64 = open.iter().map(|one| one.square.sqrt()).sum();
        let target = variance + open.iter().map(|one| one.square / one.sent).sum::<f64>();
        let share = |one: &Open| {
            // No number of messages attains a target of zero or less, but all of them.
            let wanted = one.square.sqrt() * roots / target.max(0.0);
            if wanted.is_nan() { one.arrived } else { wanted }
        };
        // Strata at a bound leave the plan: first those without enough messages, whose variance
        // then is zero, then those with more than enough.
        let is_over = |one: &Open| share(one) >= one.sent;
        let is_under = |one: &Open| share(one) <= one.arrived;
        let any_over = open.iter().any(is_over);
        if !any_over && !open.iter().any(is_under) {
            needed.extend(open.iter().map(|one| (one.stratum, share(one).ceil())));
            break;
        }
        let is_bound = |one: &Open| if any_over { is_over(one) } else { is_under(one) };
        let at = |one: &Open| if any_over { one.sent } else { one.arrived };
        let (bound, rest): (Vec<Open>, Vec<Open>) = open.iter().partition(|one| is_bound(one));
        for one in bound {
            variance -= one.square * (1.0 / at(&one) - 1.0 / one.sent);
            needed.insert(one.stratum, at(&one));
        }
        open = rest;
    }
    needed
}

/// The part's `square` with the variance at its upper confidence bound.
fn upper(part: &Part) -> f64 {
    let degrees = part.degrees_of_freedom;
    let Ok(chi_squared) = ChiSquared::new(degrees) else { return f64::INFINITY };
    part.square * degrees / chi_squared.inverse_cdf(1.0 - PLAN_CONFIDENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(stratum: u32, sent: Option<u64>, arrived: u64, square: f64) -> Part {
        let degrees_of_freedom = arrived as f64 - 1.0;
        let (cube, extreme_share, agrees) = (0.0, 0.0, false);
        Part {
            stratum,
            sent,
            arrived,
            nonzero: arrived,
            square,
            cube,
            degrees_of_freedom,
            extreme_share,
            agrees,
            is_bounded: false,
            is_full: false,
            alike: 0,
        }
    }

    fn variance(parts: &[Part], needed: &BTreeMap<u32, f64>) -> f64 {
        let of = |part: &Part| {
            let sent = part.sent.unwrap() as f64;
            upper(part) * (1.0 / needed[&part.stratum] - 1.0 / sent)
        };
        parts.iter().map(of).sum()
    }

    #[test]
    fn needed__of_one_stratum_is_the_formula() {
        let (n, s2, e, z) = (5_000.0f64, 40.0, 0.5, 1.96);
        // The mean per message, of a very certain variance.
        let part = part(7, Some(5_000), 200, s2);
        let s2 = upper(&part);
        assert!((s2 / 40.0 - 1.0) > 0.1 && (s2 / 40.0 - 1.0) < 0.2, "{s2}");
        let expected = n * z * z * s2 / (z * z * s2 + n * e * e);
        let found = needed(&Spread::new(vec![part], 199.0), (e / z) * (e / z));
        assert_eq!(found[&7], expected.ceil());
    }

    #[test]
    fn needed__follows_neyman_within_the_bounds() {
        let open = vec![part(0, Some(9_000), 40, 100.0), part(1, Some(9_000), 40, 900.0)];
        let found = needed(&Spread::new(open.clone(), 99.0), 2.0);
        assert!((found[&1] / found[&0] - 3.0).abs() < 0.05, "{found:?}");
        assert!((variance(&open, &found) / 2.0 - 1.0).abs() < 0.02);
        // The second is too small to give its share, and the third has more than it needs.
        let mut bound = open;
        bound[1].sent = Some(100);
        bound.push(part(2, Some(9_000), 2_000, 1.0));
        let found = needed(&Spread::new(bound.clone(), 99.0), 2.0);
        assert_eq!((found[&1], found[&2]), (100.0, 2_000.0));
        assert!((variance(&bound, &found) / 2.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn needed__is_everything_for_an_impossible_error() {
        let spread = Spread::new(vec![part(0, Some(90), 40, 1.0), part(1, None, 40, 1e9)], 9.0);
        assert_eq!(needed(&spread, 1e-9)[&0], 90.0);
        assert_eq!(needed(&spread, 1e-9).len(), 1);
    }

    /// An answer that was read from bytes may claim any number of messages.
    #[test]
    fn upper__of_many_degrees_ends() {
        for messages in [2, 1 << 20, 1 << 32, crate::stratum::MESSAGES_MAX] {
            let bound = upper(&part(0, None, messages, 1.0));
            assert!(bound > 0.5 && bound < 1e3, "{messages}: {bound}");
        }
    }
}
