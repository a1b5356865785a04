//! Checks a schema from the network. Arrow's reader takes it for granted that a schema is one that
//! Arrow's writer made.

use crate::{FrameError, columns::DEPTH_MAX};
use arrow_ipc::{DateUnit, Endianness, Field, IntervalUnit, Precision, Schema, TimeUnit, Type};

/// The most columns of a table, fields of nested ones included.
pub const FIELDS_MAX: usize = 10_000;

/// # Errors
/// Arrow's reader would panic, or the table has a type that no [`Frame`](crate::Frame) sends.
pub fn check(schema: Schema<'_>) -> Result<(), FrameError> {
    if schema.endianness() != Endianness::Little {
        return refuse("its numbers aren't little-endian");
    }
    let Some(fields) = schema.fields() else { return refuse("its schema has no fields") };
    let mut left = FIELDS_MAX;
    fields.iter().try_for_each(|field| check_field(field, 0, &mut left))
}

fn check_field(field: Field<'_>, depth: usize, left: &mut usize) -> Result<(), FrameError> {
    let Some(rest) = left.checked_sub(1) else { return refuse("its schema has too many fields") };
    *left = rest;
    if depth > DEPTH_MAX {
        return refuse("its schema is nested too deeply");
    }
    let is_index = |index: Option<arrow_ipc::Int<'_>>| {
        index.is_some_and(|index| [8, 16, 32, 64].contains(&index.bitWidth()))
    };
    let kind = field.type_type();
    let is_nested = matches!(
        kind,
        Type::List | Type::LargeList | Type::FixedSizeList | Type::Struct_ | Type::Map
    );
    if let Some(dictionary) = field.dictionary()
        && (is_nested || !is_index(dictionary.indexType()))
    {
        return refuse("a dictionary has values or indices of another kind");
    }
    let is_known = match kind {
        Type::Null | Type::Bool | Type::Binary | Type::LargeBinary | Type::Utf8 => true,
        Type::LargeUtf8 | Type::Struct_ => true,
        Type::Int => is_index(field.type_as_int()),
        Type::FloatingPoint => field.type_as_floating_point().is_some_and(|float| {
            [Precision::HALF, Precision::SINGLE, Precision::DOUBLE].contains(&float.precision())
        }),
        Type::FixedSizeBinary => {
            field.type_as_fixed_size_binary().is_some_and(|binary| binary.byteWidth() >= 0)
        }
        Type::Date => field
            .type_as_date()
            .is_some_and(|date| [DateUnit::DAY, DateUnit::MILLISECOND].contains(&date.unit())),
        Type::Time => field.type_as_time().is_some_and(|time| {
            matches!(
                (time.bitWidth(), time.unit()),
                (32, TimeUnit::SECOND | TimeUnit::MILLISECOND)
                    | (64, TimeUnit::MICROSECOND | TimeUnit::NANOSECOND)
            )
        }),
        Type::Timestamp => field.type_as_timestamp().is_some_and(|time| is_unit(time.unit())),
        Type::Duration => field.type_as_duration().is_some_and(|time| is_unit(time.unit())),
        Type::Interval => field.type_as_interval().is_some_and(|interval| {
            let units =
                [IntervalUnit::YEAR_MONTH, IntervalUnit::DAY_TIME, IntervalUnit::MONTH_DAY_NANO];
            units.contains(&interval.unit())
        }),
        Type::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            let digits_max = match decimal.bitWidth() {
                32 => 9,
                64 => 18,
                128 => 38,
                256 => 76,
                _ => 0,
            };
            let digits = decimal.precision();
            (1..=digits_max).contains(&digits) && (-digits..=digits).contains(&decimal.scale())
        }),
        Type::List | Type::LargeList => true,
        Type::Map => field.type_as_map().is_some() && is_of_entries(field),
        Type::FixedSizeList => {
            field.type_as_fixed_size_list().is_some_and(|list| list.listSize() >= 0)
        }
        _ => false,
    };
    if !is_known {
        return refuse("its schema has a type that no table is sent with");
    }
    let children = field.children();
    let number = children.as_ref().map_or(0, |children| children.len());
    let is_list = is_nested && kind != Type::Struct_;
    if is_list && number != 1 || !is_nested && number != 0 {
        return refuse("a type of its schema has the wrong number of fields");
    }
    let children = children.into_iter().flatten();
    children.into_iter().try_for_each(|child| check_field(child, depth + 1, left))
}

/// Whether the values of a map are pairs.
fn is_of_entries(field: Field<'_>) -> bool {
    let Some(children) = field.children() else { return false };
    children.iter().all(|entries| {
        entries.type_type() == Type::Struct_
            && !entries.nullable()
            && entries.dictionary().is_none()
            && entries.children().is_some_and(|pair| pair.len() == 2 && !pair.get(0).nullable())
    })
}

fn is_unit(unit: TimeUnit) -> bool {
    let units = [TimeUnit::SECOND, TimeUnit::MILLISECOND, TimeUnit::MICROSECOND];
    units.contains(&unit) || unit == TimeUnit::NANOSECOND
}

fn refuse(reason: &str) -> Result<(), FrameError> {
    Err(FrameError::message(reason))
}
