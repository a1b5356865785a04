//! A measured cell.

use serde::{Deserialize, Serialize};

use super::super::rows;
use super::engine::Engine;
use super::scheme::Scheme;

pub const PARTITIONS: u32 = 4;
pub const WINDOW_MS: u64 = 1_000;
/// The version of the benchmark. Raise it when the network or the load changes: rows of older
/// versions are then measured again.
const DEFINITION: u32 = 2;
/// The rate of the other ports and NICs, over that of the receiver's.
const FASTER: u64 = 5;
/// Seconds per second by which answers may fall behind. A scheme that is slower than its load by
/// more than this share doesn't keep up.
const LAG_GROWTH_MAX: f64 = 0.01;
/// A load whose producer was later than this wasn't the load of the cell.
const BEHIND_MS_MAX: f64 = 500.0;

/// One scheme under one load, or the exact traffic without any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// None: exact traffic alone.
    pub scheme: Option<Scheme>,
    /// None where no record may be missing, and with an accepted error.
    pub msr: Option<f64>,
    /// The error that is accepted of averages, as a share of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The offered records as a share of what the port can carry beside the exact traffic.
    pub load: f64,
    pub round: u32,
    /// Windows that are measured of each partition.
    pub seconds: u32,
    pub rate_bits_per_s: u64,
    /// The bytes of a record's value.
    #[serde(default = "value_bytes_of_definition_1")]
    pub value_bytes: u32,
    /// The program that answers windows.
    #[serde(default)]
    pub engine: Engine,
}

fn value_bytes_of_definition_1() -> u32 {
    100
}

/// The results of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why there are no results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    pub definition: u32,
    pub records_per_s: f64,
    /// Windows that were measured, and those of them that were answered in time.
    pub windows: usize,
    pub answered: usize,
    /// From a window's end to its answer, in the order of windows.
    pub latency_ms: Vec<f64>,
    /// Seconds per second by which answers fell behind.
    pub lag_growth: f64,
    /// Records of the answered windows, and those of them that arrived.
    pub records: u64,
    pub received: u64,
    /// Means over the answered windows, relative to the truth.
    pub count_error: f64,
    pub mean_error: f64,
    /// Answers with an interval, and those whose interval held the truth.
    #[serde(default)]
    pub intervals: (u64, u64),
    /// Processor time of the bridge, the receiver and the daemons, and the records that arrived
    /// meanwhile.
    pub processor_s: Processor,
    pub processed: u64,
    /// The longest time by which the producer was late.
    pub behind_ms_max: f64,
    /// What the switch's port sent to the receiver while windows were measured, exact requests
    /// included.
    pub port_bytes_per_s: f64,
    /// The share of the processors' time without work while windows were measured. Other programs
    /// of this machine lower it too.
    #[serde(default)]
    pub idle: Option<f64>,
    /// Times of the exact requests that were due while windows were measured.
    pub exact_ms: Vec<f64>,
    /// Exact requests without an answer. Their times are among the others.
    pub exact_unanswered: usize,
    /// Whether daemons with eBPF programs ran.
    pub has_daemons: bool,
    /// The machine's load average over the minute before the cell.
    pub machine_load: f64,
    /// The time that the cell took, with its preparation.
    pub took_s: f64,
}

/// Seconds of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Processor {
    pub bridge: f64,
    pub receiver: f64,
    pub daemons: f64,
}

impl Processor {
    pub fn all(self) -> f64 {
        self.bridge + self.receiver + self.daemons
    }
}

/// The file of all rows.
pub type Rows = rows::Rows<Cell>;

impl rows::Cell for Cell {
    type Outcome = Outcome;

    const ROW_BEGIN: &'static str = "{\"scheme\":";

    /// A failure replaces no results.
    fn replaces(&self, outcome: &Outcome, before: &Outcome) -> bool {
        outcome.is_good() || !before.is_good()
    }
}

impl Cell {
    /// The cell's name in messages.
    pub fn name(&self) -> String {
        let Some(scheme) = self.scheme else {
            return format!("round {}, exact traffic alone", self.round);
        };
        let sampling = self.sampling().map_or_else(String::new, |text| format!(", {text}"));
        format!("round {}, load {}, {}{sampling}", self.round, self.load, scheme.name())
    }

    /// MSR or accepted error, in words.
    pub fn sampling(&self) -> Option<String> {
        let error = self.error.map(|error| format!("error {} %", (1e4 * error).round() / 1e2));
        error.or(self.msr.map(|msr| format!("MSR {msr}")))
    }

    /// The rate of the ports and NICs of all hosts but the receiver.
    pub fn others_rate_bits_per_s(&self) -> u64 {
        FASTER * self.rate_bits_per_s
    }

    /// Whether both are the same but for the round.
    pub fn is_alike(&self, other: &Cell) -> bool {
        Cell { round: other.round, ..self.clone() } == *other
    }
}

impl Outcome {
    pub fn failure(sentence: String) -> Outcome {
        Outcome { failed: Some(sentence), definition: DEFINITION, ..Outcome::default() }
    }

    /// An outcome of this version.
    pub fn new() -> Outcome {
        Outcome { definition: DEFINITION, ..Outcome::default() }
    }

    /// Whether it has results of this version.
    pub fn is_good(&self) -> bool {
        self.failed.is_none() && self.definition == DEFINITION
    }

    /// Whether answers came as fast as records.
    pub fn keeps_up(&self) -> bool {
        self.answered == self.windows && self.lag_growth <= LAG_GROWTH_MAX
    }

    /// Whether answers were late at first, so that latencies are those of the start.
    pub fn is_catching_up(&self) -> bool {
        self.lag_growth < -LAG_GROWTH_MAX
    }

    /// Whether the producer was so late that latencies aren't those of the scheme.
    pub fn is_late(&self) -> bool {
        self.behind_ms_max > BEHIND_MS_MAX
    }

    /// Bytes of records' values per second that answers are about, at the pace of answers.
    pub fn goodput_bytes_per_s(&self, cell: &Cell) -> Option<f64> {
        let bytes = self.received as f64 * f64::from(cell.value_bytes);
        let seconds = self.answered as f64 / f64::from(PARTITIONS) * WINDOW_MS as f64 / 1e3;
        let pace = 1.0 + self.lag_growth.max(0.0);
        (self.answered > 0).then(|| bytes / seconds / pace)
    }

    pub fn records_per_processor_s(&self) -> Option<f64> {
        let processor_s = self.processor_s.all();
        (processor_s > 0.0).then(|| self.processed as f64 / processor_s)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn cell(scheme: Scheme, msr: Option<f64>, round: u32) -> Cell {
        let rate_bits_per_s = 50_000_000;
        let (load, seconds, value_bytes) = (0.5, 20, 100);
        Cell {
            scheme: Some(scheme),
            msr,
            error: None,
            load,
            round,
            seconds,
            rate_bits_per_s,
            value_bytes,
            engine: Engine::Plain,
        }
    }

    /// An outcome with latencies from `first_ms` on.
    pub fn outcome(first_ms: f64) -> Outcome {
        Outcome {
            windows: 100,
            answered: 100,
            latency_ms: (0..100).map(|at| first_ms + f64::from(at)).collect(),
            records: 1_000,
            received: 800,
            processed: 900,
            processor_s: Processor { bridge: 0.5, receiver: 0.25, daemons: 0.25 },
            port_bytes_per_s: 5e6,
            idle: Some(0.25),
            exact_ms: vec![2.0; 200],
            ..Outcome::new()
        }
    }

    #[test]
    fn keeps_up__unless_answers_are_missing_or_fall_behind() {
        let good = outcome(1.0);
        assert!(good.keeps_up());
        assert!(!Outcome { answered: 99, ..good.clone() }.keeps_up());
        assert!(!Outcome { lag_growth: 0.1, ..good.clone() }.keeps_up());
        assert_eq!(good.records_per_processor_s(), Some(900.0));
        assert_eq!(Outcome::new().records_per_processor_s(), None);
    }

    #[test]
    fn rows__a_failure_replaces_no_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let cell = cell(Scheme::Atp, Some(0.8), 1);
        let mut rows = Rows::open(&path).unwrap();
        rows.add(cell.clone(), outcome(1.0)).unwrap();
        rows.add(cell.clone(), Outcome::failure("it fell".to_owned())).unwrap();
        for rows in [rows, Rows::open(&path).unwrap()] {
            assert_eq!(rows.get(&cell), Some(&outcome(1.0)));
        }
    }

    #[test]
    fn is_alike__whatever_the_round() {
        let first = cell(Scheme::Atp, Some(0.8), 1);
        assert!(first.is_alike(&Cell { round: 3, ..first.clone() }));
        assert!(!first.is_alike(&Cell { load: 1.5, ..first.clone() }));
    }
}
