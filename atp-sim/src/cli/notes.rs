//! The notes of `atp-sim run` on standard error.

use super::rows::Row;
use atp_output::complain;
use atp_sim::experiment::{Outcome, Point, fraction_from_msr};

/// Prints all notes. `option_notes` are the notes that don't depend on the results.
pub fn print(point: &Point, rows: &[Row], option_notes: impl Iterator<Item = String>) {
    let Some(Row { outcome, .. }) = rows.first() else { return };
    let silent = outcome.jobs.iter().filter(|job| job.messages == 0).count();
    if silent > 0 {
        complain!(
            "note: {silent} of {} jobs have no message and are not counted",
            outcome.jobs.len()
        );
    }
    if let Some(note) = needs_all(point, outcome) {
        complain!("note: {note}");
    }
    if point.exact_share > 0.0 && !outcome.jobs.iter().any(|job| job.exact) {
        complain!(
            "note: no job is exact: --exact {} of the sending hosts rounds to none",
            point.exact_share
        );
    }
    for row in rows.iter().filter(|row| row.outcome.is_given_up) {
        complain!(
            "note: {}: the run was stopped after {:.0} simulated ms, because its jobs made almost no \
             progress over millions of events",
            row.scheme,
            row.outcome.simulated_ps as f64 / 1e9
        );
    }
    for note in option_notes {
        complain!("note: {note}");
    }
    let events = rows.iter().map(|row| row.outcome.events as f64).sum::<f64>() / 1e6;
    let wall_s = rows.iter().map(|row| row.wall_s).sum::<f64>();
    complain!(
        "{events:.1} M events, {:.1} M per second of a core",
        events / wall_s.max(f64::MIN_POSITIVE)
    );
}

/// A note about jobs that are approximate but have too few messages to lose one.
fn needs_all(point: &Point, outcome: &Outcome) -> Option<String> {
    const ALL: u64 = 1_000_000_000;
    let spare = ALL - u64::from(point.msr.parts_per_billion());
    let all = outcome.approximate().filter(|job| job.needed == job.messages).count();
    (spare > 0 && all > 0).then(|| {
        format!(
            "{all} of {} jobs need all of their messages: at MSR {}, a job of fewer than {} messages cannot \
             lose any",
            outcome.approximate().count(),
            fraction_from_msr(point.msr),
            ALL.div_ceil(spare)
        )
    })
}
