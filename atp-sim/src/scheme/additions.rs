//! Additions to the paper's protocol, which ATP's names select after a `+`.

use std::fmt;

/// The longest window of arrivals: that of a controller that runs every 2 ms.
const ADVICE_WINDOW_NS_MAX: u64 = atp_common::laws::advice::WINDOW_NS;
/// The window has this many intervals, unless it is longer than the longest.
const ADVICE_WINDOW_INTERVALS: u64 = 15;

/// A choice of additions. All are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// Receiving hosts compute advice at this interval, nanoseconds.
    pub advice_interval_ns: Option<u64>,
    /// Packets of a sender's first window.
    pub window_packets: Option<u32>,
    /// Minimum epoch, nanoseconds.
    pub epoch_ns_min: Option<u64>,
    /// Short messages travel one by one, not several in a packet.
    pub unpacked: bool,
    /// MRDF compares new messages by bytes, not by packets.
    pub rank_by_bytes: bool,
    /// Small jobs send in a deep queue of their own, within their host's budget.
    pub small_jobs: bool,
}

impl Additions {
    /// Every addition with its description, for help texts.
    pub const ALL: [(&'static str, &'static str); 6] = [
        ("advice[=US]", "receiving hosts advise rates, computed every US microseconds (2)"),
        ("window[=PACKETS]", "senders begin with a window, not at the line's rate (16)"),
        ("epoch=US", "an epoch is never shorter than US microseconds"),
        ("single", "every message has packets of its own: short ones aren't packed"),
        ("rank-by-bytes", "MRDF compares new messages by bytes, not by packets"),
        ("small-jobs", "jobs of 16 packets send in a deep queue, within a budget"),
    ];

    /// The window of arrivals in receiving hosts, nanoseconds.
    pub fn advice_window_ns(interval_ns: u64) -> u64 {
        (ADVICE_WINDOW_INTERVALS * interval_ns).min(ADVICE_WINDOW_NS_MAX.max(2 * interval_ns))
    }

    /// Parses the words behind a scheme's name.
    ///
    /// # Errors
    /// The reason, if a word is unknown or its number is out of bounds.
    pub fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut additions = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
            let number = |default: Option<u32>, most: u32| match value {
                None => {
                    default.ok_or_else(|| format!("{word:?} needs a number: write {name}=2000"))
                }
                Some(value) => match value.parse() {
                    Ok(number) if (1..=most).contains(&number) => Ok(number),
                    _ => Err(format!("{word:?}: choose a whole number from 1 to {most}")),
                },
            };
            let us = |number: u32| u64::from(number) * 1_000;
            match name {
                "advice" => additions.advice_interval_ns = Some(us(number(Some(2), 100_000)?)),
                "window" => additions.window_packets = Some(number(Some(16), 10_000)?),
                "single" if value.is_none() => additions.unpacked = true,
                "rank-by-bytes" if value.is_none() => additions.rank_by_bytes = true,
                "small-jobs" if value.is_none() => additions.small_jobs = true,
                "epoch" => additions.epoch_ns_min = Some(us(number(None, 100_000)?)),
                _ => {
                    let names = Self::ALL.map(|(name, _)| name).join(", ");
                    return Err(format!("{word:?} is not an addition: choose from {names}"));
                }
            }
        }
        Ok(additions)
    }
}

impl fmt::Display for Additions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            advice_interval_ns,
            window_packets,
            epoch_ns_min,
            unpacked,
            rank_by_bytes,
            small_jobs,
        } = *self;
        let mut write = |name: &str, number: u64, default: u64| match number == default {
            true => write!(f, "+{name}"),
            false => write!(f, "+{name}={number}"),
        };
        advice_interval_ns.map_or(Ok(()), |ns| write("advice", ns / 1_000, 2))?;
        window_packets.map_or(Ok(()), |packets| write("window", packets.into(), 16))?;
        epoch_ns_min.map_or(Ok(()), |ns| write("epoch", ns / 1_000, 0))?;
        let chosen =
            [(unpacked, "+single"), (rank_by_bytes, "+rank-by-bytes"), (small_jobs, "+small-jobs")];
        chosen.iter().filter(|(on, _)| *on).try_for_each(|(_, word)| f.write_str(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Additions, String> {
        Additions::from_words(text.split('+').skip(1))
    }

    #[test]
    fn from_words__reads_what_is_written() {
        for text in [
            "",
            "+advice",
            "+window",
            "+advice=2000+window=10+epoch=2000",
            "+single+rank-by-bytes+small-jobs",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let given = parse("+window=16+advice=2").unwrap();
        assert_eq!(
            (given, given.to_string().as_str()),
            (parse("+advice+window").unwrap(), "+advice+window")
        );
        for (wrong, advice) in [
            ("+x", "choose from advice[=US]"),
            ("+epoch", "write epoch=2000"),
            ("+window=0", "1 to 10000"),
            ("+advice=y", "1 to 100000"),
            ("+single=1", "is not an addition"),
            ("+", "is not an addition"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(advice), "{wrong}: {error}");
        }
    }

    #[test]
    fn advice_window_ns__fits_fabric_and_daemon() {
        let windows = [2_000, 2_000_000, 50_000_000].map(Additions::advice_window_ns);
        assert_eq!(windows, [30_000, 10_000_000, 100_000_000]);
    }
}
