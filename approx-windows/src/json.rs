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
        for (group, record) in self.sample() {
            let row = record.map(|record| {
                let mut row = vec![String::new(); columns.len()];
                for (place, cell) in rows.get(&record.offset).into_iter().flatten() {
                    row[*place].clone_from(cell);
                }
                row
            });
            answering.push_message(group, row)?;
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
    use crate::{Count, GroupId, testing};

    fn window(values: &[Option<&str>]) -> ReceivedWindow {
        let sampling = testing::sampling(&[("all", 0.0)]);
        let window = testing::window(values, sampling, |_| GroupId::at(0), 1);
        testing::received(&window, |_, _| true, Count::Whole).unwrap()
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
