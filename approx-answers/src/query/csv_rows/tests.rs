//! Tests of CSV messages.

use super::*;
use crate::Confidence;
use crate::Delivery;
use proptest::prelude::*;
use std::io::Read;

fn answering(header: &[u8]) -> Result<Answering, QueryError> {
    Answering::of_csv("sum(\"b, c\") by a".parse().unwrap(), header)
}

#[test]
fn push_csv__reads_quotes_and_missing_values() {
    let mut answering = answering(b"a,\"b, c\"\r\n").unwrap();
    answering.set_messages_sent(0, 2).unwrap();
    answering.set_delivery(0, &Delivery::shuffled()).unwrap();
    answering.push_csv(0, b"\"x\"\"y\",2\r\nz,\n").unwrap();
    answering.push_csv(0, b"\"x\"\"y\",3").unwrap();
    let rows = answering.answers(Confidence::P95).unwrap().rows;
    assert_eq!((rows[0].key_text(), rows[0].estimate.value), ("x\"y".into(), 5.0));
    assert_eq!(answering.messages(), 2);
}

/// The answers to a query of one message of a table with the column `v`.
fn of_column(query: &str, message: &str) -> f64 {
    let mut answering = Answering::of_csv(query.parse().unwrap(), b"v\n").unwrap();
    answering.set_messages_sent(0, 1).unwrap();
    answering.push_csv(0, message.as_bytes()).unwrap();
    answering.answers(Confidence::P95).unwrap().rows[0].estimate.value
}

#[test]
fn push_csv__counts_missing_values_of_a_single_column() {
    for message in [
        "1\n\"\"\n3\n",
        "1\r\n\"\"\r\n3\r\n",
        "1\n\n3\n",
        "1\r\n\r\n3\r\n",
        "\n1\n3",
        "\r\n1\r\n3",
        "1\n3\n\n",
        "\"1\"\r\n\n3",
        "1\r\r\n\r\r\n3\r\r\n",
    ] {
        let found = ["count(*)", "count(v)", "avg(v)"].map(|query| of_column(query, message));
        assert_eq!(found, [3.0, 2.0, 2.0], "{message:?}");
    }
    assert_eq!(of_column("count(*)", "\n\n"), 2.0);
    assert_eq!(of_column("count(*)", "\"a\n\nb\"\n"), 1.0);
    assert_eq!(of_column("count(*)", "a\r\rb\r"), 2.0);
}

#[test]
fn of_csv__refuses_what_is_no_header() {
    for (header, words) in [
        (&b""[..], "0 records"),
        (b"a,\"b, c\"\n1,2\n", "2 records"),
        (b"a,\"b\nc\"\n", "no column"),
        (b"a,\xff\n", "isn't CSV"),
        (b"a,\"b, c\n", "line 1: a quote opens a value and has no end"),
    ] {
        let error = answering(header).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn push_csv__leaves_out_bad_messages() {
    let mut answering = answering(b"a,\"b, c\"\n").unwrap();
    for (message, words) in [
        (&b"x,\xff\n"[..], "isn't CSV"),
        (b"x\n", "lacks column"),
        (b"x,1\ny,soon\n", "soon"),
        (b"x,1\n\"y,7\nz,9\n", "line 2: a quote opens a value and has no end"),
        (b"\"y,7\nz,\"9\n", "ends in the middle of one of line 2"),
        (b"x,1\ny,7,\n", "3 values, the header 2 columns"),
    ] {
        let error = answering.push_csv(0, message).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    assert_eq!(answering.messages(), 0);
}

/// A byte order mark in a row is part of its value, wherever the row stands in a message.
#[test]
fn push_csv__keeps_byte_order_marks_of_rows() {
    let header = "\u{feff}a,\"b, c\"\n";
    let mut answering = answering(header.as_bytes()).unwrap();
    answering.set_messages_sent(0, 1).unwrap();
    answering.set_delivery(0, &Delivery::shuffled()).unwrap();
    answering.push_csv(0, "\u{feff}x,1\n\u{feff}x,2\n".as_bytes()).unwrap();
    let rows = answering.answers(Confidence::P95).unwrap().rows;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].key_text(), rows[0].estimate.value), ("\u{feff}x".into(), 3.0));
}

/// The rows as the crate `csv` reads them.
fn rows_of_csv(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.has_headers(false).flexible(true).from_reader(text.as_bytes());
    let rows = reader.into_records().map(|row| row.unwrap());
    rows.map(|row| row.iter().map(str::to_owned).collect()).collect()
}

proptest! {
    #[test]
    fn read__splits_rows_as_the_crate_csv(text in "[a\",\r\n é\u{feff}]{0,40}", long in 0..700usize) {
        let text = text.replace('a', &"a".repeat(long));
        let values = (0..60).map(|position| (position, Vec::new())).collect();
        let (mut row, mut rows) = (CsvRow { values, len: 0 }, Vec::new());
        let mut reader = csv_core::Reader::new();
        // Another text was read before.
        row.read(&mut Fields::of_rows(&mut reader, b"\"open"), 60);
        let mut fields = Fields::of_rows(&mut reader, text.as_bytes());
        prop_assume!(CsvQuotes::default().check(text.as_bytes()).is_ok());
        while row.read(&mut fields, 60) {
            let values = (0..row.columns()).map(|at| row.text(at).to_owned());
            rows.push(values.collect::<Vec<_>>());
            prop_assert_eq!(row.value(row.columns()), Value::Missing);
        }
        // Without the empty line the crate takes a byte order mark away.
        prop_assert_eq!(rows, rows_of_csv(&format!("\n{text}")));
    }

    /// Rows of one column are those of a file with that column.
    #[test]
    fn read__splits_a_single_column_as_a_file(text in "[a\"\r\n ]{0,20}") {
        prop_assume!(CsvQuotes::default().check(text.as_bytes()).is_ok());
        let (mut row, mut rows) = (CsvRow { values: vec![(0, Vec::new())], len: 0 }, Vec::new());
        let mut reader = csv_core::Reader::new();
        let mut fields = Fields::of_rows(&mut reader, text.as_bytes());
        while row.read(&mut fields, 1) {
            prop_assert_eq!(row.columns(), 1);
            rows.push(row.text(0).to_owned());
        }
        let mut file = String::new();
        let whole = format!("v\n{text}");
        crate::csv_text::CsvText::new(whole.as_bytes()).read_to_string(&mut file).unwrap();
        let expected = rows_of_csv(&file);
        prop_assert_eq!(rows, expected[1..].concat());
    }
}
