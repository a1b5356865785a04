//! The rows of a table that arrived.

use approx_answers::{Confidence, RecordOrder};
use approx_frames::{Frame, TableAnswering, TableRows};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, NullArray, RecordBatch,
    cast::AsArray,
    types::{Float64Type, Int32Type, Int64Type},
};
use proptest::prelude::*;
use std::sync::Arc;

const ANY: u64 = u64::MAX;

fn frame(rows: i64, per_message: u32) -> Frame {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let names = (0..rows).map(|row| ["UA", "AA", "DL"][row as usize % 3]);
    let names: ArrayRef = Arc::new(names.collect::<DictionaryArray<Int32Type>>());
    let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
    Frame::new(&batch.schema(), &[batch], Some(per_message), RecordOrder::Shuffled).unwrap()
}

fn first(frame: &Frame) -> Vec<u8> {
    frame.messages().next().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every row of a message that arrived is there once, with its stratum's number and weight.
    #[test]
    fn into_batches__has_the_rows_that_arrived(
        rows in 1i64..3_000,
        per_message in 1u32..40,
        arrived in proptest::collection::vec(any::<bool>(), 3_000),
    ) {
        let frame = frame(rows, per_message);
        let mut kept = TableRows::new(&frame.header, ANY).unwrap();
        let weights = [Some(1.5), None, Some(2.5)];
        let mut has_messages = [false; 3];
        for (at, message) in frame.messages().enumerate() {
            if arrived[at] {
                kept.push(at as u32 % 3, &message).unwrap();
                has_messages[at % 3] = true;
            }
        }
        let expected = kept.rows();
        let (schema, batches) = kept.into_batches(&weights).unwrap();
        prop_assert_eq!(schema.fields().len(), 4);
        // Those without a message have no number.
        let numbered = weights.into_iter().zip(has_messages).filter(|(_, has)| *has);
        let weights: Vec<Option<f64>> = numbered.map(|(weight, _)| weight).collect();
        let mut ids = Vec::new();
        for batch in &batches {
            let stratum = batch.column(2).as_primitive::<arrow_array::types::UInt32Type>();
            let weight = batch.column(3).as_primitive::<Float64Type>();
            let names = batch.column(1).as_dictionary::<Int32Type>();
            let names = names.downcast_dict::<arrow_array::StringArray>().unwrap();
            for row in 0..batch.num_rows() {
                let id = batch.column(0).as_primitive::<Int64Type>().value(row);
                ids.push(id);
                let weight = (!weight.is_null(row)).then(|| weight.value(row));
                prop_assert_eq!(weight, weights[stratum.value(row) as usize]);
                let name = arrow_array::ArrayAccessor::value(&names, row);
                prop_assert_eq!(name, ["UA", "AA", "DL"][id as usize % 3]);
            }
        }
        prop_assert_eq!(ids.len() as u64, expected);
        ids.sort_unstable();
        prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "a row is there twice");
    }
}

/// Senders of one table have dictionaries of their own.
#[test]
fn join__reads_each_stratum_by_its_header() {
    let of = |names: &[&'static str]| {
        let names: DictionaryArray<Int32Type> = names.iter().copied().collect();
        let batch = RecordBatch::try_from_iter([("name", Arc::new(names) as ArrayRef)]).unwrap();
        Frame::new(&batch.schema(), &[batch], None, RecordOrder::OfFile).unwrap()
    };
    let (one, other) = (of(&["UA", "AA"]), of(&["AA", "DL", "AA"]));
    let mut kept = TableRows::new(&one.header, ANY).unwrap();
    kept.join(1, &other.header).unwrap();
    kept.push(0, &first(&one)).unwrap();
    kept.push(1, &first(&other)).unwrap();
    let (_, batches) = kept.into_batches(&[Some(1.0), Some(2.0)]).unwrap();
    let names = batches.iter().flat_map(|batch| {
        let names = batch.column(0).as_dictionary::<Int32Type>();
        let names = names.downcast_dict::<arrow_array::StringArray>().unwrap();
        names.into_iter().map(|name| name.unwrap().to_owned()).collect::<Vec<_>>()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["UA", "AA", "AA", "DL", "AA"]);

    let mut kept = TableRows::new(&one.header, ANY).unwrap();
    let refused = kept.join(1, &frame(3, 1).header).unwrap_err().to_string();
    assert!(refused.contains("it has a column \"id\" of Int64 in the place of"), "{refused}");
    assert!(kept.join(1, b"name\n").is_err());
    // A query takes other types of the same names.
    let query = || "count(*) by name".parse().unwrap();
    let mut answering = TableAnswering::new(query(), &one.header).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2));
    let batch = RecordBatch::try_from_iter([("name", numbers)]).unwrap();
    let numbers = Frame::new(&batch.schema(), &[batch], None, RecordOrder::OfFile).unwrap();
    assert!(TableRows::new(&one.header, ANY).unwrap().join(1, &numbers.header).is_err());
    answering.join(1, &numbers.header).unwrap();
    answering.push(0, &first(&one)).unwrap();
    answering.push(1, &first(&numbers)).unwrap();
    for stratum in [0, 1] {
        answering.answering_mut().set_messages_sent(stratum, 1).unwrap();
    }
    let answers = answering.answering().answers(Confidence::P95).unwrap();
    let keys: Vec<_> = answers.rows.iter().map(|row| row.key_text()).collect();
    assert_eq!(keys, ["0", "1", "AA", "UA"]);
}

/// Anybody may send a table.
#[test]
fn push__keeps_within_its_limits() {
    let frame = frame(1_000, 10);
    let mut kept = TableRows::new(&frame.header, 10_000).unwrap();
    let taken = frame.messages().filter(|message| kept.push(0, message).is_ok()).count();
    assert!((1..frame.messages().len()).contains(&taken), "{taken}");
    assert!(kept.push(0, b"1,UA\n").is_err(), "CSV in a table of Arrow");

    // A column of nulls takes no bytes.
    let nulls: ArrayRef = Arc::new(NullArray::new(1 << 20));
    let batch = RecordBatch::try_from_iter([("nulls", nulls)]).unwrap();
    let frame = Frame::new(&batch.schema(), &[batch], Some(1 << 20), RecordOrder::OfFile).unwrap();
    let mut kept = TableRows::new(&frame.header, ANY).unwrap();
    let refused = kept.push(0, &first(&frame)).unwrap_err().to_string();
    assert!(refused.contains("more rows than bits"), "{refused}");

    let wide = vec![b','; 1 << 20];
    let refused = TableRows::new(&wide, ANY).unwrap_err().to_string();
    assert!(refused.contains("too many columns"), "{refused}");
}

#[test]
fn push__reads_csv_as_text() {
    let mut kept = TableRows::new(b"k,v\n", ANY).unwrap();
    kept.push(0, b"a,1\n\"b, c\",NA\n").unwrap();
    assert!(kept.push(0, b"a\n").is_err() && kept.push(0, b"a,1,2\n").is_err());
    let (_, batches) = kept.into_batches(&[Some(2.0)]).unwrap();
    let texts: Vec<_> = batches[0].column(0).as_string::<i32>().iter().flatten().collect();
    assert_eq!(texts, ["a", "b, c"]);
    assert_eq!(batches[0].column(3).as_ref(), &Float64Array::from(vec![2.0, 2.0]) as &dyn Array);
    assert!(TableRows::new(b"k,atp_weight\n", ANY).is_err());
}
