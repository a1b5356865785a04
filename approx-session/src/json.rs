//! The answers as JSON.

use crate::Answered;
use approx_answers::{Estimate, Reason, Row, Warning};
use serde_json::{Value, json};

/// The answers as a JSON object. Ends of intervals that aren't finite are null. The notes are among
/// the warnings of all rows.
///
/// A row has a key: a text, or a list if the key has several columns. With one function the row has
/// the answer, and with several it has `answers`, each under the name of its function.
pub fn json(answered: &Answered) -> Value {
    let Answered { query, answers, report, verdict, notes, left_out } = answered;
    let finite = |number: f64| number.is_finite().then_some(number);
    let texts = |warnings: &[Warning]| -> Vec<String> {
        warnings.iter().map(ToString::to_string).collect()
    };
    let all_rows = [texts(&answers.warnings), notes.clone()].concat();
    let answer = |estimate: &Estimate| {
        let mut answer = json!({
            "value": estimate.value,
            "low": finite(estimate.low),
            "high": finite(estimate.high),
            "confidence": estimate.confidence.level(),
            "messages": estimate.messages,
            "messages_sent": estimate.messages_sent,
            "warnings": texts(&estimate.warnings),
        });
        if let Some(bound) = estimate.bound() {
            answer["bound"] = bound.to_string().into();
        }
        answer
    };
    let row = |rows: &[Row]| {
        let mut row = match answers.functions.len() {
            1 => rows.first().map_or(json!({}), |row| answer(&row.estimate)),
            _ => {
                let of =
                    |row: &Row| (answers.functions[row.function].clone(), answer(&row.estimate));
                json!({ "answers": rows.iter().map(of).collect::<serde_json::Map<_, _>>() })
            }
        };
        row["key"] = match rows.first().map(|row| &row.key[..]) {
            None | Some([]) => Value::Null,
            Some([key]) => key.clone().into(),
            Some(keys) => keys.into(),
        };
        row
    };
    json!({
        "query": query.to_string(),
        "rows": answers.by_key().map(row).collect::<Vec<_>>(),
        "separates": answers.separates,
        "keys_seen_from": answers.keys_seen_from,
        "missing": answers.missing,
        "warnings": all_rows,
        "messages_left_out": left_out,
        "verdict": verdict.name(),
        "accepted_error": report.as_ref().map(|report| json!({
            "met": report.is_met(),
            "in_doubt": report.because == Some(Reason::InDoubt),
            "reached": finite(report.reached),
            "looks": report.looks,
            "text": report.to_string(),
        })),
    })
}
