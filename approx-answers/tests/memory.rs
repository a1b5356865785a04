//! Memory of one message, at its peak.

use approx_answers::{Answering, Confidence, Delivery};
use counting_allocator::peak_bytes;

const ROWS: usize = 300_000;
/// Far less than a byte for each row.
const BYTES_MAX: usize = ROWS / 4;

const QUERIES: [&str; 6] =
    ["sum(v)", "count(*) by v", "avg(v) by v", "median(v)", "median(v) by v", "top(3, v)"];

#[test]
fn push_csv__many_short_rows_take_no_memory() {
    for query in QUERIES {
        let mut answering = Answering::of_csv(query.parse().unwrap(), b"v\n").unwrap();
        answering.set_messages_sent(0, 2).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        let message = "1\n".repeat(ROWS);
        let (pushed, bytes) = peak_bytes(|| answering.push_csv(0, message.as_bytes()));
        assert_eq!(pushed, Ok(()), "{query}");
        assert!(bytes < BYTES_MAX, "{query}: {bytes} bytes for {ROWS} rows");
        // A bad last row leaves out all others.
        let bad = message.clone() + "1e99\n";
        let (pushed, bytes) = peak_bytes(|| answering.push_csv(0, bad.as_bytes()));
        let is_text = query.starts_with("count") || query.starts_with("top");
        assert_eq!(pushed.is_err(), !is_text, "{query}");
        assert_eq!(answering.messages(), 1 + u64::from(is_text), "{query}");
        assert!(bytes < BYTES_MAX, "{query}: {bytes} bytes for {ROWS} rows");
        let rows = answering.answers(Confidence::P95).unwrap().rows.len();
        assert_eq!(rows, if is_text { 2 } else { 1 }, "{query}");
    }
}

/// A key is kept once, and all of them have a bound.
#[test]
fn push_message__long_keys_take_bounded_memory() {
    const KEY_BYTES: usize = 1 << 20;
    const KEYS: usize = 400;
    for query in ["count(*) by v", "top(3, v)", "median(n) by v"] {
        let mut answering = Answering::new(query.parse().unwrap(), &["v", "n"]).unwrap();
        let push = |key: usize| {
            let key = format!("{key}{}", "k".repeat(KEY_BYTES));
            answering.push_message(0, [[key.as_str(), "1"]]).unwrap();
        };
        let ((), bytes) = peak_bytes(|| (0..KEYS).for_each(push));
        assert!(bytes < 264 * KEY_BYTES, "{query}: {bytes} bytes");
        let few = if query.starts_with("median") { 240 } else { 250 };
        assert!(bytes > few * KEY_BYTES, "{query}: {bytes} bytes, so the bound wasn't reached");
    }
}

#[test]
fn push_csv__many_short_values_take_no_memory() {
    let message = ",".repeat(ROWS);
    let mut answering = Answering::of_csv("sum(v)".parse().unwrap(), b"k,v\n").unwrap();
    let (pushed, bytes) = peak_bytes(|| answering.push_csv(0, message.as_bytes()));
    assert!(pushed.is_err() && bytes < BYTES_MAX, "{bytes} bytes for {ROWS} values");
}

#[test]
fn of_csv__many_short_rows_are_no_header() {
    let header = "v\n".repeat(ROWS);
    let made = || Answering::of_csv("sum(v)".parse().unwrap(), header.as_bytes()).map(|_| ());
    let (made, bytes) = peak_bytes(made);
    assert!(made.unwrap_err().to_string().contains("300000 records") && bytes < BYTES_MAX);
    let header = ",".repeat(2 << 20);
    let made = || Answering::of_csv("sum(v)".parse().unwrap(), header.as_bytes()).map(|_| ());
    let (made, bytes) = peak_bytes(made);
    assert!(made.unwrap_err().to_string().contains("1048576 bytes") && bytes < BYTES_MAX);
}
