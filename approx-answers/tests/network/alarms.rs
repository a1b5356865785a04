//! The table of warnings: how often each is a false alarm, and how many misses it names.

use std::collections::BTreeSet;

use crate::coverage::{Counts, Coverage};
use crate::rows::Row;

/// Prints the rates of each warning, and of all together.
pub fn print(rows: &[(&Row, Coverage)]) {
    let heavy: Vec<_> = rows.iter().filter(|(row, _)| row.is_heavy()).collect();
    print!(
        "\n| warning | jobs of fair rows without heavy tails | most in such a row | misses of \
         unfair rows |"
    );
    heavy.iter().for_each(|(row, _)| print!(" misses of `{}` |", row.name));
    println!("\n|---|---|---|---|{}", "---|".repeat(heavy.len()));
    let names: BTreeSet<&str> = rows.iter().flat_map(|(_, coverage)| coverage.warnings()).collect();
    for name in names.into_iter().map(Some).chain([None]) {
        let counts = |is_counted: fn(&Row) -> bool| -> Vec<Counts> {
            let counted = rows.iter().filter(|(row, _)| is_counted(row));
            counted.map(|(_, coverage)| coverage.counts_of(name)).collect()
        };
        let light = counts(|row| row.is_fair() && !row.is_heavy());
        let most = light.iter().map(|&row| warned_jobs(&[row])).fold(0.0, f64::max);
        print!(
            "| {} | {:.2} % | {most:.1} % | {:.1} % |",
            name.unwrap_or("any of them"),
            warned_jobs(&light),
            warned_misses(&counts(|row| !row.is_fair())),
        );
        for (_, coverage) in &heavy {
            print!(" {:.1} % |", warned_misses(&[coverage.counts_of(name)]));
        }
        println!();
    }
}

/// The share of jobs with the warning, in percent.
fn warned_jobs(rows: &[Counts]) -> f64 {
    share(rows.iter().map(|row| (row.warned, row.jobs)))
}

/// The share of misses with the warning, in percent.
fn warned_misses(rows: &[Counts]) -> f64 {
    share(rows.iter().map(|row| (row.warned_misses, row.misses)))
}

/// The sum of the parts, in percent of that of the wholes.
fn share(counts: impl Iterator<Item = (u64, u64)>) -> f64 {
    let (part, all) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    100.0 * part as f64 / all.max(1) as f64
}
