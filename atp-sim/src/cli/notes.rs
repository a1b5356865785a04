//! What `atp-sim run` says on standard error besides its results.

use super::run::Row;
use atp_sim::experiment::{Outcome, Point, share_of_msr};

/// All of it; those of options are known before anything is run.
pub fn print(point: &Point, rows: &[Row], of_options: impl Iterator<Item = String>) {
    let Some(Row { outcome, .. }) = rows.first() else { return };
    let silent = outcome.jobs.iter().filter(|job| job.messages == 0).count();
    if silent > 0 {
        eprintln!("note: {silent} of {} jobs have no message, and don't count", outcome.jobs.len());
    }
    if let Some(note) = needs_all(point, outcome) {
        eprintln!("note: {note}");
    }
    if point.exact_share > 0.0 && !outcome.jobs.iter().any(|job| job.exact) {
        eprintln!("note: --exact {} of the hosts that send is none of them", point.exact_share);
    }
    for row in rows.iter().filter(|row| row.outcome.is_given_up) {
        eprintln!(
            "note: {} was given up after {:.0} ms: its jobs hardly got on any more, for millions of events",
            row.scheme,
            row.outcome.simulated_ps as f64 / 1e9
        );
    }
    for note in of_options {
        eprintln!("note: {note}");
    }
    let events = rows.iter().map(|row| row.outcome.events as f64).sum::<f64>() / 1e6;
    let wall_s = rows.iter().map(|row| row.wall_s).sum::<f64>();
    eprintln!(
        "{events:.1} M events, {:.1} M per second of a core",
        events / wall_s.max(f64::MIN_POSITIVE)
    );
}

/// Jobs that may lose messages by their MSR, and have so few that none may be missing.
fn needs_all(point: &Point, outcome: &Outcome) -> Option<String> {
    const ALL: u64 = 1_000_000_000;
    let spare = ALL - u64::from(point.msr.parts_per_billion());
    let all = outcome.approximate().filter(|job| job.needed == job.messages).count();
    (spare > 0 && all > 0).then(|| {
        format!(
            "{all} of {} jobs need all of their messages: at MSR {} a job of fewer than {} can spare none",
            outcome.approximate().count(),
            share_of_msr(point.msr),
            ALL.div_ceil(spare)
        )
    })
}
