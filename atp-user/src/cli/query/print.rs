//! Prints a query's answers: a line while records arrive, and a table or JSON at the end.

use super::strata::Strata;
use approx_answers::{Answers, Estimate, Query, Report, Warning};
use serde_json::{Value, json};
use std::fmt::Write;

/// The keys on the live line.
const KEYS_MAX: usize = 4;

/// A line such as `avg(x): 12.63 (11.90 to 13.40, 95 %) from 420 of 1000 messages`.
pub fn live_line(query: &Query, answers: &Answers, strata: &Strata) -> String {
    let mut line = format!("{query}:");
    for (key, estimate) in answers.rows.iter().take(KEYS_MAX) {
        match key {
            Some(key) => _ = write!(line, " {key} {}", interval(estimate)),
            None => _ = write!(line, " {}", interval(estimate)),
        }
    }
    if answers.rows.len() > KEYS_MAX {
        _ = write!(line, " and {} more", answers.rows.len() - KEYS_MAX);
    }
    let messages = answers.rows.first().map_or(0, |(_, estimate)| estimate.messages);
    match strata.sent() {
        Some(sent) => _ = write!(line, " from {messages} of {sent} messages"),
        None => _ = write!(line, " from {messages} messages"),
    }
    line
}

/// `12.63 ± 0.75`, or the ends where the interval isn't symmetric.
fn interval(estimate: &Estimate) -> String {
    let Estimate { value, low, high, .. } = estimate;
    let is_even = (value - low - (high - value)).abs() <= 1e-6 * (high - low).abs();
    match is_even || low == high {
        true => format!("{value:.2} ± {:.2}", estimate.half_width()),
        false => format!("{value:.2} ({low:.2} to {high:.2})"),
    }
}

/// The answers as aligned lines, then the warnings.
pub fn text(query: &Query, answers: &Answers, report: Option<&Report>) -> String {
    let mut text = format!("{query}\n");
    let width =
        answers.rows.iter().filter_map(|(key, _)| key.as_ref()).map(|key| key.chars().count());
    let width = width.max().unwrap_or(0);
    for (key, estimate) in &answers.rows {
        let key = key.as_deref().unwrap_or("");
        // 100 * 0.57 is 56.99999999999999.
        let percent = (1e6 * estimate.confidence.level()).round() / 1e4;
        _ = writeln!(
            text,
            "  {key:width$} {:>14.4}   {:.4} to {:.4} ({percent} %)",
            estimate.value, estimate.low, estimate.high
        );
    }
    if let Some(separates) = answers.separates {
        text += if separates {
            "  these are the largest\n"
        } else {
            "  the sample can't tell these from the others for certain\n"
        };
    }
    if let Some((_, estimate)) = answers.rows.first() {
        let of = estimate.messages_sent.map_or(String::new(), |sent| format!(" of {sent}"));
        _ = writeln!(text, "from {}{of} messages", estimate.messages);
    }
    if let Some(report) = report {
        _ = writeln!(text, "{report}");
    }
    for warning in warnings(answers) {
        _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// The warnings of all rows, each once.
fn warnings(answers: &Answers) -> Vec<&Warning> {
    let mut all: Vec<&Warning> = Vec::new();
    let of_rows = answers.rows.iter().flat_map(|(_, estimate)| &estimate.warnings);
    for warning in answers.warnings.iter().chain(of_rows) {
        if !all.contains(&warning) {
            all.push(warning);
        }
    }
    all
}

/// The answers as a JSON object. Ends of intervals that aren't finite are null.
pub fn json(query: &Query, answers: &Answers, report: Option<&Report>) -> Value {
    let finite = |number: f64| number.is_finite().then_some(number);
    let texts = |warnings: &[Warning]| -> Vec<String> {
        warnings.iter().map(ToString::to_string).collect()
    };
    let row = |(key, estimate): &(Option<String>, Estimate)| {
        json!({
            "key": key,
            "value": estimate.value,
            "low": finite(estimate.low),
            "high": finite(estimate.high),
            "confidence": estimate.confidence.level(),
            "messages": estimate.messages,
            "messages_sent": estimate.messages_sent,
            "warnings": texts(&estimate.warnings),
        })
    };
    json!({
        "query": query.to_string(),
        "rows": answers.rows.iter().map(row).collect::<Vec<_>>(),
        "separates": answers.separates,
        "warnings": texts(&answers.warnings),
        "accepted_error": report.map(|report| json!({
            "met": report.is_met(),
            "reached": finite(report.reached),
            "looks": report.looks,
            "text": report.to_string(),
        })),
    })
}
