//! The medians, as a text table and as JSON.

use atp_output::note;
use serde::Serialize;

use super::cell::{Cell, Run};
use crate::median::median;

/// The results of the command.
#[derive(Debug, Serialize)]
pub struct Results {
    rate_bits_per_s: u64,
    /// The share of the receiver's port that exact traffic uses.
    load: f64,
    epoch: String,
    repetitions: usize,
    /// The machine's load average over the minute before the benchmark.
    machine_load_before: f64,
    cells: Vec<CellResults>,
}

/// A cell's runs and their medians.
#[derive(Debug, Serialize)]
struct CellResults {
    setting: String,
    law: &'static str,
    variant: &'static str,
    without: Vec<&'static str>,
    msr: f64,
    packets_per_message: u32,
    completion_of_ideal: f64,
    dropped_share: f64,
    exact_p50_ms: Option<f64>,
    exact_p99_ms: Option<f64>,
    beside_msr: f64,
    both_of_ideal: f64,
    jain: f64,
    first_share: f64,
    runs: Vec<Run>,
}

impl Results {
    pub fn new(
        rate_bytes_per_s: u64,
        load: f64,
        epoch: &str,
        machine_load_before: f64,
        cells: Vec<(Cell, Vec<Run>)>,
    ) -> Results {
        Results {
            rate_bits_per_s: rate_bytes_per_s * 8,
            load,
            epoch: epoch.to_owned(),
            repetitions: cells.first().map_or(0, |(_, runs)| runs.len()),
            machine_load_before,
            cells: cells.into_iter().map(|(cell, runs)| CellResults::new(&cell, runs)).collect(),
        }
    }

    pub fn print(&self) {
        let header = [
            "law or variant",
            "packets",
            "MSR",
            "of ideal",
            "dropped",
            "exact p99",
            "beside",
            "both of ideal",
            "share",
            "Jain",
        ];
        let rows = self.cells.iter().map(CellResults::row);
        note!("{}", super::super::table(header, 1, rows));
        note!(
            "{} Mbit/s, exact traffic {}, epochs of {} and longer, medians of {} runs; load of the \
             machine before: {:.2}. Beside: the MSR of a second job of as many messages that begins \
             when the first could be half done; share: what the first got while both ran.",
            self.rate_bits_per_s as f64 / 1e6,
            self.load,
            self.epoch,
            self.repetitions,
            self.machine_load_before
        );
    }
}

impl CellResults {
    fn new(cell: &Cell, runs: Vec<Run>) -> CellResults {
        let over = |value: fn(&Run) -> f64| median(runs.iter().map(value)).unwrap_or(0.0);
        let of_exact = |value: fn(&crate::job::exact::Latency) -> f64| {
            median(runs.iter().filter_map(|run| run.exact.as_ref().map(value)))
        };
        CellResults {
            setting: cell.setting.name(),
            law: cell.setting.law(),
            variant: cell.setting.variant(),
            without: cell.setting.without(),
            msr: cell.msr,
            packets_per_message: cell.packets,
            completion_of_ideal: over(|run| run.completion_of_ideal),
            dropped_share: over(|run| run.dropped_share),
            exact_p50_ms: of_exact(|latency| latency.p50_ms),
            exact_p99_ms: of_exact(|latency| latency.p99_ms),
            beside_msr: cell.beside,
            both_of_ideal: over(|run| run.both_of_ideal),
            jain: over(|run| run.jain),
            first_share: over(|run| run.first_share),
            runs,
        }
    }

    fn row(&self) -> [String; 10] {
        [
            self.setting.clone(),
            self.packets_per_message.to_string(),
            self.msr.to_string(),
            format!("{:.2}", self.completion_of_ideal),
            format!("{:.1} %", 100.0 * self.dropped_share),
            self.exact_p99_ms.map_or_else(String::new, |ms| format!("{ms:.2} ms")),
            self.beside_msr.to_string(),
            format!("{:.2}", self.both_of_ideal),
            format!("{:.2}", self.first_share),
            format!("{:.2}", self.jain),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::setting::Setting;
    use super::*;
    use crate::job::exact::Latency;

    #[test]
    fn new__medians_of_runs() {
        let run = |completion_of_ideal, p99_ms| Run {
            completion_of_ideal,
            dropped_share: 0.3,
            exact: Some(Latency { requests: 1_000, p50_ms: 1.0, p99_ms }),
            both_of_ideal: 1.3,
            jain: 0.9,
            first_share: 0.4,
            machine_load: 0.5,
        };
        let setting = Setting::new(atp_options::law::Choice::default());
        let cell = Cell { setting, msr: 0.8, packets: 16, beside: 0.5 };
        let runs = vec![run(1.1, 2.0), run(1.3, 4.0), run(1.2, 9.0)];
        let results = Results::new(25_000_000, 0.3, "2ms", 0.1, vec![(cell, runs)]);
        let json = serde_json::to_value(&results).unwrap();
        let cell = &json["cells"][0];
        assert_eq!(cell["completion_of_ideal"], 1.2);
        assert_eq!(cell["exact_p99_ms"], 4.0);
        assert_eq!(cell["runs"].as_array().unwrap().len(), 3);
        assert_eq!(
            (json["repetitions"].as_u64(), json["rate_bits_per_s"].as_u64()),
            (Some(3), Some(200_000_000))
        );
    }
}
