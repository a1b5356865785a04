//! Reads messages from a file. Each line is `at_us source destination bytes [coflow]`.

use super::HOSTS_MAX;
use crate::{engine::US, net::HostId};
use std::{collections::BTreeMap, fmt, ops::Range, str::FromStr, sync::Arc};

/// The limits of message sizes, bytes, and of times, microseconds.
const BYTES_MAX: u32 = 67_108_864;
const AT_US_MAX: u64 = 10_000_000;
/// The number of decimal places from microseconds to picoseconds.
const DIGITS: usize = 6;
const _: () = assert!(US == 10u64.pow(DIGITS as u32));

/// The jobs of a trace. A job has all messages from one host to another within one coflow, or
/// without a coflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The jobs, sorted by coflow, source and destination if the trace was parsed.
    pub jobs: Vec<TraceJob>,
}

/// One job of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceJob {
    /// The sender.
    pub source: HostId,
    /// The receiver.
    pub destination: HostId,
    /// The coflow's number. A coflow is complete when all its jobs are.
    pub coflow: Option<u32>,
    /// Pairs of time, picoseconds, and size, bytes, in the order of time.
    pub messages: Arc<[(u64, u32)]>,
}

impl TraceJob {
    /// The messages, in an iterator that owns them.
    pub fn messages(&self) -> impl Iterator<Item = (u64, u32)> + Clone + 'static {
        let messages = Arc::clone(&self.messages);
        (0..messages.len()).map(move |at| messages[at])
    }
}

impl Trace {
    /// The number of hosts: the largest host number plus one.
    pub fn hosts(&self) -> u32 {
        let hosts = self.jobs.iter().flat_map(|job| [job.source, job.destination]);
        hosts.max().map_or(0, |host| host.saturating_add(1))
    }

    /// The time from the first message until all messages have arrived and every host's line could
    /// have sent its messages. `line_ps` is the time of a message on a line.
    pub fn busy_ps(&self, line_ps: impl Fn(u32) -> u64) -> Range<u64> {
        let mut of_host: BTreeMap<HostId, Vec<(u64, u32)>> = BTreeMap::new();
        for job in &self.jobs {
            of_host.entry(job.source).or_default().extend(job.messages.iter());
        }
        let (mut begin_ps, mut end_ps) = (u64::MAX, 0);
        for mut messages in of_host.into_values() {
            messages.sort_unstable();
            begin_ps = messages.first().map_or(begin_ps, |first| begin_ps.min(first.0));
            let free_ps = messages
                .iter()
                .fold(0, |free_ps, (at_ps, bytes)| at_ps.max(&free_ps) + line_ps(*bytes));
            end_ps = end_ps.max(free_ps);
        }
        begin_ps.min(end_ps)..end_ps
    }

    /// The time of the last message, picoseconds.
    pub fn last_ps(&self) -> u64 {
        let last = |job: &TraceJob| job.messages.last().map_or(0, |message| message.0);
        self.jobs.iter().map(last).max().unwrap_or(0)
    }
}

impl FromStr for Trace {
    type Err = String;

    /// Lines may be in any order. Empty lines and lines that begin with `#` are ignored. Times have
    /// up to six decimal places.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut jobs: BTreeMap<_, Vec<(u64, u32)>> = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let message = Message::parse(line).map_err(|why| format!("line {number}: {why}"))?;
            let Message { source, destination, at_ps, bytes, coflow } = message;
            jobs.entry((coflow, source, destination)).or_default().push((at_ps, bytes));
        }
        let job = |((coflow, source, destination), mut messages): (_, Vec<(u64, u32)>)| {
            messages.sort_by_key(|message| message.0);
            TraceJob { source, destination, coflow, messages: messages.into() }
        };
        match jobs.is_empty() {
            true => Err(format!("the file has no message: expected lines of `{FORM}`")),
            false => Ok(Self { jobs: jobs.into_iter().map(job).collect() }),
        }
    }
}

/// Writes the messages job by job.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TraceJob { source, destination, coflow, messages } in &self.jobs {
            for (at_ps, bytes) in messages.iter() {
                let (us, ps) = (at_ps / US, at_ps % US);
                write!(f, "{us}.{ps:0DIGITS$} {source} {destination} {bytes}")?;
                coflow.map_or(Ok(()), |coflow| write!(f, " {coflow}"))?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

/// The message of one line.
struct Message {
    at_ps: u64,
    source: HostId,
    destination: HostId,
    bytes: u32,
    coflow: Option<u32>,
}

const FORM: &str = "at_us source destination bytes [coflow]";

impl Message {
    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&[at, source, destination, bytes] | &[at, source, destination, bytes, _]) = &words[..]
        else {
            return Err(format!("{} words: expected `{FORM}`", words.len()));
        };
        let host = |word: &str| match word.parse() {
            Ok(host @ 0..HOSTS_MAX) => Ok(host),
            _ => Err(format!("{word:?} is not a host from 0 to {}", HOSTS_MAX - 1)),
        };
        let (source, destination): (HostId, HostId) = (host(source)?, host(destination)?);
        if source == destination {
            return Err(format!("host {source} sends to itself"));
        }
        let bytes = match bytes.parse() {
            Ok(bytes @ 1..=BYTES_MAX) => bytes,
            _ => return Err(format!("{bytes:?} is not a length from 1 to {BYTES_MAX} bytes")),
        };
        let at_ps = picoseconds(at)
            .ok_or_else(|| format!("{at:?} is not a time from 0 to {AT_US_MAX} us"))?;
        let number = |word: &&str| {
            let why = |_| format!("{word:?} is not a coflow number from 0 to {}", u32::MAX);
            word.parse().map_err(why)
        };
        let coflow = words.get(4).map(number).transpose()?;
        Ok(Self { at_ps, source, destination, bytes, coflow })
    }
}

/// Parses microseconds without rounding.
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
    fn trace__groups_messages_by_pair_in_the_order_of_time() {
        let text = "# a trace\n\n7.5 1 0 300\n 0.000001\t1 0 200\n3 0 1 100\n4 0 1 50 9\n";
        let trace: Trace = text.parse().unwrap();
        let job = |source, destination, coflow, messages: &[(u64, u32)]| TraceJob {
            source,
            destination,
            coflow,
            messages: messages.into(),
        };
        let expected = [
            job(0, 1, None, &[(3 * US, 100)]),
            job(1, 0, None, &[(1, 200), (7_500_000, 300)]),
            job(0, 1, Some(9), &[(4 * US, 50)]),
        ];
        assert_eq!(trace.jobs, expected);
        assert_eq!((trace.hosts(), trace.last_ps()), (2, 7_500_000));
    }

    /// A host's line sends one message at a time, to any receiver, and is idle until the next
    /// message.
    #[test]
    fn busy_ps__ends_when_the_last_line_is_idle() {
        let trace: Trace = "5 0 1 10\n5 0 2 20\n6 0 1 1\n40 0 1 3\n7 1 0 30\n".parse().unwrap();
        let us = |bytes: u32| u64::from(bytes) * US;
        assert_eq!(trace.busy_ps(us), 5 * US..43 * US);
        assert_eq!(trace.busy_ps(|bytes| 2 * us(bytes)), 5 * US..73 * US);
        assert_eq!(trace.busy_ps(|_| 0), 5 * US..40 * US);
    }

    #[test]
    fn trace__errors_name_the_line() {
        for (line, about) in [
            ("1 0 1", "3 words"),
            ("1 0 1 5 6 7", "6 words"),
            ("1 0 1 5 x", "coflow"),
            ("1 0 1 5 -1", "coflow"),
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
        assert!("# nothing\n".parse::<Trace>().unwrap_err().contains("has no message"));
    }

    proptest! {
        #[test]
        fn trace__round_trips_through_text(
            lines in proptest::collection::vec(
                (0u64..AT_US_MAX * US, 0u32..50, 0u32..50, 1..=BYTES_MAX, proptest::option::of(0u32..5)),
                1..40
            )
        ) {
            let mut text = String::new();
            for (at_ps, source, distance, bytes, coflow) in lines {
                let (us, ps) = (at_ps / US, at_ps % US);
                let coflow = coflow.map_or(String::new(), |coflow| coflow.to_string());
                text += &format!("{us}.{ps:06} {source} {} {bytes} {coflow}\n", source + 1 + distance);
            }
            let trace: Trace = text.parse().unwrap();
            let written = trace.to_string();
            prop_assert_eq!(written.lines().count(), text.lines().count());
            prop_assert_eq!(written.parse::<Trace>(), Ok(trace));
        }

        /// No text makes the parser panic.
        #[test]
        fn trace__parses_any_text_without_panic(text in "[0-9a-z.#\\- \n\t]{0,200}|\\PC{0,100}") {
            let _ = text.parse::<Trace>();
        }
    }
}
