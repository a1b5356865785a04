//! Additions to the paper's protocol. ATP has advice and a first window by default; its names
//! select others after a `+`.

/// The longest window of arrivals: that of a controller that runs every 2 ms.
const ADVICE_WINDOW_NS_MAX: u64 = atp_common::laws::advice::WINDOW_NS;
/// The window has this many intervals, unless it is longer than the longest.
const ADVICE_WINDOW_INTERVALS: u64 = 15;

/// The interval of advice in a fabric, nanoseconds.
const ADVICE_INTERVAL_NS: u64 = 2_000;
/// The packets of a first window.
const WINDOW_PACKETS: u32 = 16;

/// A choice of additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Default for Additions {
    /// The additions of daemon and library by default.
    fn default() -> Self {
        Self {
            advice_interval_ns: Some(ADVICE_INTERVAL_NS),
            window_packets: Some(WINDOW_PACKETS),
            ..Self::NONE
        }
    }
}

impl Additions {
    /// The paper's protocol.
    pub const NONE: Self = Self {
        advice_interval_ns: None,
        window_packets: None,
        epoch_ns_min: None,
        unpacked: false,
        rank_by_bytes: false,
        small_jobs: false,
    };

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

    /// Adds what the words behind a scheme's name say.
    ///
    /// # Errors
    /// The reason, if a word is unknown or its number is out of bounds.
    pub fn with_words<'a>(self, words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut additions = self;
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
                "advice" => {
                    let default_us = (ADVICE_INTERVAL_NS / 1_000) as u32;
                    additions.advice_interval_ns = Some(us(number(Some(default_us), 100_000)?));
                }
                "window" => {
                    additions.window_packets = Some(number(Some(WINDOW_PACKETS), 10_000)?);
                }
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

    /// The words that turn `base` into these additions.
    pub(super) fn words_beyond(&self, base: Self) -> String {
        let Self {
            advice_interval_ns,
            window_packets,
            epoch_ns_min,
            unpacked,
            rank_by_bytes,
            small_jobs,
        } = *self;
        let mut words = String::new();
        let mut push = |name: &str, number: u64, default: u64| match number == default {
            true => words += &format!("+{name}"),
            false => words += &format!("+{name}={number}"),
        };
        if let Some(ns) =
            advice_interval_ns.filter(|_| advice_interval_ns != base.advice_interval_ns)
        {
            push("advice", ns / 1_000, ADVICE_INTERVAL_NS / 1_000);
        }
        if let Some(packets) = window_packets.filter(|_| window_packets != base.window_packets) {
            push("window", packets.into(), WINDOW_PACKETS.into());
        }
        if let Some(ns) = epoch_ns_min {
            push("epoch", ns / 1_000, 0);
        }
        let chosen =
            [(unpacked, "+single"), (rank_by_bytes, "+rank-by-bytes"), (small_jobs, "+small-jobs")];
        words.extend(chosen.iter().filter(|(on, _)| *on).map(|(_, word)| *word));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Additions, String> {
        Additions::NONE.with_words(text.split('+').skip(1))
    }

    #[test]
    fn with_words__reads_what_is_written() {
        for text in [
            "",
            "+advice",
            "+window",
            "+advice=2000+window=10+epoch=2000",
            "+single+rank-by-bytes+small-jobs",
        ] {
            assert_eq!(parse(text).unwrap().words_beyond(Additions::NONE), text);
        }
        let given = parse("+window=16+advice=2").unwrap();
        assert_eq!(given, Additions::default());
        assert_eq!(given.words_beyond(Additions::NONE), "+advice+window");
        assert_eq!(given.words_beyond(given), "");
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
