//! Reads traces of coflows in the format of coflow-benchmark (Chowdhury, "Coflow-Benchmark"; its
//! trace is an hour of Facebook's MapReduce jobs).
//!
//! The first line is `ports coflows`. Each further line is a coflow: `id arrival_ms mappers rack...
//! reducers rack:MB...`. Each reducer receives the same amount from every mapper.

use super::{Sizes, Trace, TraceJob};
use crate::net::HostId;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, str::FromStr};

/// The limit of ports, of mappers and of reducers.
const PORTS_MAX: u32 = 10_000;
/// The limit of arrival times: a day.
const ARRIVAL_MS_MAX: u64 = 86_400_000;

/// The transfers of one application from mappers to reducers.
#[derive(Clone, Debug, PartialEq)]
pub struct Coflow {
    /// The start, milliseconds.
    pub arrival_ms: u64,
    /// The ports of the mappers, possibly repeated.
    pub mappers: Vec<u32>,
    /// The ports of the reducers, and the megabytes that each receives from all mappers together.
    pub reducers: Vec<(u32, f64)>,
}

/// A trace of coflows.
#[derive(Clone, Debug, PartialEq)]
pub struct Coflows {
    /// The number of ports.
    pub ports: u32,
    /// The coflows, by arrival.
    pub coflows: Vec<Coflow>,
}

/// The scaling of a trace to the hosts and the duration of a simulation.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The number of hosts. Port p becomes host `p % hosts`.
    pub hosts: u32,
    /// The total bytes of all coflows.
    pub bytes: f64,
    /// The start of the last coflow, picoseconds. The first starts at 0.
    pub duration_ps: u64,
    /// The sizes of the messages into which transfers are split.
    pub sizes: Sizes,
    /// The seed of the sizes.
    pub seed: u64,
}

impl Coflows {
    /// Keeps only the first `number` coflows.
    pub fn first(mut self, number: usize) -> Self {
        self.coflows.truncate(number);
        self
    }

    /// Creates a job for each pair of hosts of each coflow. All its messages arrive when the coflow
    /// starts. Transfers of a host to itself are left out. Coflows are numbered from 1.
    pub fn trace(&self, scale: &Scale) -> Trace {
        let transfers: Vec<_> =
            self.coflows.iter().map(|coflow| coflow.transfers(scale.hosts)).collect();
        let megabytes: f64 = transfers.iter().flat_map(BTreeMap::values).sum();
        let ms = |coflow: Option<&Coflow>| coflow.map_or(0, |coflow| coflow.arrival_ms);
        let first_ms = ms(self.coflows.first());
        let lasts_ms = (ms(self.coflows.last()) - first_ms).max(1);
        let mut rng = ChaCha8Rng::seed_from_u64(scale.seed);
        let mut jobs = Vec::new();
        for ((coflow, transfers), number) in self.coflows.iter().zip(&transfers).zip(1..) {
            let late = u128::from(coflow.arrival_ms - first_ms) * u128::from(scale.duration_ps);
            let at_ps = (late / u128::from(lasts_ms)) as u64;
            for (&(source, destination), part) in transfers {
                let bytes = (part / megabytes * scale.bytes).ceil().max(1.0) as u64;
                let messages = scale.sizes.split(bytes, &mut rng);
                let messages = messages.into_iter().map(|bytes| (at_ps, bytes)).collect();
                jobs.push(TraceJob { source, destination, coflow: Some(number), messages });
            }
        }
        Trace { jobs }
    }
}

impl Coflow {
    /// The megabytes between each pair of hosts.
    fn transfers(&self, hosts: u32) -> BTreeMap<(HostId, HostId), f64> {
        let mut transfers = BTreeMap::new();
        for (reducer, megabytes) in &self.reducers {
            let each = megabytes / self.mappers.len() as f64;
            for mapper in &self.mappers {
                let (source, destination) = (mapper % hosts, reducer % hosts);
                if source != destination {
                    *transfers.entry((source, destination)).or_default() += each;
                }
            }
        }
        transfers
    }

    fn parse(line: &str, ports: u32) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let mut next =
            |what: &str| words.next().ok_or_else(|| format!("the line ends before its {what}"));
        let port = |word: &str| match word.parse() {
            Ok(port) if port < ports => Ok(port),
            _ => Err(format!("{word:?} is not a port below {ports}")),
        };
        let number = |word: &str, what: &str| match word.parse::<u32>() {
            Ok(number @ 1..=PORTS_MAX) => Ok(number),
            _ => Err(format!("{word:?} is not a number of {what} from 1 to {PORTS_MAX}")),
        };
        next("id")?;
        let arrival = next("arrival")?;
        let arrival_ms = match arrival.parse() {
            Ok(ms @ 0..=ARRIVAL_MS_MAX) => ms,
            _ => return Err(format!("{arrival:?} is not a time from 0 to {ARRIVAL_MS_MAX} ms")),
        };
        let mappers = number(next("mappers")?, "mappers")?;
        let mappers =
            (0..mappers).map(|_| port(next("mappers")?)).collect::<Result<_, String>>()?;
        let reducers = number(next("reducers")?, "reducers")?;
        let mut reducer = || {
            let word = next("reducers")?;
            let (rack, megabytes) =
                word.split_once(':').ok_or_else(|| format!("{word:?} is not rack:MB"))?;
            match megabytes.parse::<f64>() {
                Ok(megabytes) if (0.0..=1e9).contains(&megabytes) => Ok((port(rack)?, megabytes)),
                _ => Err(format!("{megabytes:?} is not a number of megabytes")),
            }
        };
        let reducers = (0..reducers).map(|_| reducer()).collect::<Result<_, String>>()?;
        match words.next() {
            None => Ok(Self { arrival_ms, mappers, reducers }),
            Some(word) => Err(format!("unexpected {word:?} after the last reducer")),
        }
    }
}

impl FromStr for Coflows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let (head, _) =
            lines.next().ok_or("line 1: the file is empty: expected `ports coflows`")?;
        let head: Vec<Option<u32>> =
            head.split_whitespace().map(|word| word.parse().ok()).collect();
        let &[Some(ports @ 1..=PORTS_MAX), Some(number)] = &head[..] else {
            return Err(format!("line 1: expected `ports coflows`, with 1 to {PORTS_MAX} ports"));
        };
        let mut coflows: Vec<Coflow> = Vec::new();
        for (line, at) in lines {
            let coflow = Coflow::parse(line, ports).map_err(|why| format!("line {at}: {why}"))?;
            if coflows.last().is_some_and(|last| coflow.arrival_ms < last.arrival_ms) {
                return Err(format!("line {at}: the coflow arrives before the previous one"));
            }
            coflows.push(coflow);
        }
        match coflows.len() as u64 == u64::from(number) {
            true => Ok(Self { ports, coflows }),
            false => Err(format!(
                "line 1: it announces {number} coflows, but the file has {}",
                coflows.len()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MS;
    use std::{
        io::{Write, stderr},
        path::Path,
    };

    fn scale(hosts: u32, bytes: f64) -> Scale {
        Scale { hosts, bytes, duration_ps: MS, sizes: Sizes::Fixed(1_000), seed: 1 }
    }

    #[test]
    fn trace__divides_the_bytes() {
        // Two mappers send 3 MB to port 2 and 1 MB to port 0. Port 0 is also one of the mappers.
        let text = "4 2\n1 100 2 0 1 2 2:3.0 0:1.0\n2 300 1 3 1 1:0.5\n";
        let trace = text.parse::<Coflows>().unwrap().trace(&scale(4, 40_000.0));
        let sums: Vec<_> = trace
            .jobs
            .iter()
            .map(|job| {
                let bytes: u32 = job.messages.iter().map(|message| message.1).sum();
                (job.messages[0].0, job.source, job.destination, bytes)
            })
            .collect();
        let expected = [(0, 0, 2, 15_000), (0, 1, 0, 5_000), (0, 1, 2, 15_000), (MS, 3, 1, 5_000)];
        assert_eq!(sums, expected);
        // On two hosts, ports 0 and 2 are the same host.
        let trace = text.parse::<Coflows>().unwrap().first(1).trace(&scale(2, 1_500.0));
        assert_eq!(trace.jobs.len(), 1);
        assert_eq!(*trace.jobs[0].messages, [(0, 1_000), (0, 500)]);
    }

    #[test]
    fn coflows__errors_name_the_line() {
        for (text, about) in [
            ("", "line 1: the file is empty: expected `ports coflows`"),
            ("4", "line 1: expected"),
            ("0 1\n", "line 1: expected"),
            ("4 -1\n", "line 1: expected"),
            ("4 2\n1 0 1 0 1 1:1", "line 1: it announces 2 coflows, but the file has 1"),
            ("4 1\n1", "line 2: the line ends before its arrival"),
            ("4 1\n1 x 1 0 1 1:1", "line 2: \"x\" is not a time"),
            ("4 1\n1 0 4000000000 0", "line 2: \"4000000000\" is not a number of mappers"),
            ("4 1\n1 0 2 0", "line 2: the line ends before its mappers"),
            ("4 1\n1 0 1 4 1 1:1", "line 2: \"4\" is not a port"),
            ("4 1\n1 0 1 0 0", "line 2: \"0\" is not a number of reducers"),
            ("4 1\n1 0 1 0 2 1:1", "line 2: the line ends before its reducers"),
            ("4 1\n1 0 1 0 1 1", "line 2: \"1\" is not rack:MB"),
            ("4 1\n1 0 1 0 1 1:NaN", "line 2: \"NaN\" is not a number of megabytes"),
            ("4 1\n1 0 1 0 1 1:-1", "line 2: \"-1\" is not a number of megabytes"),
            ("4 1\n1 0 1 0 1 1:1 2:1", "line 2: unexpected \"2:1\" after"),
            ("4 2\n1 5 1 0 1 1:1\n\n2 4 1 0 1 1:1", "line 4: the coflow arrives before"),
        ] {
            let error = text.parse::<Coflows>().unwrap_err();
            assert!(error.starts_with(about), "{text:?}: {error}");
        }
    }

    /// Reads the published trace, if it is available, and scales it to twelve hosts.
    #[test]
    fn coflows__reads_the_published_trace() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/FB2010-1Hr-150-0.txt");
        let Ok(text) = std::fs::read_to_string(&path) else {
            let test = "workload::coflow::tests::coflows__reads_the_published_trace";
            // Not captured by the test harness, so that xtask can count skipped tests.
            let _ = writeln!(
                stderr(),
                "skipped: {test}: needs published_FB2010-1Hr-150-0.txt: not beside this clone"
            );
            return;
        };
        let coflows: Coflows = text.parse().unwrap();
        assert_eq!((coflows.ports, coflows.coflows.len()), (150, 526));
        let bytes = 50e6;
        let trace = coflows.trace(&scale(12, bytes));
        assert!(trace.hosts() <= 12 && trace.last_ps() <= MS);
        assert!(trace.jobs.iter().all(|job| job.source != job.destination));
        let messages = trace.jobs.iter().flat_map(|job| job.messages.iter());
        let sum: f64 = messages.map(|message| f64::from(message.1)).sum();
        // Each job rounds up to a byte.
        assert!((bytes..bytes + trace.jobs.len() as f64).contains(&sum), "{sum} bytes");
    }
}
