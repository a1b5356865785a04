//! The output of `bench datapath`.

use atp_datapath::ProgramStats;
use atp_output::note;
use comfy_table::Table;
use serde::Serialize;

use crate::bench::table;

/// The content of `--json`.
#[derive(Debug, Serialize)]
pub struct Results {
    pub kernel: String,
    /// `fq` or `htb`; the egress program differs between them.
    pub pacing: &'static str,
    pub rounds: u32,
    pub repeat: u32,
    /// A program that does nothing; every other time includes its time.
    pub empty: Vec<Measured>,
    pub programs: Vec<Program>,
    pub packets: Vec<Measured>,
}

/// The kernel's data about a program.
#[derive(Debug, Serialize)]
pub struct Program {
    pub name: String,
    /// Instructions that the verifier processed, on all paths.
    pub verified_instructions: u32,
    /// Bytes of machine code.
    pub jited_bytes: u32,
}

impl From<ProgramStats> for Program {
    fn from(stats: ProgramStats) -> Self {
        let ProgramStats { name, verified_instructions, jited_bytes, .. } = stats;
        Self { name, verified_instructions, jited_bytes }
    }
}

/// The measurements of one program on one kind of packet.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub program: &'static str,
    pub packet: &'static str,
    /// The counter of such packets, if there is one.
    pub outcome: &'static str,
    /// Median of averages over many consecutive runs; `None` if a packet can't be used twice.
    pub ns_per_run: Option<f64>,
    /// Median of single runs, with colder caches and two readings of the clock inside.
    pub ns_single_run: f64,
}

const NOTES: &str = "\
ns/run: average of many runs in a row on one packet, median over the rounds; nothing is subtracted.
  The first run writes DSCP and epoch into the packet; the others find them written.
ns single: median of single runs, with cold caches and two readings of the clock in each. It also
  measures packets that are new only once. Compare it with the same column only.
DATA at ingress: includes the clone and its pass through the egress program, up to a device whose other
  end is down. The transmission of a real device comes on top.";

/// Prints the results as text.
pub fn print(results: &Results) {
    note!(
        "Linux {}, pacing by {}; {} rounds of {} runs",
        results.kernel,
        results.pacing,
        results.rounds,
        results.repeat
    );
    note!("{}", program_table(&results.programs));
    note!("{}", packet_table(results));
    note!("{NOTES}");
}

fn program_table(programs: &[Program]) -> Table {
    let rows = programs.iter().map(|program| {
        let Program { name, verified_instructions, jited_bytes } = program;
        [name.clone(), verified_instructions.to_string(), jited_bytes.to_string()]
    });
    table(["program", "verified instructions", "machine code, bytes"], 1, rows)
}

fn packet_table(results: &Results) -> Table {
    let rows = results.empty.iter().chain(&results.packets).map(|measured| {
        [
            measured.program.to_owned(),
            measured.packet.to_owned(),
            measured.outcome.to_owned(),
            measured.ns_per_run.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}")),
            format!("{:.0}", measured.ns_single_run),
        ]
    });
    table(["program", "packet", "counted as", "ns/run", "ns single"], 3, rows)
}
