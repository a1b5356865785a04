//! Checks of a sample: the warnings that it calls for.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::agreement::is_chance;
use crate::delivery::Facts;
use crate::stratum::Stratum;
use crate::total::Total;
use crate::warning::MESSAGES_MIN;
use crate::{Sample, Warning};

/// The probability that an unbiased sample is said to contradict its exact total. All tables state
/// their totals, so more would be frequent false alarms.
const CONTRADICTION_LEVEL: f64 = 1e-5;

/// Rounding counts from this share of half an interval on.
const ROUNDING_SHARE: f64 = 0.01;

/// The expected number of unseen keys from which on a warning says so.
const UNSEEN_MIN: f64 = 0.5;
/// The probability with which a key of enough messages is unseen.
const UNSEEN_CHANCE: f64 = 0.05;

/// The warnings of the job, of the number of its messages, and of its exact totals.
pub(crate) fn job_warnings(parts: &[(u32, &Stratum)]) -> Vec<Warning> {
    let mut warnings = sample_warnings(parts);
    warnings.extend(contradictions(parts));
    warnings
}

/// The warnings of the job and of the number of its messages.
pub(crate) fn sample_warnings(parts: &[(u32, &Stratum)]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = missing(parts).into_iter().collect();
    let incomplete = parts.iter().filter(|(_, stratum)| !stratum.is_complete());
    let arrived: Vec<u64> = incomplete.map(|(_, stratum)| stratum.arrived()).collect();
    if arrived.is_empty() {
        return warnings;
    }
    let messages = arrived.iter().sum();
    warnings.extend((messages < MESSAGES_MIN).then_some(Warning::FewMessages { messages }));
    warnings.extend(unfair(parts));
    warnings
}

/// A warning about records without a value.
fn missing(strata: &[(u32, &Stratum)]) -> Option<Warning> {
    let missing = strata.iter().map(|(_, stratum)| stratum.missing);
    let records = missing.fold(0u64, u64::saturating_add);
    (records > 0).then_some(Warning::MissingValues { records })
}

/// The exact sums of `x` and `y` if all messages arrived.
pub(crate) fn exact_totals(parts: &[(u32, &Stratum)]) -> Option<[Total; 2]> {
    let is_complete = parts.iter().all(|(_, stratum)| stratum.is_complete());
    is_complete.then(|| totals_of_complete(parts))
}

/// The sums over the complete strata.
fn totals_of_complete(parts: &[(u32, &Stratum)]) -> [Total; 2] {
    let mut totals = [Total::default(); 2];
    for (_, stratum) in parts.iter().filter(|(_, stratum)| stratum.is_complete()) {
        let own = stratum.moments.totals();
        totals.iter_mut().zip(own).for_each(|(total, own)| total.add(own));
    }
    totals
}

/// A warning about what rounding took from the sums of complete strata, if the interval doesn't
/// hide it. `of_x` and `of_y`: how much the answer changes with the sums.
pub(crate) fn rounded(
    parts: &[(u32, &Stratum)],
    [of_x, of_y]: [f64; 2],
    half_width: f64,
) -> Option<Warning> {
    let [x, y] = totals_of_complete(parts);
    let by = (of_x * x.rounding()).abs() + (of_y * y.rounding()).abs();
    (by > 0.0 && by >= ROUNDING_SHARE * half_width).then_some(Warning::Rounded { by })
}

/// The warnings of incomplete strata, each for the first stratum with a reason.
fn unfair(parts: &[(u32, &Stratum)]) -> impl Iterator<Item = Warning> {
    let incomplete = || {
        let incomplete = parts.iter().filter(|(_, part)| !part.is_complete());
        incomplete.map(|&(number, part)| (number, part, part.facts.unwrap_or_default()))
    };
    let unfair = incomplete().find(|(_, part, facts)| !facts.is_fair(part.sent));
    let unfair = unfair.map(|(stratum, part, Facts { order, gap, .. })| {
        let missing = part.sent.map(|sent| sent - part.arrived());
        Warning::NotShuffled { stratum, order, missing, sent: part.sent, gap }
    });
    let shortest = incomplete().find(|(.., facts)| facts.shortest_first);
    let shortest = shortest.map(|(stratum, ..)| Warning::ShortestFirst { stratum });
    unfair.into_iter().chain(shortest)
}

/// Adds warnings if few messages of the incomplete strata hold a key, or if none of one does.
/// `with_key`: the messages of a stratum with the key.
pub(crate) fn key_warnings(
    warnings: &mut Vec<Warning>,
    parts: &[(u32, &Stratum)],
    with_key: impl Fn(u32) -> u64,
) {
    let all: u64 = parts.iter().map(|(number, _)| with_key(*number)).sum();
    let incomplete = || parts.iter().filter(|(_, stratum)| !stratum.is_complete());
    let messages: u64 = incomplete().map(|(number, _)| with_key(*number)).sum();
    let is_known = incomplete().next().is_none() || messages == 0 && all > 0;
    let is_few = |warning: &Warning| matches!(warning, Warning::FewMessages { .. });
    if !is_known && messages < MESSAGES_MIN && !warnings.iter().any(is_few) {
        warnings.push(Warning::FewMessages { messages });
    }
    let first = strata_without_key(parts, with_key).first().copied();
    let unseen = |(stratum, part): (u32, &Stratum)| Warning::KeyUnseenIn {
        stratum,
        messages: part.arrived(),
    };
    warnings.extend(first.map(unseen));
}

/// The incomplete strata without a key that others have, unless chance explains it: then the parts
/// of the others make up for it. `with_key`: the messages of a stratum with the key.
pub(crate) fn strata_without_key<'a>(
    parts: &[(u32, &'a Stratum)],
    with_key: impl Fn(u32) -> u64,
) -> Vec<(u32, &'a Stratum)> {
    let incomplete = || parts.iter().filter(|(_, stratum)| !stratum.is_complete());
    let without = || incomplete().filter(|(number, _)| with_key(*number) == 0);
    let messages: u64 = incomplete().map(|(number, _)| with_key(*number)).sum();
    if messages > 0 {
        let arrived = || incomplete().map(|(_, stratum)| stratum.arrived() as f64);
        let share = messages as f64 / arrived().sum::<f64>();
        let expected = arrived().map(|messages| (1.0 - share).powf(messages)).sum();
        if is_chance(expected, without().count() as u64, incomplete().count()) {
            return Vec::new();
        }
    } else if parts.iter().all(|(number, _)| with_key(*number) == 0) {
        return Vec::new();
    }
    // Of the others, a message with the key would have arrived.
    without().filter(|(_, stratum)| stratum.missing_share() >= UNSEEN_CHANCE).copied().collect()
}

/// The messages of incomplete strata without a value, beside others that have some, unless chance
/// explains it: nothing shows how much their rare values would add.
pub(crate) fn without_values(parts: &[(u32, &Stratum)]) -> Option<Warning> {
    let with_values = |number: u32| {
        let at = parts.binary_search_by_key(&number, |(number, _)| *number);
        at.map_or(0, |at| parts[at].1.moments.nonzero())
    };
    let without = strata_without_key(parts, with_values);
    let messages = without.iter().map(|(_, stratum)| stratum.arrived()).sum();
    (!without.is_empty()).then_some(Warning::NoVariation { messages })
}

/// The stratum of a key that one message of all incomplete strata holds. `with_key`: the strata
/// with the key, and their messages with it.
pub(crate) fn single(messages: &Sample, with_key: impl Iterator<Item = (u32, u64)>) -> Option<u32> {
    let is_incomplete =
        |stratum: u32| messages.strata.get(&stratum).is_some_and(|own| !own.is_complete());
    let mut incomplete = with_key.filter(|(stratum, _)| is_incomplete(*stratum));
    let first = incomplete.next().filter(|(_, messages)| *messages == 1)?;
    incomplete.next().is_none().then_some(first.0)
}

/// Warnings about all keys of a job together. `singles`: the strata of [`single`] keys.
pub(crate) fn table_warnings(
    messages: &Sample,
    singles: impl Iterator<Item = u32>,
    records: u64,
    limit: usize,
) -> Vec<Warning> {
    let strata: Vec<(u32, &Stratum)> =
        messages.strata.iter().map(|(&number, stratum)| (number, stratum)).collect();
    let unseen = unseen(messages, singles).into_iter();
    unseen.chain(uncounted(records, limit)).chain(missing(&strata)).collect()
}

/// A warning if keys that no arrived message holds are likely.
///
/// A message that arrived shows `m/N` of the keys that one message of its stratum holds. So the
/// keys that were seen stand for `(N - m) / m` unseen ones each, which may be keys of complete
/// strata. Keys of several messages are seen more often, which makes this an upper bound.
fn unseen(messages: &Sample, singles: impl Iterator<Item = u32>) -> Option<Warning> {
    // Counted before they are added up, so that the order of the keys rounds nothing.
    let mut by_stratum: BTreeMap<u32, u64> = BTreeMap::new();
    singles.for_each(|stratum| *by_stratum.entry(stratum).or_default() += 1);
    let mut keys = 0.0;
    for (stratum, singles) in by_stratum {
        let Some(stratum) = messages.strata.get(&stratum) else { continue };
        let Some(sent) = stratum.sent else { return Some(Warning::UnseenKeys { keys: None }) };
        let arrived = stratum.arrived();
        keys += singles as f64 * ((sent - arrived) as f64 / arrived as f64);
    }
    (keys >= UNSEEN_MIN).then_some(Warning::UnseenKeys { keys: Some(keys) })
}

/// The least number of messages in which a key must be, to be seen with a probability of at least
/// 95 %; `None` if the number of messages sent is unknown or the sample may be unfair, 0 if all of
/// them arrived.
///
/// `k` of a stratum's N messages are all missing with a probability of at most `(1 - m/N)^k`. Those
/// of several strata multiply, so that the largest missing share bounds it.
pub(crate) fn seen_from(messages: &Sample) -> Option<u64> {
    let (mut from, mut all_missing) = (0, 0u64);
    for stratum in messages.strata.values() {
        let missing = stratum.sent? - stratum.arrived();
        if missing > 0 {
            let facts = stratum.facts.unwrap_or_default();
            if !facts.is_fair(stratum.sent) || facts.shortest_first {
                return None;
            }
            // The missing share of a huge N rounds to 1.
            let share = (-(stratum.arrived() as f64) / stratum.sent? as f64).ln_1p();
            let least = ((UNSEEN_CHANCE.ln() / share).floor() as u64).saturating_add(1);
            from = from.max(least);
            all_missing = all_missing.saturating_add(missing);
        }
    }
    // A key in more messages than are missing is in one that arrived.
    Some(if all_missing > 0 { from.min(all_missing.saturating_add(1)) } else { 0 })
}

/// A warning about records whose keys weren't counted.
pub(crate) fn uncounted(records: u64, limit: usize) -> Option<Warning> {
    (records > 0).then_some(Warning::UncountedRecords { records, limit })
}

/// Warnings about strata whose sample contradicts their exact total of `x`.
pub(crate) fn contradictions(parts: &[(u32, &Stratum)]) -> Vec<Warning> {
    parts
        .iter()
        .filter_map(|(number, stratum)| {
            let statistic = contradiction(stratum)?;
            let level = CONTRADICTION_LEVEL;
            Some(Warning::ContradictsExact { stratum: *number, statistic, level })
        })
        .collect()
}

/// The distance between the exact total and the expanded sample in standard errors, if chance
/// doesn't explain it.
///
/// Student's t alone would ring for a job of equal messages whose last, shorter one is missing.
/// So the distance must also be more than the missing messages explain one by one: `k` extreme
/// messages are all missing with a probability of at most `(1 - m/N)^k`.
///
/// An exact total below that of the messages that arrived is wrong for certain.
fn contradiction(stratum: &Stratum) -> Option<f64> {
    let exact = stratum.exact_x()?;
    let moments = &stratum.moments;
    if moments.messages() == 0 {
        return None;
    }
    let excess = moments.sum_x() - exact;
    if moments.smallest_x() >= 0.0 && excess > 1e-9 * moments.sum_x() {
        return Some(f64::NEG_INFINITY);
    }
    let sent = stratum.sent? as f64;
    let distance = exact - sent * moments.mean_x();
    let rounding = 1e-9 * (exact.abs() + (sent * moments.mean_x()).abs());
    if distance.abs() <= rounding {
        return None;
    }
    if stratum.is_complete() {
        return Some(f64::INFINITY.copysign(distance));
    }
    let arrived = moments.messages() as f64;
    let missing = stratum.missing_share();
    let error = sent * (missing * moments.variance_x() / arrived).sqrt();
    let statistic = distance / error;
    let extremes = (distance.abs() / moments.largest_x()).ceil();
    let is_explained = extremes * missing.ln() > CONTRADICTION_LEVEL.ln();
    let t = StudentsT::new(0.0, 1.0, arrived - 1.0).ok()?;
    let is_chance = 2.0 * (1.0 - t.cdf(statistic.abs())) > CONTRADICTION_LEVEL;
    (!is_explained && !is_chance).then_some(statistic)
}
