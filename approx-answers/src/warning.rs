//! Warnings: why an interval may be wrong, and the remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::wire::number;
use crate::{Digits, Gap, Order};

/// Fewer messages than this make an interval doubtful: totals of messages are skewed, and Student's
/// t assumes that their mean isn't.
pub const MESSAGES_MIN: u64 = 30;

/// A reason to doubt an interval. Its text names the remedy.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Warning {
    /// Fewer than [`MESSAGES_MIN`] messages carry the answer.
    FewMessages {
        /// Messages that arrived, of the strata that aren't complete. Of a key: those that hold it.
        messages: u64,
    },
    /// No message that arrived of an incomplete stratum holds the key, or a value of a query
    /// without keys, and the answer takes its missing ones as without it.
    KeyUnseenIn {
        /// The first such stratum.
        stratum: u32,
        /// Messages of the stratum that arrived.
        messages: u64,
    },
    /// Many keys occur in one message of the incomplete strata each, so others are likely to be in
    /// missing messages only. Such a key may have a row, by messages of complete strata.
    UnseenKeys {
        /// The expected number of such keys, at most; `None` if the number of messages sent is
        /// unknown.
        keys: Option<f64>,
    },
    /// Records whose key was beyond the limit, or beyond 256 MiB, aren't counted.
    UncountedRecords {
        /// The number of uncounted records.
        records: u64,
        /// The limit on keys.
        limit: usize,
    },
    /// The sample differs from the exact totals by more than chance explains: it is biased, or
    /// lacks messages with more records than any that arrived.
    ContradictsExact {
        /// The stratum.
        stratum: u32,
        /// The difference, in standard errors.
        #[serde(with = "number")]
        statistic: f64,
        /// The probability of a false alarm, if no missing message has more records than the
        /// largest that arrived.
        #[serde(with = "number")]
        level: f64,
    },
    /// The source of an incomplete stratum hasn't shuffled its messages, or hasn't said that it
    /// has.
    NotShuffled {
        /// The first such stratum.
        stratum: u32,
        /// The order of the stratum's messages.
        order: Order,
        /// Messages that are missing; `None` if the number sent is unknown.
        missing: Option<u64>,
        /// Messages that were sent, if that is known.
        sent: Option<u64>,
        /// Where they are missing, if chance doesn't explain it.
        gap: Option<Gap>,
    },
    /// The source of an incomplete stratum prefers short messages, and its messages differ in
    /// length.
    ShortestFirst {
        /// The first such stratum.
        stratum: u32,
    },
    /// Strata were weighted by what arrived, because the number sent is unknown.
    SentUnknown {
        /// A stratum without it.
        stratum: u32,
    },
    /// A stratum has too few messages to show how they vary: the interval has no bounds, or rare
    /// values of such strata, which have much of what is missing, don't show.
    ThinStratum {
        /// The stratum.
        stratum: u32,
        /// Messages of the stratum that arrived.
        messages: u64,
    },
    /// The interval of a ratio's denominator contains 0.
    DenominatorNearZero {
        /// The lower end of the denominator's interval.
        #[serde(with = "number")]
        low: f64,
        /// The upper end.
        #[serde(with = "number")]
        high: f64,
    },
    /// The estimate is skewed, so messages more extreme than those that arrived may be missing.
    HeavyTail {
        /// The share of the variance that the most extreme message holds.
        #[serde(with = "number")]
        share: f64,
        /// The absolute skewness of the estimate, as far as it comes from strata with extreme
        /// messages, or twice its correlation with its own variance: `2 G1 sqrt(1/m - 1/N)` for m
        /// of N messages with the skewness G1.
        #[serde(with = "number")]
        skewness: f64,
        /// The most that has no warning.
        #[serde(with = "number")]
        limit: f64,
    },
    /// All messages that arrived of some incomplete strata agree, so these strata add no width to
    /// the interval, and chance doesn't explain it. Rare values may be missing: the rule of three
    /// bounds how many messages may differ, but nothing bounds by how much.
    NoVariation {
        /// Messages of these strata that arrived with records; those without, if no message has
        /// records.
        messages: u64,
    },
    /// All messages that arrived of some incomplete strata hold equally many records of a count, or
    /// the same share of their records, and chance doesn't explain it. The interval of the count
    /// allows for messages without any by the rule of three, and for none with more.
    EqualCounts {
        /// Messages of these strata that arrived with records; those without, if no message has
        /// records.
        messages: u64,
    },
    /// A sum over messages that all arrived isn't exact, and the interval doesn't hide it: numbers
    /// of 64 bits round integers beyond 2^53, and fractions that were rounded don't cancel.
    Rounded {
        /// The most by which the answer is wrong.
        #[serde(with = "number")]
        by: f64,
    },
    /// A quantile is so close to an end that the messages that arrived don't bound it, others are
    /// missing.
    EndOfRange,
    /// Keys whose rows lack the query's numbers, or whose denominators add up to 0, have no answer.
    KeysWithoutValue {
        /// The number of such keys, of which 1,000 are known at most.
        keys: u64,
        /// The first of them.
        first: String,
    },
    /// Records that arrived have no value, and sums, means, quantiles and counts of values leave
    /// them out.
    MissingValues {
        /// The number of such records, of all keys.
        records: u64,
    },
    /// The key `NA`, or another word for a missing value, is among the largest.
    NaRanked,
    /// The column of `count(column)` holds text, and `NA`, `N/A`, `null` or `\N` may be values.
    NaInText {
        /// Rows with one of these, which aren't counted.
        rows: u64,
    },
}

impl Warning {
    /// Whether the answer itself may be wrong, although its interval is narrow enough: more
    /// messages of the same kind don't help, or values and keys may be missing that none of them
    /// shows.
    pub fn is_doubt(&self) -> bool {
        match self {
            Self::NotShuffled { .. }
            | Self::ShortestFirst { .. }
            | Self::UnseenKeys { .. }
            | Self::UncountedRecords { .. }
            | Self::ContradictsExact { .. }
            | Self::SentUnknown { .. }
            | Self::HeavyTail { .. }
            | Self::NoVariation { .. } => true,
            Self::FewMessages { .. }
            | Self::KeyUnseenIn { .. }
            | Self::ThinStratum { .. }
            | Self::DenominatorNearZero { .. }
            | Self::EqualCounts { .. }
            | Self::Rounded { .. }
            | Self::EndOfRange
            | Self::KeysWithoutValue { .. }
            | Self::MissingValues { .. }
            | Self::NaRanked
            | Self::NaInText { .. } => false,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewMessages { messages } => write!(
                f,
                "only {messages} messages carry this answer, and an interval needs {MESSAGES_MIN}: \
                 raise the MSR, or send smaller messages"
            ),
            Self::KeyUnseenIn { stratum, messages } => write!(
                f,
                "none of the {messages} messages of stratum {stratum} has rows of this answer, which \
                 takes the missing ones as without any: up to {} % of its messages may have some; \
                 raise its MSR, or send rare rows in an exact group",
                rule_of_three_percent(*messages)
            ),
            Self::UnseenKeys { keys } => {
                match keys {
                    Some(keys) => write!(f, "up to {keys:.1} keys")?,
                    None => f.write_str("some keys")?,
                }
                f.write_str(
                    " are expected in missing messages only, as others are in one message each: group by a coarser key, raise the MSR, or send rare keys in an \
                     exact group",
                )
            }
            Self::UncountedRecords { records, limit } => write!(
                f,
                "{records} records have keys beyond the limit of {limit} keys or that of memory, and \
                 aren't counted: raise the limit, join strata, or group by a coarser key"
            ),
            Self::ContradictsExact { stratum, statistic, level } => write!(
                f,
                "stratum {stratum} lies {statistic:.1} standard errors from its exact total, beyond \
                 what chance explains (level {level}): the sample is biased, or messages with more \
                 records than any that arrived are missing; shuffle the records, use \
                 `try_every_message`, or turn MRDF off"
            ),
            Self::NotShuffled { stratum, order, missing, sent, gap } => {
                match order {
                    Order::Unknown => write!(
                        f,
                        "the source of stratum {stratum} hasn't said whether its messages are shuffled"
                    )?,
                    Order::Ordered => {
                        write!(
                            f,
                            "the messages of stratum {stratum} follow the order of the data"
                        )?;
                    }
                    Order::Shuffled { .. } => write!(
                        f,
                        "the messages of stratum {stratum} are shuffled in parts, and not as a whole"
                    )?,
                }
                match (gap, missing, sent) {
                    (Some(gap), ..) => write!(f, ", and {gap}")?,
                    (None, Some(missing), Some(sent)) => {
                        write!(f, ", and {missing} of {sent} are missing")?;
                    }
                    (None, ..) => f.write_str(", and messages are missing")?,
                }
                f.write_str(": those that arrived may be no fair sample; ")?;
                f.write_str(match order {
                    Order::Unknown => {
                        "shuffle the records and state it (`order` of the job or group), or let all \
                         messages arrive"
                    }
                    _ => "shuffle all records, or let all messages arrive",
                })
            }
            Self::ShortestFirst { stratum } => write!(
                f,
                "the messages of stratum {stratum} differ in length, and short ones arrive more often: turn \
                 MRDF off, send messages of equal length, or give each length its stratum"
            ),
            Self::SentUnknown { stratum } => write!(
                f,
                "strata are weighted by what arrived, because stratum {stratum} hasn't said how \
                 many messages it sent: announce the number when the job starts"
            ),
            Self::ThinStratum { stratum, messages } => {
                let so = match messages {
                    0..2 => "so the interval has no bounds",
                    _ => {
                        "and such strata have much of what is missing, so rare values may be missing"
                    }
                };
                write!(
                    f,
                    "stratum {stratum} has too few messages ({messages}) to show how they vary, {so}: \
                     raise its MSR, or join it with another stratum"
                )
            }
            &Self::DenominatorNearZero { low, high } => {
                let digits = Digits::new([low, low, high], 4);
                write!(
                    f,
                    "the ratio's denominator lies between {} and {}, and may be 0: raise the MSR, \
                     or ask for the two sums",
                    digits.text(low),
                    digits.text(high)
                )
            }
            Self::HeavyTail { share, skewness, limit } => write!(
                f,
                "one message holds {:.0} % of the variance, and the estimate has a skewness of \
                 {skewness:.2} (at most {limit}), so more extreme messages may be missing: shuffle \
                 records between messages, send large values in an exact group, or raise the MSR",
                100.0 * share
            ),
            Self::NoVariation { messages } => write!(
                f,
                "all {messages} messages of one or more strata agree, which says nothing about rare \
                 values: up to {} % of their messages may differ; use `try_every_message`, or send \
                 rare values in an exact group",
                rule_of_three_percent(*messages)
            ),
            Self::EqualCounts { messages } => write!(
                f,
                "all {messages} messages of one or more strata hold equally many records, or the \
                 same share of theirs, and the interval allows for missing ones without any, up to \
                 {} % of their messages: raise the MSR, or state the number of records in an exact \
                 group",
                rule_of_three_percent(*messages)
            ),
            Self::Rounded { by } => write!(
                f,
                "the answer may be wrong by {by:.3e}, because numbers of 64 bits round integers \
                 beyond 2^53, and fractions: subtract a constant first, or count in units that \
                 need neither"
            ),
            Self::EndOfRange => write!(
                f,
                "the quantile is too close to an end for the messages that arrived: raise the MSR, \
                 or ask for a quantile nearer to the middle"
            ),
            Self::KeysWithoutValue { keys, first } => {
                // A key may be as long as a message, and have several lines.
                let first: String = first.chars().take(40).collect();
                let others = if *keys > 1 { " and others" } else { "" };
                write!(
                    f,
                    "{keys} keys have no answer, because no row that arrived has a value of them, \
                     or their denominators add up to 0: {first:?}{others}"
                )
            }
            Self::MissingValues { records } => write!(
                f,
                "{records} records that arrived have no value (None, NaN or NA) and are left out: \
                 fill them in before they are sent, if they stand for a number"
            ),
            Self::NaRanked => write!(
                f,
                "NA or null is ranked as a value: if it stands for missing values, leave its rows out"
            ),
            Self::NaInText { rows } => write!(
                f,
                "{rows} rows hold NA or null in a column of text, and aren't counted: if that is a \
                 value, ask for count(*) by that column"
            ),
        }
    }
}

/// The most of the job's messages that may differ from those that arrived, which all agree. It is
/// less if most messages arrived.
fn rule_of_three_percent(messages: u64) -> String {
    let percent = (300.0 / messages.max(1) as f64).min(100.0);
    // It isn't 0, however many messages agree.
    let places = (-percent.log10()).ceil().max(1.0) as usize;
    format!("{percent:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display__names_the_remedy() {
        let remedies = [
            (Warning::FewMessages { messages: 7 }, "raise the MSR"),
            (
                Warning::UnseenKeys { keys: Some(3.2) },
                "up to 3.2 keys are expected in missing messages only",
            ),
            (Warning::KeyUnseenIn { stratum: 2, messages: 300 }, "up to 1.0 % of its messages may"),
            (Warning::UncountedRecords { records: 5, limit: 2 }, "raise the limit"),
            (
                Warning::ContradictsExact { stratum: 1, statistic: 9.0, level: 0.001 },
                "more records than any that arrived are missing; shuffle the records",
            ),
            (
                Warning::NotShuffled {
                    stratum: 0,
                    order: Order::Ordered,
                    missing: Some(361),
                    sent: Some(2_000),
                    gap: Some(Gap::End { share: 0.1805 }),
                },
                "the last 18.1 % of the messages are missing: those that arrived may be no fair sample; \
                 shuffle all records",
            ),
            (Warning::ShortestFirst { stratum: 0 }, "turn MRDF off"),
            (Warning::SentUnknown { stratum: 0 }, "announce the number"),
            (Warning::ThinStratum { stratum: 9, messages: 1 }, "no bounds: raise its MSR"),
            (Warning::ThinStratum { stratum: 9, messages: 2 }, "rare values may be missing: raise"),
            (Warning::DenominatorNearZero { low: -1.0, high: 2.0 }, "the two sums"),
            (Warning::HeavyTail { share: 0.5, skewness: 1.0, limit: 0.2 }, "exact group"),
            (Warning::NoVariation { messages: 30 }, "10.0 % of"),
            (Warning::NoVariation { messages: 7_500 }, "up to 0.04 % of"),
            (Warning::EqualCounts { messages: 60 }, "up to 5.0 % of their messages"),
            (Warning::Rounded { by: 2.0 }, "wrong by 2.000e0"),
            (Warning::EndOfRange, "raise the MSR"),
            (Warning::KeysWithoutValue { keys: 1, first: "a".into() }, "has a value of them"),
            (Warning::NaRanked, "leave its rows out"),
            (Warning::NaInText { rows: 3 }, "count(*) by that column"),
        ];
        for (warning, remedy) in remedies {
            assert!(warning.to_string().contains(remedy), "{warning}");
        }
    }
}
