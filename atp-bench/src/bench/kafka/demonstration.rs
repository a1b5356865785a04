//! `cargo xtask run --engine kafka|flink`: a topic with a tenth more records than the network
//! carries, over TCP whole, over TCP as a sample, and over ATP.

use std::fs;

use anyhow::{Context, Result};
use atp_output::say;
use testbed::interrupt;

use super::engine::Engine;
use super::row::{Cell, Rows};
use super::scheme::Scheme;
use super::{conditions, draw, require_success, table};
use crate::bench::require_root;
use crate::installed;
use crate::job::progress::Progress;
use crate::result_file::ResultFile;

const SCHEMES: [Scheme; 3] = [Scheme::TcpFull, Scheme::TcpSample, Scheme::Atp];
const MSR: f64 = 0.8;
/// Too much for the port, of which MSR isn't.
const LOAD: f64 = 1.1;
/// Enough windows of four partitions for a 99th percentile.
const SECONDS: u32 = 25;
/// Exact requests wait longer behind the queue of a slow port, and long values need little
/// processor time: differences show on a busy machine too.
const RATE_BITS_PER_S: u64 = 50_000_000;
const VALUE_BYTES: u32 = 1_000;
/// A cluster needs most of two processors for itself.
const VALUE_BYTES_OF_FLINK: u32 = 4_000;

/// A demonstration with the program of this engine at the receiving host.
pub fn main(engine: Engine) -> Result<()> {
    interrupt::install()?;
    require_root("makes network namespaces")?;
    let conditions = conditions()?;
    let folder = installed::target().join("run");
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let picture = ResultFile::at(&folder.join(engine.picture()))?;
    say!(
        "A producer writes records to a topic of Kafka. {} answers each second of them with a \
         count and a mean. The port to it carries {:.0} % of the records beside exact \
         traffic, and MSR is {MSR}.",
        engine.receiver(),
        100.0 / LOAD
    );
    // Each demonstration measures anew.
    let scratch = testbed::own_folder("atp-kafka-")?;
    let mut rows = Rows::open(&scratch.path().join("rows.jsonl"))?;
    let cells = cells(engine);
    let progress = Progress::new();
    for cell in &cells {
        let name = cell.scheme.map_or("exact traffic alone".to_owned(), |scheme| {
            format!("{}, {}", scheme.name(), engine.about(scheme))
        });
        progress.begin(&name);
        let outcome = conditions.measure(cell, &progress)?;
        progress.say(&format!("{name}: {}", table::describe(cell, &outcome)))?;
        rows.add(cell.clone(), outcome)?;
    }
    drop(progress);
    table::print(&cells, &rows);
    draw(&cells, &rows, &picture)?;
    require_success(&cells, &rows)
}

fn cells(engine: Engine) -> Vec<Cell> {
    let cell = |scheme: Option<Scheme>| Cell {
        scheme,
        msr: scheme.filter(|scheme| scheme.samples()).map(|_| MSR),
        error: None,
        load: LOAD,
        round: 1,
        seconds: SECONDS,
        rate_bits_per_s: RATE_BITS_PER_S,
        value_bytes: match engine {
            Engine::Plain => VALUE_BYTES,
            Engine::Flink => VALUE_BYTES_OF_FLINK,
        },
        engine,
    };
    [None].into_iter().chain(SCHEMES.map(Some)).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells__load_more_than_the_port_carries_and_need_less() {
        let cells = cells(Engine::Plain);
        assert_eq!(cells.len(), 1 + SCHEMES.len());
        const { assert!(LOAD > 1.0 && LOAD * MSR < 1.0) };
        assert!(cells.iter().all(|cell| cell.msr.is_none_or(|msr| msr == MSR)));
    }
}
