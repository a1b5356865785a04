//! Where messages are missing: at the end, in one run, or more in one part of the job than in
//! another.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Chance alone shows a gap less often than this, by each of the two tests.
const CHANCE_MIN: f64 = 0.001;
/// The quantile of chi-square's distribution with three degrees of freedom that belongs to it.
const CHI_SQUARE_MAX: f64 = 16.27;
/// Chi-square's distribution is right from this expectation on (Cochran's rule).
const EXPECTED_MIN: f64 = 5.0;

/// A pattern of missing messages that chance doesn't explain. Places are shares of the job's
/// messages, in the order of sending.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Gap {
    /// The last messages are missing.
    End {
        /// Their share of all messages.
        share: f64,
    },
    /// Messages in a row are missing.
    Run {
        /// The place of the first.
        from: f64,
        /// The place behind the last.
        to: f64,
    },
    /// The missing messages are spread unevenly.
    Uneven {
        /// The share of each quarter's messages that is missing.
        quarters: [f64; 4],
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match *self {
            Self::End { share } => {
                write!(f, "the last {} of the messages are missing", percent(share))
            }
            Self::Run { from, to } => write!(
                f,
                "the messages from {} to {} of the way are missing",
                percent(from),
                percent(to)
            ),
            Self::Uneven { quarters } => write!(
                f,
                "{} are missing of the first, second, third and last quarter of the messages",
                quarters.map(percent).join(", ")
            ),
        }
    }
}

/// The gap among `messages` messages, of which those in `lost` are missing: ascending ranges.
pub(crate) fn gap(messages: u64, lost: &[Range<u64>]) -> Option<Gap> {
    let lost =
        || lost.iter().map(|run| run.start..run.end.min(messages)).filter(|run| !run.is_empty());
    let total = lost().fold(0, |sum: u64, run| sum.saturating_add(run.end - run.start));
    let delivered = messages.checked_sub(total)?;
    long_run(messages, delivered, lost).or_else(|| uneven(messages, delivered, lost))
}

/// A run of missing messages that is far longer than the others, and than chance explains.
fn long_run<R: Iterator<Item = Range<u64>>>(
    messages: u64,
    delivered: u64,
    lost: impl Fn() -> R,
) -> Option<Gap> {
    let length = |run: &Range<u64>| run.end - run.start;
    let longest = lost().max_by_key(length)?;
    // Messages that share a packet are lost together.
    let burst = lost().filter(|run| *run != longest).map(|run| length(&run)).max().unwrap_or(0);
    if length(&longest) <= 1.max(2 * burst) {
        return None;
    }
    let place = |id: u64| id as f64 / messages as f64;
    // The last message may be the shortest, and then MRDF sends it first.
    let is_end = longest.end >= messages.saturating_sub(1);
    // A run that isn't the end may begin at any message.
    let starts = if is_end { 1.0 } else { messages as f64 };
    if starts * chance(messages, delivered, length(&longest)) >= CHANCE_MIN {
        return None;
    }
    Some(match is_end {
        true => Gap::End { share: place(length(&longest)) },
        false => Gap::Run { from: place(longest.start), to: place(longest.end) },
    })
}

/// The probability that `run` given messages of `sent` are all among the lost ones.
fn chance(sent: u64, delivered: u64, run: u64) -> f64 {
    // The formula has the same value with both swapped. This way it ends soon, whatever a sender
    // claims.
    let (few, many) = (run.min(delivered), run.max(delivered));
    let mut chance = 1.0;
    for done in 0..few {
        chance *= sent.saturating_sub(many + done) as f64 / (sent - done) as f64;
        if chance < CHANCE_MIN / sent as f64 {
            break;
        }
    }
    chance
}

/// Missing messages that lie in some quarters more than in others: Pearson's test, with runs as
/// clusters.
fn uneven<R: Iterator<Item = Range<u64>>>(
    messages: u64,
    delivered: u64,
    lost: impl Fn() -> R,
) -> Option<Gap> {
    let bounds = [0, 1, 2, 3, 4].map(|quarter| (u128::from(messages) * quarter / 4) as u64);
    let quarters: [Range<u64>; 4] = std::array::from_fn(|at| bounds[at]..bounds[at + 1]);
    let within = |quarter: &Range<u64>| -> u64 {
        let parts = lost().map(|run| run.start.max(quarter.start)..run.end.min(quarter.end));
        parts.map(|part| part.end.saturating_sub(part.start)).sum()
    };
    let missing = (messages - delivered) as f64;
    let squares: f64 = lost().map(|run| ((run.end - run.start) as f64).powi(2)).sum();
    // A message's run has this many messages on average.
    let cluster = squares / missing;
    let share = missing / messages as f64;
    let size = |quarter: &Range<u64>| (quarter.end - quarter.start) as f64;
    if quarters.iter().any(|quarter| size(quarter) * share / cluster < EXPECTED_MIN) {
        return None;
    }
    let deviation = |quarter: &Range<u64>| {
        let expected = size(quarter) * share;
        (within(quarter) as f64 - expected).powi(2) / (expected * (1.0 - share) * cluster)
    };
    let statistic: f64 = quarters.iter().map(deviation).sum();
    let shares = quarters.each_ref().map(|quarter| within(quarter) as f64 / size(quarter));
    (statistic > CHI_SQUARE_MAX).then_some(Gap::Uneven { quarters: shares })
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lost messages are ranges")]
mod tests {
    use super::*;
    use rand::{RngExt, seq::index};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn is_end(gap: Option<Gap>) -> bool {
        matches!(gap, Some(Gap::End { .. }))
    }

    #[test]
    fn gap__at_the_end() {
        // A good network: the job ended at its MSR.
        assert!(is_end(gap(1_000, &[900..1_000])));
        assert!(is_end(gap(60, &[6..60])));
        // The shorter last message came before the others.
        assert!(is_end(gap(1_000, &[900..999])));
        // A lossy network on the way there.
        let losses = (0..880).step_by(11).map(|id| id..id + 1);
        let lost: Vec<Range<u64>> = losses.chain([890..1_000]).collect();
        assert!(is_end(gap(1_000, &lost)));
        let text = gap(2_000, &[1_639..2_000]).unwrap().to_string();
        assert_eq!(text, "the last 18.1 % of the messages are missing");
    }

    /// Claims of a hostile host.
    #[test]
    fn gap__of_any_ids() {
        assert!(is_end(gap(u64::MAX, &[9..u64::MAX])));
        // All messages are missing, or none was sent.
        assert_eq!([gap(u64::MAX, &[0..u64::MAX]), gap(0, &[0..u64::MAX])], [None, None]);
    }

    #[test]
    fn gap__in_one_run() {
        assert!(matches!(gap(1_000, &[300..400]), Some(Gap::Run { from: 0.3, to: 0.4 })));
    }

    #[test]
    fn gap__in_some_quarters_more_than_in_others() {
        let lost: Vec<Range<u64>> = (0..1_000)
            .filter(|id| id % 40 == 7 || id % 8 == 0 && *id > 750)
            .map(|id| id..id + 1)
            .collect();
        let Some(Gap::Uneven { quarters }) = gap(1_000, &lost) else { panic!("no gap") };
        assert!(quarters[3] > 4.0 * quarters[0], "{quarters:?}");
    }

    #[test]
    fn gap__losses_everywhere_are_none() {
        assert_eq!(gap(1_000, &[]), None);
        assert_eq!(gap(100, &[99..100]), None);
        // Every message was tried: each tenth is lost, also the last one.
        let each = |step: u64, len: u64| (0..1_000 / step).map(move |at| (at + 1) * step - len);
        let lost = |step, len| each(step, len).map(move |id| id..id + len).collect::<Vec<_>>();
        assert_eq!(gap(1_000, &lost(10, 1)), None);
        // Each tenth packet, of 20 messages.
        assert_eq!(gap(1_000, &lost(200, 20)), None);
    }

    /// 4,000 draws of each kind, at a level of 0.002: 8 expected, and more than 27 are missed once
    /// in a million runs (Poisson). The seeds are fixed.
    #[test]
    fn gap__of_random_losses_is_rare() {
        for (messages, lost, burst) in
            [(2_000u64, 100usize, 1u64), (2_000, 400, 1), (20_000, 60, 20), (300, 150, 1)]
        {
            let mut found = 0;
            for seed in 0..4_000 {
                let mut draws = ChaCha8Rng::seed_from_u64(seed);
                let places = messages / burst;
                let mut ids = index::sample(&mut draws, places as usize, lost).into_vec();
                ids.sort_unstable();
                let mut runs: Vec<Range<u64>> = Vec::new();
                for id in ids {
                    let start = id as u64 * burst;
                    let end = start + draws.random_range(1..=burst);
                    match runs.last_mut().filter(|last| last.end == start) {
                        Some(last) => last.end = end,
                        None => runs.push(start..end),
                    }
                }
                found += u32::from(gap(messages, &runs).is_some());
            }
            assert!(found <= 27, "{messages}, {lost}, {burst}: {found} of seeds 0 to 3999");
        }
    }

    #[test]
    fn chance__is_that_of_a_draw_without_replacement() {
        // 3 of 10 are lost: the first of 2 given ones with 3/10, the other then with 2/9.
        assert!((chance(10, 7, 2) - 6.0 / 90.0).abs() < 1e-12);
        assert!((chance(10, 2, 7) - 6.0 / 90.0).abs() < 1e-12);
        assert_eq!((chance(10, 0, 10), chance(10, 10, 0)), (1.0, 1.0));
        // Claims of a hostile host.
        assert!(chance(u32::MAX.into(), 1 << 31, 1 << 31) < CHANCE_MIN);
        assert!(chance(u32::MAX.into(), 1, u64::from(u32::MAX) - 1) < CHANCE_MIN);
    }
}
