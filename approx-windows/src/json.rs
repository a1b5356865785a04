//! Answers about the fields of values that are JSON objects.

use crate::{record::Record, window::ReceivedWindow};
use approx_answers::{Answers, Confidence, Query, QueryError};
use serde_json::{Map, Value};
use std::collections::HashMap;

impl ReceivedWindow {
    /// The answers of a query over all records of the window, lost ones included. The columns are
    /// the fields of the values; a list or an object in a field is a text. Records without a value
    /// have no fields. Also returns the number of records whose values are no JSON objects: they
    /// count as records without fields.
    ///
    /// # Errors
    /// As [`ReceivedWindow::answering`]: no record has a field that the query names, or nothing can
    /// be answered.
    pub fn answers_of_json(
        &self,
        query: Query,
        confidence: Confidence,
    ) -> Result<(Answers, u64), QueryError> {
        let mut columns: Vec<String> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut unreadable = 0;
        let mut rows: HashMap<u64, Vec<(usize, String)>> = HashMap::new();
        for record in self.records() {
            let fields = fields(record).unwrap_or_else(|| {
                unreadable += 1;
                Map::new()
            });
            let mut place = |name: String| {
                *places.entry(name).or_insert_with_key(|name| {
                    columns.push(name.clone());
                    columns.len() - 1
                })
            };
            let cells = fields.into_iter().map(|(name, value)| (place(name), cell(value)));
            rows.insert(record.offset, cells.collect());
        }
        let mut answering = self.answering(query, &columns)?;
        for group in &self.groups {
            for message in group.messages() {
                let row = |record: &Record| {
                    let mut row = vec![String::new(); columns.len()];
                    for (place, cell) in rows.get(&record.offset).into_iter().flatten() {
                        row[*place].clone_from(cell);
                    }
                    row
                };
                answering.push_message(group.header.id.into(), message.iter().map(row))?;
            }
        }
        Ok((answering.answers(confidence)?, unreadable))
    }
}

/// The fields of a value; `None` if it is no JSON object.
fn fields(record: &Record) -> Option<Map<String, Value>> {
    match &record.value {
        None => Some(Map::new()),
        Some(value) => serde_json::from_slice(value).ok(),
    }
}

/// The text of a field, as in a CSV file.
fn cell(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Count, Cutter, Group, GroupId, Limits, PackedWindow, Position, RecordRef, Rule, Sampling,
        Stream,
    };

    fn window(values: &[Option<&str>]) -> ReceivedWindow {
        let limits = Limits { window_bytes_max: 1 << 20, record_bytes_max: 1 << 16 };
        let rule = Rule::Records(values.len() as u64);
        let mut cutter = Cutter::new(rule, limits, Position::begin(0));
        for (offset, value) in (0..).zip(values) {
            let value = value.map(str::as_bytes);
            cutter.push(&RecordRef { offset, value, ..RecordRef::default() }, GroupId::at(0));
        }
        let sampling = Sampling::new(vec![Group { name: "all".into(), msr: 0.5 }]).unwrap();
        let packed = PackedWindow::new(&cutter.pop().unwrap(), &Stream::default(), &sampling, 1);
        let messages = packed.strata.iter().flat_map(|stratum| {
            stratum.messages.iter().map(|message| (stratum.id, message.clone()))
        });
        let messages: Vec<_> = messages.collect();
        let count = Count::Whole;
        ReceivedWindow::new((1, 0), packed.header().clone(), &messages, count).unwrap()
    }

    #[test]
    fn answers_of_json__has_the_fields_as_columns() {
        let window = window(&[
            Some(r#"{"room": "a", "t": 20}"#),
            Some(r#"{"t": 22.5, "room": "b"}"#),
            Some(r#"{"room": "a", "t": 21, "list": [1]}"#),
            None,
            Some("no JSON"),
        ]);
        let query: Query = "avg(t) by room".parse().unwrap();
        let (answers, unreadable) = window.answers_of_json(query, Confidence::P95).unwrap();
        assert_eq!(unreadable, 1);
        let mean = |key: &str| {
            let row = answers.rows.iter().find(|row| row.key_text() == key).unwrap();
            row.estimate.value
        };
        assert_eq!((mean("a"), mean("b")), (20.5, 22.5));
        let unknown = window.answers_of_json("avg(x)".parse().unwrap(), Confidence::P95);
        assert!(unknown.is_err());
    }
}
