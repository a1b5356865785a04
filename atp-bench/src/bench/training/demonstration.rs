//! `cargo xtask run --engine torch`: a training over a slow link, with gradients over gloo, gloo
//! with compression, and ATP.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use atp_output::say;
use testbed::interrupt;

use super::cell::Conditions;
use super::row::{Cell, Rows};
use super::scenario::Scenario;
use super::scheme::{Model, Scheme};
use super::{draw, require_success, table};
use crate::bench::require_root;
use crate::installed;
use crate::job::progress::Progress;
use crate::result_file::ResultFile;

const SCENARIO: Scenario = Scenario::SlowLink;
const MODEL: Model = Model::Mlp;
const RANKS: usize = 2;
const SEED: u64 = 1;
/// No scheme takes longer than this on two cores.
const LIMIT: Duration = Duration::from_secs(60);
/// Enough for a 99th percentile.
const ALONE_TIME: Duration = Duration::from_secs(12);
/// The schemes, all of which exchange gradients.
const SCHEMES: [&str; 4] = ["gloo", "gloo-fp16", "gloo-powersgd", "atp-fp16-largest-0.05"];

/// The limits of a result from this model alone.
const CAUTION: &str = "These options of ATP suit this perceptron. A transformer lost 8.8 points of \
                       accuracy by them, and none by gloo-fp16: docs/src/results/training.md";

pub fn main() -> Result<()> {
    interrupt::install()?;
    require_root("makes network namespaces and loads eBPF programs")?;
    let conditions = Conditions { launch: installed::launch()?, limit: LIMIT, alone: ALONE_TIME };
    testbed::collective_python()?;
    let folder = installed::target().join("run");
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let picture = ResultFile::at(&folder.join("training.svg"))?;
    say!(
        "{RANKS} ranks train a perceptron on handwritten digits, {}. Another host sends \
         exact requests to the last rank.",
        SCENARIO.title()
    );
    // Each demonstration measures anew.
    let scratch = testbed::own_folder("atp-training-")?;
    let mut rows = Rows::open(&scratch.path().join("rows.jsonl"))?;
    let cells = cells();
    let progress = Progress::new();
    for cell in &cells {
        progress.begin(&cell.name());
        let outcome = conditions.measure(cell)?;
        let about = Scheme::named(&cell.scheme).map(|scheme| scheme.about);
        let name = about
            .map_or("exact traffic alone".to_owned(), |about| format!("{}, {about}", cell.scheme));
        progress.say(&format!("{name}: {}", table::describe(&outcome)))?;
        rows.add(cell.clone(), outcome)?;
    }
    drop(progress);
    table::print(&cells, &rows);
    say!("{CAUTION}");
    draw(&cells, &rows, &picture)?;
    require_success(&cells, &rows)
}

fn cells() -> Vec<Cell> {
    let schemes = SCHEMES.iter().map(|scheme| Cell {
        scenario: SCENARIO,
        model: Some(MODEL),
        ranks: RANKS,
        scheme: (*scheme).to_owned(),
        seed: SEED,
        steps: MODEL.steps(),
    });
    [Cell::alone(SCENARIO)].into_iter().chain(schemes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells__have_schemes_that_exist() {
        let cells = cells();
        assert_eq!(cells.len(), 1 + SCHEMES.len());
        for cell in &cells[1..] {
            assert!(Scheme::named(&cell.scheme).is_some(), "{}", cell.scheme);
        }
    }
}
