//! Answers and plans as records: `Answers.java`, `Estimate.java`, `PlanReport.java` and
//! `PlanAction.java` read them.

use crate::record::Record;
use approx_answers::{Action, Bound, Estimate, Reason, Report, Row};
use approx_session::{Answered, Verdict};

/// The answers at the end of a query, or so far.
pub fn answers(answered: &Answered) -> Vec<u8> {
    let Answered { query, answers, report, notes, left_out, .. } = answered;
    let warnings: Vec<String> =
        answers.warnings.iter().map(ToString::to_string).chain(notes.iter().cloned()).collect();
    let mut record = Record::default();
    record
        .text(&query.to_string())
        .list(&query.by, |record, column| record.text(column))
        .list(&answers.functions, |record, function| record.text(function))
        .list(&answers.rows, row)
        .option(answers.separates, Record::flag)
        .option(answers.keys_seen_from, Record::u64)
        .u64(answers.missing)
        .list(&warnings, |record, warning| record.text(warning))
        .u64(*left_out)
        .text(match answered.verdict_with_warnings() {
            Verdict::Fine => "FINE",
            Verdict::InDoubt => "IN_DOUBT",
            Verdict::NotMet => "NOT_MET",
        })
        .option(report.as_ref(), write_report)
        .text(&answered.text())
        .text(&answered.json().to_string());
    record.into_bytes()
}

fn row<'a>(record: &'a mut Record, row: &Row) -> &'a mut Record {
    record.list(&row.key, |record, value| record.text(value)).u32(row.function as u32);
    write_estimate(record, &row.estimate)
}

pub fn estimate(estimate: &Estimate) -> Vec<u8> {
    let mut record = Record::default();
    write_estimate(&mut record, estimate);
    record.into_bytes()
}

fn write_estimate<'a>(record: &'a mut Record, estimate: &Estimate) -> &'a mut Record {
    record
        .f64(estimate.value)
        .f64(estimate.low)
        .f64(estimate.high)
        .f64(estimate.confidence.level())
        .f64(estimate.degrees_of_freedom)
        .u64(estimate.messages)
        .option(estimate.messages_sent, Record::u64)
        .text(match estimate.bound() {
            None => "NONE",
            Some(Bound::AtLeast) => "AT_LEAST",
            Some(Bound::AtMost) => "AT_MOST",
        })
        .list(&estimate.warnings, |record, warning| record.text(&warning.to_string()))
        .text(&estimate.to_string())
}

pub fn report(report: &Report) -> Vec<u8> {
    let mut record = Record::default();
    write_report(&mut record, report);
    record.into_bytes()
}

fn write_report<'a>(record: &'a mut Record, report: &Report) -> &'a mut Record {
    let (reason, missing) = match report.because {
        None => ("MET", None),
        Some(Reason::Ended { missing }) => ("SENDERS_ENDED", missing),
        Some(Reason::NearZero) => ("NEAR_ZERO", None),
        Some(Reason::FewMessages) => ("FEW_MESSAGES", None),
        Some(Reason::InDoubt) => ("IN_DOUBT", None),
        Some(Reason::DenominatorNearZero) => ("DENOMINATOR_NEAR_ZERO", None),
        Some(_) => ("OTHER", None),
    };
    record
        .text(reason)
        .option(missing, Record::u64)
        .f64(report.reached)
        .f64(report.level.level())
        .u32(report.looks)
        .text(&report.to_string())
}

/// The next step of a plan; empty for a kind that this version doesn't know.
pub fn action(action: Action) -> Vec<u8> {
    let mut record = Record::default();
    match action {
        Action::Raise { stratum, msr } => record.text("RAISE").u32(stratum).f64(msr),
        Action::Lower { stratum, msr } => record.text("LOWER").u32(stratum).f64(msr),
        Action::End => record.text("END"),
        Action::Wait { messages } => record.text("WAIT").u64(messages),
        _ => &mut record,
    };
    record.into_bytes()
}
