//! Distributions of message sizes.

use rand::{Rng, RngExt};
use std::fmt;

/// Value sizes of Facebook's key-value pool ETC (Atikoglu et al., SIGMETRICS 2012, table 5 and
/// §5.3): the cumulative shares of 1 to 14 bytes. Beyond 15 bytes, sizes follow a generalized
/// Pareto distribution.
const SMALL_VALUES: [f64; 14] = [
    0.005_83, 0.184_03, 0.276_42, 0.276_6, 0.304, 0.304_65, 0.310_71, 0.310_94, 0.319_31, 0.327_68,
    0.417_57, 0.418_49, 0.421_75, 0.441_55,
];
/// The cumulative share of 15 bytes.
const SMALL: f64 = 0.47;
const SCALE: f64 = 214.476;
const SHAPE: f64 = 0.348_238;
/// The limit of value sizes.
const VALUE_BYTES_MAX: f64 = 100_000.0;

/// The limit of message sizes, bytes.
const BYTES_MAX: f64 = 67_108_864.0;

/// Flow sizes of Facebook's Hadoop racks (Roy et al., SIGCOMM 2015, figure 6): bytes, and the share
/// of flows of at most that size, with linear interpolation.
const HADOOP: [(f64, f64); 32] = [
    (50.0, 0.0),
    (124.0, 0.01),
    (295.0, 0.05),
    (314.0, 0.1),
    (335.0, 0.15),
    (374.0, 0.2),
    (461.0, 0.25),
    (500.0, 0.3),
    (530.0, 0.35),
    (561.0, 0.4),
    (594.0, 0.45),
    (655.0, 0.5),
    (734.0, 0.55),
    (956.0, 0.6),
    (1_550.0, 0.65),
    (6_260.0, 0.7),
    (42_300.0, 0.75),
    (49_300.0, 0.8),
    (76_800.0, 0.85),
    (119_000.0, 0.9),
    (167_000.0, 0.92),
    (227_000.0, 0.94),
    (406_000.0, 0.96),
    (819_000.0, 0.97),
    (1_610_000.0, 0.98),
    (2_020_000.0, 0.985),
    (3_090_000.0, 0.99),
    (4_150_000.0, 0.9925),
    (5_560_000.0, 0.995),
    (7_460_000.0, 0.9975),
    (8_910_000.0, 0.999),
    (10_000_000.0, 1.0),
];

/// A distribution of sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// One size, bytes.
    Fixed(u32),
    /// NetApprox's FBKV.
    KeyValue,
    /// NetApprox's FBHD.
    Hadoop,
    /// Bytes, and the share of messages of at most that size, with linear interpolation.
    Table(Vec<(f64, f64)>),
}

impl Sizes {
    /// Parses a table: a line with the mean, then lines of `bytes share`. The mean is checked but
    /// not used. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// The line that is wrong, the reason, and the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).zip(1..);
        let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let in_line = |number: u32| move |why: String| format!("line {number}: {why}");
        let Some((mean, mut at)) = lines.next() else {
            return Err(
                "line 1: the file is empty: expected the mean, then lines of `bytes share`"
                    .to_owned(),
            );
        };
        check_mean(mean).map_err(in_line(at))?;
        let mut table: Vec<(f64, f64)> = Vec::new();
        for (line, number) in lines {
            table.push(table_line(line, table.last()).map_err(in_line(number))?);
            at = number;
        }
        match table.last() {
            Some((_, share)) if *share == 1.0 => Ok(Self::Table(table)),
            Some((_, share)) => Err(format!(
                "line {at}: the last share is {share}: expected 1, which means all messages"
            )),
            None => {
                Err(format!("line {at}: no sizes after the mean: expected lines of `bytes share`"))
            }
        }
    }

    /// The quantile of a `share` of messages, bytes.
    pub fn quantile(&self, share: f64) -> u32 {
        let bytes = match self {
            Self::Fixed(bytes) => return *bytes,
            Self::KeyValue => value_bytes(share),
            Self::Hadoop => on_lines(&HADOOP, share),
            Self::Table(table) => on_lines(table, share),
        };
        (bytes.ceil() as u32).max(1)
    }

    /// Draws a size.
    pub fn draw(&self, rng: &mut impl Rng) -> u32 {
        self.quantile(rng.random_range(0.0..1.0))
    }

    /// Splits `bytes` into messages of random sizes. The last message gets the remainder.
    pub fn split(&self, bytes: u64, rng: &mut impl Rng) -> Vec<u32> {
        let mut left = bytes;
        let mut messages = Vec::new();
        while left > 0 {
            let size = u64::from(self.draw(rng)).min(left);
            // The cast is exact: the size is at most the drawn `u32`.
            messages.push(size as u32);
            left -= size;
        }
        messages
    }

    /// The mean of `of` over all sizes, from enough quantiles to include rare sizes.
    pub fn mean(&self, of: impl Fn(u32) -> f64) -> f64 {
        const STEPS: u32 = 100_000;
        let at = |step: u32| (f64::from(step) + 0.5) / f64::from(STEPS);
        (0..STEPS).map(|step| of(self.quantile(at(step)))).sum::<f64>() / f64::from(STEPS)
    }
}

/// Writes `fbkv`, `fbhd`, a number of bytes, or a table's pairs of `bytes share`.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => write!(f, "{bytes}"),
            Self::KeyValue => f.write_str("fbkv"),
            Self::Hadoop => f.write_str("fbhd"),
            Self::Table(table) => {
                let pairs = table.iter().map(|(bytes, share)| format!("{bytes} {share}"));
                f.write_str(&pairs.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Checks that the first line is a mean, because a table without a mean would lose its first size.
fn check_mean(line: &str) -> Result<(), String> {
    let expected =
        "expected the mean size in bytes, above 0 and finite; lines of `bytes share` follow it";
    match line.parse::<f64>() {
        Ok(mean) if mean > 0.0 && mean.is_finite() => Ok(()),
        _ => Err(format!("{line:?}: {expected}")),
    }
}

/// Parses `bytes share`, and compares it with the previous line.
fn table_line(line: &str, before: Option<&(f64, f64)>) -> Result<(f64, f64), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[bytes, share] = &words[..] else {
        return Err(format!("{} words: expected two, `bytes share`", words.len()));
    };
    let within = |word: &str, least: f64, most: f64, what: &str| match word.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{word:?} is not a {what}: expected {least} to {most}")),
    };
    let bytes = within(bytes, 1.0, BYTES_MAX, "size in bytes")?;
    let share = within(share, 0.0, 1.0, "share of messages")?;
    match before {
        Some((before, _)) if bytes < *before => {
            Err(format!("{bytes} bytes after {before}: expected increasing sizes"))
        }
        Some((_, before)) if share < *before => Err(format!(
            "a share of {share} after {before}: expected the share of messages of at most this size"
        )),
        _ => Ok((bytes, share)),
    }
}

fn value_bytes(share: f64) -> f64 {
    if share < SMALL {
        return SMALL_VALUES.partition_point(|known| *known <= share) as f64 + 1.0;
    }
    let beyond = (share - SMALL) / (1.0 - SMALL);
    let excess = SCALE / SHAPE * (libm::pow(1.0 - beyond, -SHAPE) - 1.0);
    (15.0 + excess).min(VALUE_BYTES_MAX)
}

fn on_lines(table: &[(f64, f64)], share: f64) -> f64 {
    let at = table.partition_point(|(_, known)| *known < share);
    let (bytes, end) = table[at.min(table.len() - 1)];
    let Some((first_bytes, start)) = at.checked_sub(1).map(|before| table[before]) else {
        return bytes;
    };
    if end <= start {
        bytes
    } else {
        first_bytes + (bytes - first_bytes) * (share - start) / (end - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Write, stderr},
        path::Path,
    };

    /// Compares a distribution with its published table, if that is available.
    fn compare(test: &str, name: &str, ours: &Sizes, mean_error: f64) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(name);
        let Ok(text) = std::fs::read_to_string(&path) else {
            // Not captured by the test harness, so that xtask can count skipped tests.
            let _ = writeln!(
                stderr(),
                "skipped: {test}: needs published_{name}: not beside this clone"
            );
            return;
        };
        let theirs: Vec<(f64, f64)> = text
            .lines()
            .skip(1)
            .map(|line| {
                let words: Vec<f64> = line.split_whitespace().map(|w| w.parse().unwrap()).collect();
                (words[0], words[1])
            })
            .collect();
        for share in (1..1_000).map(|at| f64::from(at) / 1_000.0) {
            // Tolerate an error of 2 % of the messages.
            let least = theirs.partition_point(|(_, known)| *known < share - 0.02);
            let most = theirs.partition_point(|(_, known)| *known < share + 0.02);
            let (least, most) = (theirs[least].0, theirs[most.min(theirs.len() - 1)].0);
            let bytes = f64::from(ours.quantile(share));
            assert!(
                (0.98 * least - 1.0..=1.02 * most + 1.0).contains(&bytes),
                "{share}: {bytes}, not {least} to {most}"
            );
        }
        let mean: f64 = text.lines().next().unwrap().trim().parse().unwrap();
        let own = ours.mean(f64::from);
        assert!((own / mean - 1.0).abs() < mean_error, "mean {own} instead of {mean}");
    }

    #[test]
    fn key_value__is_the_published_one() {
        let test = "workload::sizes::tests::key_value__is_the_published_one";
        compare(test, "FacebookKeyValue_Sampled.txt", &Sizes::KeyValue, 0.05);
    }

    #[test]
    fn hadoop__is_the_published_one() {
        let test = "workload::sizes::tests::hadoop__is_the_published_one";
        compare(test, "Facebook_HadoopDist_All.txt", &Sizes::Hadoop, 0.05);
    }

    #[test]
    fn parse__errors_name_the_line() {
        for (text, about) in [
            ("", "line 1: the file is empty"),
            ("# sizes\n\n", "line 1: the file is empty"),
            ("5 0.5\n9 1", "line 1: \"5 0.5\": expected the mean"),
            ("-3\n5 1", "line 1: \"-3\": expected the mean"),
            ("0\n5 1", "line 1: \"0\": expected the mean"),
            ("# sizes\ninf\n5 1", "line 2: \"inf\": expected the mean"),
            ("nan\n5 1", "line 1: \"nan\": expected the mean"),
            ("7\n\n", "line 1: no sizes"),
            ("7\n5 x", "line 2: \"x\" is not a share of messages: expected 0 to 1"),
            ("7\n5 nan", "line 2: \"nan\" is not a share"),
            ("7\n5 1.5", "line 2: \"1.5\" is not a share"),
            ("7\nx 1", "line 2: \"x\" is not a size in bytes: expected 1 to 67108864"),
            ("7\n0 1", "line 2: \"0\" is not a size"),
            ("7\n1e9 1", "line 2: \"1e9\" is not a size"),
            ("7\n5", "line 2: 1 words"),
            ("7\n5 0.5 1", "line 2: 3 words"),
            ("7\n5 0.5\n\n4 1", "line 4: 4 bytes after 5"),
            ("7\n5 0.5\n6 0.4", "line 3: a share of 0.4 after 0.5"),
            ("7\n5 0.5\n6 0.9\n", "line 3: the last share is 0.9: expected 1"),
        ] {
            let error = Sizes::parse(text).unwrap_err();
            assert!(error.starts_with(about), "{text:?}: {error}");
        }
        let table = Sizes::parse("# the mean\r\n15\n\n10 0\r\n20 1\n").unwrap();
        assert_eq!((table.quantile(0.0), table.quantile(0.5)), (10, 15));
    }
}
