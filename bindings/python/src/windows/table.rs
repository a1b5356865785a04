//! The records of a window as a batch of Arrow.

use super::values::weight;
use approx_windows::ReceivedWindow;
use arrow_array::{
    Array, ArrayRef, Float64Array, LargeBinaryArray, RecordBatch, StringArray,
    TimestampMillisecondArray, UInt64Array,
    builder::{LargeBinaryBuilder, ListBuilder, StringBuilder, StructBuilder},
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use std::sync::Arc;

/// The columns `offset`, `timestamp`, `key`, `value`, `headers`, `group` and `weight`.
pub fn batch(window: &ReceivedWindow) -> Result<RecordBatch, ArrowError> {
    let records = || window.records();
    let groups = || {
        let groups = window.groups.iter();
        groups.flat_map(|group| group.records.iter().map(move |_| group))
    };
    let times: TimestampMillisecondArray = records().map(|record| record.timestamp_ms).collect();
    let keys: LargeBinaryArray = records().map(|record| record.key.as_deref()).collect();
    let values: LargeBinaryArray = records().map(|record| record.value.as_deref()).collect();
    let names = groups().map(|group| Some(&*group.header.name));
    let columns: [(&str, ArrayRef); 7] = [
        ("offset", Arc::new(records().map(|record| record.offset).collect::<UInt64Array>())),
        ("timestamp", Arc::new(times.with_timezone("UTC"))),
        ("key", Arc::new(keys)),
        ("value", Arc::new(values)),
        ("headers", headers(window)),
        ("group", Arc::new(names.collect::<StringArray>())),
        ("weight", Arc::new(groups().map(weight).collect::<Float64Array>())),
    ];
    let is_nullable = |name: &str| ["timestamp", "key", "value"].contains(&name);
    let field = |(name, column): &(&str, ArrayRef)| {
        Field::new(*name, column.data_type().clone(), is_nullable(name))
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())
}

fn headers(window: &ReceivedWindow) -> ArrayRef {
    let fields = [("name", DataType::Utf8, false), ("value", DataType::LargeBinary, true)];
    let fields = fields.map(|(name, kind, is_nullable)| Field::new(name, kind, is_nullable));
    let name_and_value = StructBuilder::new(
        fields.to_vec(),
        vec![Box::new(StringBuilder::new()), Box::new(LargeBinaryBuilder::new())],
    );
    let mut lists = ListBuilder::new(name_and_value);
    for record in window.records() {
        for (name, value) in &record.headers {
            let builder = lists.values();
            let names = builder.field_builder::<StringBuilder>(0).expect("the first field");
            names.append_value(name);
            let values = builder.field_builder::<LargeBinaryBuilder>(1).expect("the second field");
            values.append_option(value.as_deref());
            builder.append(true);
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}
