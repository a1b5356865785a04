//! Whether the messages of some strata agree by chance, where those of others vary.
//!
//! A stratum whose messages all agree has no part in the variance. If the strata are alike, the
//! parts of the others make up for it, as rare values are in one stratum or in another. If they
//! aren't, nothing shows how much rare values of this stratum would add.

use statrs::distribution::{DiscreteCDF, Poisson};

use crate::part::Part;

/// Strata that are alike agree as often as they did with at least this probability.
const CHANCE_MIN: f64 = 0.01;
/// The least such probability where few strata are left. It halves the misses without a warning
/// where a fifth of the others' messages differ, at few more false doubts. The false doubts of four
/// strata would double.
const CHANCE_MIN_OF_FEW: f64 = 0.05;
const FEW_STRATA: usize = 3;

/// The messages with records of the strata that agree, unless chance explains it: had all strata
/// the values of those that vary, as many would agree now and then.
pub(crate) fn agreeing_messages(parts: &[Part], is_asked: impl Fn(&Part) -> bool) -> Option<u64> {
    // A message agrees with itself.
    let evaluated: Vec<&Part> = parts.iter().filter(|part| part.nonzero > 1).collect();
    let varying = evaluated.iter().filter(|part| !part.agrees);
    // The probability that two messages of a stratum agree, by Laplace's rule of succession.
    let (agreed, pairs) = varying.fold((1, 2), |(agreed, pairs), part| {
        (agreed + part.alike.saturating_sub(1), pairs + part.nonzero - 1)
    });
    // The most frequent value has at most the root of that share of the messages.
    let share = (agreed as f64 / pairs as f64).sqrt();
    let expected: f64 = evaluated.iter().map(|part| share.powf((part.nonzero - 1) as f64)).sum();
    let agreeing = evaluated.iter().filter(|part| part.agrees && is_asked(part));
    let (strata, messages) =
        agreeing.fold((0, 0), |(strata, messages), part| (strata + 1, messages + part.nonzero));
    (strata > 0 && !is_chance(expected, strata, evaluated.len())).then_some(messages)
}

/// Whether chance explains a number of strata out of `all`, of which `expected` is the mean
/// (Poisson).
pub(crate) fn is_chance(expected: f64, strata: u64, all: usize) -> bool {
    let chance = Poisson::new(expected).map_or(0.0, |poisson| poisson.sf(strata.saturating_sub(1)));
    let least = if all > FEW_STRATA { CHANCE_MIN } else { CHANCE_MIN_OF_FEW };
    strata == 0 || chance >= least
}
