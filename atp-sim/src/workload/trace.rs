//! Messages as a file says: lines of `at_us source destination bytes`.

use crate::{engine::US, net::HostId};
use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

/// The longest message, bytes, and the latest time, microseconds.
const BYTES_MAX: u32 = 67_108_864;
const AT_US_MAX: u64 = 10_000_000;
/// Picoseconds have so many digits after the point of a number of microseconds.
const DIGITS: usize = 6;
const _: () = assert!(US == 10u64.pow(DIGITS as u32));

/// The jobs of a trace: all messages from one host to another are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// By source and destination, if they come from a file of lines.
    pub jobs: Vec<TraceJob>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceJob {
    /// Who sends.
    pub source: HostId,
    /// To whom.
    pub destination: HostId,
    /// When, picoseconds, and how much, bytes, in the order of time.
    pub messages: Arc<[(u64, u32)]>,
}

impl TraceJob {
    /// Its messages, for a flow that outlives it.
    pub fn messages(&self) -> impl Iterator<Item = (u64, u32)> + Clone + 'static {
        let messages = Arc::clone(&self.messages);
        (0..messages.len()).map(move |at| messages[at])
    }
}

impl Trace {
    /// How many hosts it speaks of: the greatest number and one.
    pub fn hosts(&self) -> u32 {
        let hosts = self.jobs.iter().flat_map(|job| [job.source, job.destination]);
        hosts.max().map_or(0, |host| host.saturating_add(1))
    }

    /// When the last message comes, picoseconds.
    pub fn last_ps(&self) -> u64 {
        let last = |job: &TraceJob| job.messages.last().map_or(0, |message| message.0);
        self.jobs.iter().map(last).max().unwrap_or(0)
    }
}

impl FromStr for Trace {
    type Err = String;

    /// Lines may stand in any order; those that are empty or begin with `#` say nothing. Times have up
    /// to six digits after the point.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut jobs: BTreeMap<(HostId, HostId), Vec<(u64, u32)>> = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let message = Message::parse(line).map_err(|why| format!("line {number}: {why}"))?;
            let Message { source, destination, at_ps, bytes } = message;
            jobs.entry((source, destination)).or_default().push((at_ps, bytes));
        }
        let job = |((source, destination), mut messages): (_, Vec<(u64, u32)>)| {
            messages.sort_by_key(|message| message.0);
            TraceJob { source, destination, messages: messages.into() }
        };
        match jobs.is_empty() {
            true => Err("no message in it".to_owned()),
            false => Ok(Self { jobs: jobs.into_iter().map(job).collect() }),
        }
    }
}

/// The same messages, job by job.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TraceJob { source, destination, messages } in &self.jobs {
            for (at_ps, bytes) in messages.iter() {
                let (us, ps) = (at_ps / US, at_ps % US);
                writeln!(f, "{us}.{ps:0DIGITS$} {source} {destination} {bytes}")?;
            }
        }
        Ok(())
    }
}

/// A line.
struct Message {
    at_ps: u64,
    source: HostId,
    destination: HostId,
    bytes: u32,
}

impl Message {
    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[at, source, destination, bytes] = &words[..] else {
            return Err(format!("{} words instead of at_us source destination bytes", words.len()));
        };
        let host = |word: &str| match word.parse() {
            Ok(host @ 0..10_000) => Ok(host),
            _ => Err(format!("{word:?} is no host from 0 to 9,999")),
        };
        let (source, destination): (HostId, HostId) = (host(source)?, host(destination)?);
        if source == destination {
            return Err(format!("host {source} sends to itself"));
        }
        let bytes = match bytes.parse() {
            Ok(bytes @ 1..=BYTES_MAX) => bytes,
            _ => return Err(format!("{bytes:?} is no length from 1 to {BYTES_MAX} bytes")),
        };
        let at_ps =
            picoseconds(at).ok_or_else(|| format!("{at:?} is no time from 0 to {AT_US_MAX} us"))?;
        Ok(Self { at_ps, source, destination, bytes })
    }
}

/// Of microseconds, without rounding.
fn picoseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || part.len() > DIGITS || !is_digits(part) {
        return None;
    }
    let us: u64 = whole.parse().ok().filter(|us| *us < AT_US_MAX)?;
    let ps: u64 = format!("{part:0<DIGITS$}").parse().ok()?;
    Some(us * US + ps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trace__is_read_by_pairs_and_in_time() {
        let text = "# a trace\n\n7.5 1 0 300\n 0.000001\t1 0 200\n3 0 1 100\n";
        let trace: Trace = text.parse().unwrap();
        let job = |source, destination, messages: &[(u64, u32)]| TraceJob {
            source,
            destination,
            messages: messages.into(),
        };
        let expected = [job(0, 1, &[(3 * US, 100)]), job(1, 0, &[(1, 200), (7_500_000, 300)])];
        assert_eq!(trace.jobs, expected);
        assert_eq!((trace.hosts(), trace.last_ps()), (2, 7_500_000));
    }

    #[test]
    fn trace__says_which_line_is_wrong() {
        for (line, about) in [
            ("1 0 1", "3 words"),
            ("1 0 1 5 6", "5 words"),
            ("x 0 1 5", "time"),
            ("-1 0 1 5", "time"),
            ("+1 0 1 5", "time"),
            (".5 0 1 5", "time"),
            ("1e3 0 1 5", "time"),
            ("1.0000001 0 1 5", "time"),
            ("10000000 0 1 5", "time"),
            ("99999999999999999999 0 1 5", "time"),
            ("1 10000 1 5", "host"),
            ("1 0 -1 5", "host"),
            ("1 3 3 5", "itself"),
            ("1 0 1 0", "length"),
            ("1 0 1 67108865", "length"),
            ("1 0 1 5.0", "length"),
        ] {
            let error = format!("1 0 1 5\n\n{line}").parse::<Trace>().unwrap_err();
            assert!(error.starts_with("line 3: ") && error.contains(about), "{line}: {error}");
        }
        assert!("# nothing\n".parse::<Trace>().unwrap_err().contains("no message"));
    }

    proptest! {
        #[test]
        fn trace__reads_what_it_writes(
            lines in proptest::collection::vec((0u64..AT_US_MAX * US, 0u32..50, 0u32..50, 1..=BYTES_MAX), 1..40)
        ) {
            let mut text = String::new();
            for (at_ps, source, distance, bytes) in lines {
                let (us, ps) = (at_ps / US, at_ps % US);
                text += &format!("{us}.{ps:06} {source} {} {bytes}\n", source + 1 + distance);
            }
            let trace: Trace = text.parse().unwrap();
            let written = trace.to_string();
            prop_assert_eq!(written.lines().count(), text.lines().count());
            prop_assert_eq!(written.parse::<Trace>(), Ok(trace));
        }

        /// Whatever it is given, it says something.
        #[test]
        fn trace__survives_everything(text in "[0-9a-z.#\\- \n\t]{0,200}|\\PC{0,100}") {
            let _ = text.parse::<Trace>();
        }
    }
}
