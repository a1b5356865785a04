//! `cargo xtask faults-table`: prints the rows of the fault tests (`ATP_FAULTS_JSON`) as a page of
//! the book.

use std::{fmt::Write, path::PathBuf};

use anyhow::{Context, Result, bail};
use atp_output::write;
use testbed::{FaultJob, FaultRow};

/// The text above the tables.
const HEAD: &str = include_str!("../../docs/faults-head.md");

#[derive(clap::Args)]
pub struct Args {
    /// Files of rows
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub fn main(args: Args) -> Result<()> {
    let mut rows = Vec::new();
    for file in &args.files {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("can't read {}", file.display()))?;
        for line in text.lines() {
            let row: FaultRow = serde_json::from_str(line)
                .with_context(|| format!("not a row in {}: {line}", file.display()))?;
            rows.push(row);
        }
    }
    if rows.is_empty() {
        bail!("no rows: run the fault tests with ATP_FAULTS_JSON=FILE first");
    }
    write(page(&rows)?)?;
    Ok(())
}

/// The page, with one table per kernel and backend in the order of their first rows. If a case ran
/// several times, its last row counts.
fn page(rows: &[FaultRow]) -> Result<String> {
    let mut settings: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let setting = (row.kernel.as_str(), row.backend.as_str());
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    let mut page = HEAD.to_owned();
    for (kernel, backend) in settings {
        let here = |row: &&FaultRow| row.kernel == kernel && row.backend == backend;
        let mut last: Vec<&FaultRow> = Vec::new();
        for row in rows.iter().filter(here) {
            match last.iter_mut().find(|earlier| earlier.case == row.case) {
                Some(earlier) => *earlier = row,
                None => last.push(row),
            }
        }
        last.sort_by_key(|row| row.case.split("__").next());
        let kept = last.iter().filter(|row| row.failure.is_none()).count();
        writeln!(page, "\n## Linux {kernel}, paced by {backend}\n")?;
        writeln!(page, "The guarantee was kept in {kept} of {} rows.\n", last.len())?;
        writeln!(page, "| fault | injected | result: delivered / needed of N | counters |")?;
        writeln!(page, "|---|---|---|---|")?;
        for row in last {
            writeln!(page, "{}", line(row))?;
        }
    }
    Ok(page)
}

fn line(row: &FaultRow) -> String {
    let case = row.case.replacen("__", ": ", 1).replace('_', " ");
    let mut happened: Vec<String> = row.jobs.iter().map(job).collect();
    happened.extend(row.failure.iter().map(|failure| format!("**broken: {failure}**")));
    let counters = row.counters.iter().map(|(name, count)| format!("{name} {count}"));
    let cells = [
        case,
        format!("{} ({})", row.injected, row.injector),
        happened.join("<br>"),
        counters.collect::<Vec<_>>().join(", "),
    ];
    format!("| {} |", cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).join(" | "))
}

fn job(job: &FaultJob) -> String {
    let FaultJob { name, messages, needed, delivered, ended, seconds } = job;
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let after = if *seconds > 0.0 { format!(" in {seconds:.1} s") } else { String::new() };
    format!("{name}{delivered} / {needed} of {messages}{after}: {ended}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn row(case: &str, delivered: u32, failure: Option<&str>) -> FaultRow {
        FaultRow {
            case: case.into(),
            kernel: "6.18".into(),
            backend: "htb".into(),
            injector: "eBPF".into(),
            injected: "loss | 30 %".into(),
            jobs: vec![FaultJob {
                name: String::new(),
                messages: 10,
                needed: 8,
                delivered,
                ended: "complete".into(),
                seconds: 1.25,
            }],
            counters: BTreeMap::from([("lost".into(), 3)]),
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn page_takes_the_last_row_of_a_case() {
        let rows = [
            row("loss__a", 7, Some("too few")),
            row("chance__b", 9, None),
            row("loss__a", 8, None),
        ];
        let page = page(&rows).unwrap();
        assert!(page.contains("kept in 2 of 2 rows"), "{page}");
        let line = "| loss: a | loss \\| 30 % (eBPF) | 8 / 8 of 10 in 1.2 s: complete | lost 3 |";
        assert!(page.contains(line), "{page}");
        assert!(!page.contains("too few"), "{page}");
    }

    #[test]
    fn page_does_not_hide_what_broke() {
        let page = page(&[row("loss__a", 7, Some("too few"))]).unwrap();
        assert!(page.contains("kept in 0 of 1 rows") && page.contains("**broken: too few**"));
    }
}
