//! Tables of all types become messages and rows again. Bytes of strangers are refused.

use approx_answers::RecordOrder;
use approx_frames::{Frame, FrameError, FrameReader};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    FixedSizeBinaryArray, FixedSizeListArray, Float16Array, Float64Array, Int8Array, Int64Array,
    LargeStringArray, ListArray, MapArray, NullArray, RecordBatch, StringArray, StringViewArray,
    StructArray, TimestampMicrosecondArray, UInt16Array, UInt64Array, cast::AsArray, types::*,
};
use arrow_ipc::{
    MetadataVersion,
    reader::StreamReader,
    writer::{
        DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
    },
};
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::{concat::concat_batches, take::take_record_batch};
use proptest::prelude::*;
use std::sync::Arc;

/// A row: some values are missing.
type Row = (i64, Option<f64>, Option<String>, Option<u8>, Vec<Option<i32>>);

fn rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
    let text = prop::option::of(prop_oneof![8 => "[a-zé]{0,12}", 1 => "[a-z]{0,200}"]);
    let number = prop::option::of(prop_oneof![any::<f64>(), Just(f64::NAN), 0.0..100.0]);
    let list = prop::collection::vec(prop::option::of(any::<i32>()), 0..5);
    prop::collection::vec((any::<i64>(), number, text, prop::option::of(0u8..5), list), 0..most)
}

const NAMES: [&str; 5] = ["UA", "AA", "DL", "B6", ""];

/// A table with a column of each kind of type.
fn table(rows: &[Row]) -> RecordBatch {
    let of = |row: &Row| row.3.map(|name| NAMES[usize::from(name)]);
    let text = || rows.iter().map(|row| row.2.as_deref());
    let small = || rows.iter().map(|row| row.3.map(i64::from));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        rows.iter().map(|row| row.3.map(|_| row.4.clone())),
    );
    let pairs = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(
        rows.iter().map(|row| Some([Some(row.0), row.3.map(i64::from)])),
        2,
    );
    let inner = Fields::from(vec![
        Field::new("text", DataType::Utf8, true),
        Field::new("list", list.data_type().clone(), true),
    ]);
    let nested: [ArrayRef; 2] = [Arc::new(text().collect::<StringArray>()), Arc::new(list.clone())];
    let nulls = rows.iter().map(|row| row.1.is_some()).collect::<Vec<_>>();
    let nested = StructArray::new(inner, nested.to_vec(), Some(nulls.into()));
    let binary = rows.iter().map(|row| row.2.as_ref().map(String::as_bytes));
    let fixed = rows.iter().map(|row| row.3.map(|name| [name; 3]));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
        ("x", Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>())),
        ("text", Arc::new(text().collect::<StringArray>())),
        ("large", Arc::new(text().collect::<LargeStringArray>())),
        ("name", Arc::new(rows.iter().map(of).collect::<DictionaryArray<Int16Type>>())),
        ("flag", Arc::new(rows.iter().map(|row| row.3.map(|n| n > 2)).collect::<BooleanArray>())),
        ("u16", Arc::new(rows.iter().map(|row| row.3.map(u16::from)).collect::<UInt16Array>())),
        ("i8", Arc::new(rows.iter().map(|row| row.3.map(|n| n as i8)).collect::<Int8Array>())),
        ("half", Arc::new(Float16Array::from(vec![None; rows.len()]))),
        ("day", Arc::new(rows.iter().map(|row| row.3.map(i32::from)).collect::<Date32Array>())),
        ("time", Arc::new(small().collect::<TimestampMicrosecondArray>().with_timezone("+02:00"))),
        (
            "money",
            Arc::new(
                small()
                    .map(|number| number.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(20, 2)
                    .unwrap(),
            ),
        ),
        ("binary", Arc::new(binary.collect::<BinaryArray>())),
        (
            "fixed",
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 3).unwrap()),
        ),
        ("none", Arc::new(NullArray::new(rows.len()))),
        ("list", Arc::new(list)),
        ("pairs", Arc::new(pairs)),
        ("nested", Arc::new(nested)),
        ("map", Arc::new(map(rows))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn map(rows: &[Row]) -> MapArray {
    let mut builder = arrow_array::builder::MapBuilder::new(
        None,
        arrow_array::builder::StringBuilder::new(),
        arrow_array::builder::Int64Builder::new(),
    );
    for row in rows {
        for value in &row.4 {
            builder.keys().append_value("key");
            builder.values().append_option(value.map(i64::from));
        }
        builder.append(row.3.is_some()).unwrap();
    }
    builder.finish()
}

/// The rows in the order of the column `i`, with plain values in place of the dictionary.
fn sorted(batch: &RecordBatch) -> RecordBatch {
    let keys = batch.column(0).as_primitive::<Int64Type>();
    let mut order: Vec<u64> = (0..batch.num_rows() as u64).collect();
    order.sort_by_key(|row| keys.value(*row as usize));
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Dictionary(..) => arrow_cast::cast(column, &DataType::Utf8).unwrap(),
        _ => Arc::clone(column),
    });
    let names = batch.schema();
    let names = names.fields().iter().map(|field| field.name().clone());
    let plain = RecordBatch::try_from_iter_with_nullable(
        names.zip(columns.collect::<Vec<_>>()).map(|(name, column)| (name, column, true)),
    );
    take_record_batch(&plain.unwrap(), &UInt64Array::from(order)).unwrap()
}

fn read(frame: &Frame) -> RecordBatch {
    let reader = FrameReader::new(&frame.header).unwrap();
    let batches: Vec<_> = frame.messages().map(|message| reader.read(&message).unwrap()).collect();
    concat_batches(reader.schema(), &batches).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn new__loses_no_row_and_no_type(mut rows in rows(300), seed in any::<u64>(), cut in 0usize..300) {
        // Different keys, to sort by.
        rows.iter_mut().zip(0..).for_each(|(row, number)| row.0 = number);
        let whole = table(&rows);
        let cut = cut.min(rows.len());
        // Two batches, whose dictionaries differ.
        let batches = [table(&rows[..cut]), table(&rows[cut..])];
        let order = RecordOrder::ShuffledBy(seed);
        let frame = Frame::new(&whole.schema(), &batches, None, order).unwrap();
        prop_assert_eq!(frame.totals.records, Some(rows.len() as u64));
        prop_assert_eq!(frame.totals.messages, Some(frame.messages().len() as u64));
        let messages: Vec<_> = frame.messages().collect();
        prop_assert_eq!(messages.len(), frame.messages().len());
        let longest = messages.iter().map(Vec::len).max().unwrap_or(0);
        prop_assert!((longest..=longest + 500).contains(&frame.bytes_max()), "{}", frame.bytes_max());
        let back = read(&frame);
        prop_assert_eq!(back.schema(), whole.schema());
        prop_assert_eq!(sorted(&back), sorted(&whole));
        // A message has one row, or fits a packet.
        let reader = FrameReader::new(&frame.header).unwrap();
        for message in &messages {
            prop_assert!(message.len() <= 1_400 || reader.read(message).unwrap().num_rows() == 1);
        }
        // Arrow's writer has the same bytes.
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap();
        let mut tracker = DictionaryTracker::new(true);
        let generator = IpcDataGenerator::default();
        let schema = reader.schema();
        generator.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options);
        for message in &messages {
            let (rows, mut expected) = (reader.read(message).unwrap(), Vec::new());
            let context = &mut IpcWriteContext::default();
            let (_, encoded) = generator.encode(&rows, &mut tracker, &options, context).unwrap();
            write_message(&mut expected, encoded, &options).unwrap();
            prop_assert_eq!(message, &expected);
        }
        // Any reader of Arrow's streams takes the header and some messages.
        let some = messages.iter().step_by(2);
        let stream: Vec<u8> = std::iter::once(&frame.header).chain(some).flatten().copied().collect();
        let stream = StreamReader::try_new(&stream[..], None).unwrap();
        prop_assert_eq!(stream.count(), messages.len().div_ceil(2));
    }

    /// Bytes that a stranger sends, or that differ from a sender's in some places.
    #[test]
    fn read__refuses_what_is_no_message(
        rows in rows(20),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        any in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let frame = frame_of(&rows);
        let messages: Vec<_> = frame.messages().collect();
        let changed = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            bytes
        };
        let reader = FrameReader::new(&frame.header).unwrap();
        if let Ok(other) = FrameReader::new(&changed(&frame.header)) {
            messages.iter().for_each(|message| drop(other.read(message)));
        }
        for message in &messages {
            if let Ok(batch) = reader.read(&changed(message)) {
                prop_assert!(batch.num_rows() <= 1 << 20);
                use_all(&batch);
            }
            prop_assert!(reader.read(&message[..cut.index(message.len())]).is_err());
        }
        prop_assert!(FrameReader::new(&frame.header[..cut.index(frame.header.len())]).is_err()
            || cut.index(frame.header.len()) > 0);
        prop_assert!(reader.read(&any).is_err());
        let _ = FrameReader::new(&any);
    }
}

fn frame_of(rows: &[Row]) -> Frame {
    let table = table(rows);
    Frame::new(&table.schema(), &[table], Some(5), RecordOrder::OfFile).unwrap()
}

/// Goes through all values of a batch.
fn use_all(batch: &RecordBatch) {
    for column in batch.columns() {
        let data = column.to_data();
        data.validate_full().unwrap();
    }
}

fn refusal(columns: Vec<(&str, ArrayRef)>) -> String {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    Frame::new(&batch.schema(), &[batch], None, RecordOrder::OfFile).unwrap_err().to_string()
}

#[test]
fn new__refuses_types_with_the_column_s_name() {
    let run_ends = arrow_array::RunArray::<Int32Type>::from_iter(["a", "a", "b"]);
    let text = refusal(vec![
        ("a", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("runs", Arc::new(run_ends)),
    ]);
    assert!(text.contains("column \"runs\"") && text.contains("plain values"), "{text}");
    let values: Vec<String> = (0..1_000_000).map(|number| format!("value {number}")).collect();
    let many: DictionaryArray<Int32Type> = values.iter().map(String::as_str).collect();
    let text = refusal(vec![("many", Arc::new(many))]);
    assert!(text.contains("dictionaries") && text.contains("plain ones"), "{text}");
    let schema = Arc::new(Schema::empty());
    let none = Frame::new(&schema, &[], None, RecordOrder::Shuffled).unwrap_err();
    assert!(matches!(none, FrameError::NoColumn), "{none}");
    let batch = |column: ArrayRef| RecordBatch::try_from_iter([("a", column)]).unwrap();
    let [one, two] = [
        batch(Arc::new(Int64Array::from(vec![1]))),
        batch(Arc::new(Float64Array::from(vec![1.0]))),
    ];
    let other = Frame::new(&one.schema(), &[one, two], None, RecordOrder::OfFile).unwrap_err();
    let text = other.to_string();
    assert!(text.starts_with("batch 1 has other columns") && text.contains("Float64"), "{text}");
}

#[test]
fn new__takes_views_and_no_rows() {
    let views: ArrayRef =
        Arc::new(StringViewArray::from(vec![Some("a long text of a view"), None]));
    let batch = RecordBatch::try_from_iter([("v", views)]).unwrap();
    let frame =
        Frame::new(&batch.schema(), std::slice::from_ref(&batch), None, RecordOrder::OfFile)
            .unwrap();
    let back = read(&frame);
    assert_eq!(back.column(0).as_string::<i64>().value(0), "a long text of a view");
    let empty = Frame::new(&batch.schema(), &[], None, RecordOrder::Shuffled).unwrap();
    assert_eq!((empty.messages().len(), empty.totals.records), (0, Some(0)));
    assert_eq!(read(&empty).num_rows(), 0);
}
