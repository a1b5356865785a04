//! Times in the conditions of a query.

use approx_answers::{Comparison, Condition, Literal, Query, QueryError};
use arrow_array::StringArray;
use arrow_cast::{
    CastOptions, cast_with_options,
    display::{ArrayFormatter, FormatOptions},
};
use arrow_schema::{DataType, Schema};

/// Writes the times of a query's condition in the form of the table's columns. Conditions compare
/// texts, and `2024-01-02 12:00` is the time of `2024-01-02T12:00:00`.
///
/// # Errors
/// A column of times is compared with a text that is none, or its texts don't have the order of its
/// times.
pub fn in_form_of(mut query: Query, schema: &Schema) -> Result<Query, QueryError> {
    if let Some(filter) = &mut query.filter {
        write(filter, schema)?;
    }
    Ok(query)
}

fn write(condition: &mut Condition, schema: &Schema) -> Result<(), QueryError> {
    match condition {
        Condition::Compare { column, comparison, with } => {
            let Some(kind) = time_of(schema, column) else { return Ok(()) };
            let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
            if let (false, DataType::Timestamp(_, Some(zone)), Literal::Text(_)) =
                (is_equality, kind, &*with)
            {
                return refuse(format!(
                    "the column {column:?} has times with the zone {zone}, which a condition \
                     doesn't order: send a column of times without a zone, or of numbers"
                ));
            }
            write_literal(column, kind, with)
        }
        Condition::In { column, values } => match time_of(schema, column) {
            Some(kind) => values.iter_mut().try_for_each(|one| write_literal(column, kind, one)),
            None => Ok(()),
        },
        Condition::Not(inner) => write(inner, schema),
        Condition::And(all) | Condition::Or(all) => {
            all.iter_mut().try_for_each(|one| write(one, schema))
        }
        _ => Ok(()),
    }
}

/// The type of a column of times.
fn time_of<'a>(schema: &'a Schema, column: &str) -> Option<&'a DataType> {
    let kind = match schema.field_with_name(column).ok()?.data_type() {
        DataType::Dictionary(_, values) => values,
        plain => plain,
    };
    kind.is_temporal().then_some(kind)
}

fn write_literal(column: &str, kind: &DataType, literal: &mut Literal) -> Result<(), QueryError> {
    let Literal::Text(text) = literal else { return Ok(()) };
    if let DataType::Duration(_) = kind {
        return refuse(format!(
            "the column {column:?} has durations: compare it with a number of seconds, not with \
             {text:?}"
        ));
    }
    // Arrow's reader wants seconds.
    let written = written(text, kind).or_else(|| written(&format!("{text}:00"), kind));
    match written {
        Some(written) => *text = written,
        None => {
            return refuse(format!(
                "the column {column:?} has times, and {text:?} is none of {kind}: write \
                 2024-01-31, or 2024-01-31T12:00:00"
            ));
        }
    }
    Ok(())
}

/// A time as a column of this type writes it.
fn written(text: &str, kind: &DataType) -> Option<String> {
    let strict = CastOptions { safe: false, format_options: FormatOptions::default() };
    let time = cast_with_options(&StringArray::from(vec![text]), kind, &strict).ok()?;
    let formatter = ArrayFormatter::try_new(&time, &FormatOptions::default()).ok()?;
    formatter.value(0).try_to_string().ok()
}

fn refuse(reason: String) -> Result<(), QueryError> {
    Err(QueryError::Message { reason })
}
