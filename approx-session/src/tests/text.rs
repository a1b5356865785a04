//! Tests of the texts of answers.

use crate::{
    Answered, Verdict, line,
    strata::{Header, Strata},
};
use approx_answers::{Answering, Answers, Confidence, Query};
use serde_json::Value;

/// A query of the table of one sender.
struct Picture {
    query: Query,
    answering: Answering,
    strata: Strata,
}

impl Picture {
    fn new(query: &str, sent: u64) -> Self {
        let query: Query = query.parse().unwrap();
        let answering = Answering::of_csv(query.clone(), b"key,value\n").unwrap();
        let mut picture = Self { query, answering, strata: Strata::default() };
        let stratum = picture.strata.number("10.0.0.1:1".parse().unwrap(), 1, 1).unwrap();
        let of = picture.strata.of_mut(stratum);
        (of.header, of.sent) = (Header::Same, Some(sent));
        picture.answering.set_messages_sent(stratum, sent).unwrap();
        picture
    }

    fn push(&mut self, rows: &str) {
        self.answering.push_csv(0, rows.as_bytes()).unwrap();
    }

    fn line(&self) -> String {
        line::of_answers(&self.query, &self.answers(), &self.strata)
    }

    /// The end of the query.
    fn answered(&self) -> Answered {
        Answered {
            query: self.query.clone(),
            answers: self.answers(),
            report: None,
            verdict: Verdict::Fine,
            notes: Vec::new(),
            left_out: 0,
        }
    }

    fn answers(&self) -> Answers {
        self.answering.answers(Confidence::P95).unwrap()
    }
}

#[test]
fn live_line__shows_the_interval_as_it_shrinks() {
    let mut picture = Picture::new("avg(value)", 1_000);
    let mut lines = Vec::new();
    for message in 0..1_000u32 {
        picture.push(&format!("k,{}\n", message.wrapping_mul(2_654_435_761) >> 28));
        if [2, 50, 400, 1_000].contains(&(message + 1)) {
            lines.push(picture.line());
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    avg(value): 4.50 ± 57.12 from 2 of 1000 messages
    avg(value): 7.16 (5.87 to 8.46) from 50 of 1000 messages
    avg(value): 7.50 (7.14 to 7.85) from 400 of 1000 messages
    avg(value): 7.50 ± 0.00 from 1000 of 1000 messages
    ");
}

#[test]
fn live_line__shows_the_first_keys_of_many() {
    let mut picture = Picture::new("sum(value) by key", 40);
    let keys = ["a\u{1b}[2J", "b", "cc", &"d".repeat(70_000), "e", "f"];
    for value in 0..30 {
        let rows = keys.iter().map(|key| format!("{key},{}\n", value % 5));
        picture.push(&rows.collect::<String>());
    }
    insta::assert_snapshot!(picture.line(), @r"sum(value) by key: a\u{1b}[2J 80.00 ± 10.74 b 80.00 ± 10.74 cc 80.00 ± 10.74 dddddddddddddddd… 80.00 ± 10.74 and 2 more from 30 of 40 messages");
    // An unknown N.
    picture.strata.of_mut(0).sent = None;
    assert!(picture.line().ends_with("from 30 messages"), "{}", picture.line());
}

/// Bounds of all rows are no intervals.
#[test]
fn text__names_functions_and_bounds() {
    let query = "SELECT count(*), min(value), count(distinct value) WHERE value < 9 GROUP BY key";
    let mut picture = Picture::new(query, 200);
    picture.answering.set_delivery(0, &approx_answers::Delivery::shuffled()).unwrap();
    (0..100).for_each(|n| picture.push(&format!("a,{}\nb,{}\n", n % 11, n % 2)));
    insta::assert_snapshot!(picture.line(), @r#"SELECT count(*), min("value"), count(distinct "value") WHERE "value" < 9 GROUP BY "key": a count(*) 164.00 (151.57 to 173.81) min(value) at most 0.00 count(distinct value) at least 9.00 b count(*) 200.00 ± 4.38 min(value) at most 0.00 count(distinct value) at least 2.00 from 100 of 200 messages"#);
    let text = picture.answered().text();
    insta::assert_snapshot!(text, @r#"
    SELECT count(*), min("value"), count(distinct "value") WHERE "value" < 9 GROUP BY "key"
      a  count(*)                    164.0000   151.5672 to 173.8058 (95 %)
      a  min(value)                    0.0000   at most this in all rows
      a  count(distinct value)         9.0000   at least this in all rows
      b  count(*)                    200.0000   195.6247 to 204.3753 (95 %)
      b  min(value)                    0.0000   at most this in all rows
      b  count(distinct value)         2.0000   at least this in all rows
    from 100 of 200 messages
    a key in fewer than 5 messages may be missing here
    warning: b  count(*): all 100 messages of one or more strata hold equally many records, or the same share of theirs, and the interval allows for missing ones without any, up to 3.0 % of their messages: raise the MSR, or state the number of records in an exact group
    "#);
    let json = picture.answered().json();
    let least = &json["rows"][1]["answers"]["min(value)"];
    assert_eq!(
        (&least["bound"], &least["low"], &least["high"]),
        (&"at most".into(), &Value::Null, &0.0.into())
    );
}

/// 31 errors of a million requests aren't none.
#[test]
fn text__shows_the_digits_that_small_ratios_need() {
    let mut picture = Picture::new("ratio(value, key)", 1_000);
    (0..900).for_each(|n| picture.push(&format!("1000000,{}\n", n % 3 + 30)));
    let text = picture.answered().text();
    let row = text.lines().nth(1).unwrap();
    insta::assert_snapshot!(row, @"        3.1000e-5   3.0983e-5 to 3.1017e-5 (95 %)");
    insta::assert_snapshot!(picture.line(), @"ratio(value, key): 3.1000e-5 ± 1.7e-8 from 900 of 1000 messages");
    // Every message arrived.
    let mut picture = Picture::new("ratio(value, key)", 1);
    picture.push("1000000,31\n");
    insta::assert_snapshot!(picture.line(), @"ratio(value, key): 3.1e-5 ± 0 from 1 of 1 messages");
}

/// A width above 65,535 makes `format!` panic.
#[test]
fn text__keeps_keys_of_other_hosts_short_and_harmless() {
    let mut picture = Picture::new("avg(value) by key", 1);
    let long = "d".repeat(70_000);
    picture.push(&format!("a\u{1b}[2J,1\n\u{9b}\u{202e},2\n\"x\r\ny\",3\n{long},4\n"));
    let notes = vec!["a note".to_owned()];
    let answered = Answered { notes, left_out: 7, ..picture.answered() };
    let text = answered.text();
    insta::assert_snapshot!(text, @r"
    avg(value) by key
      a\u{1b}[2J                                        1.0000   1.0000 to 1.0000 (95 %)
      dddddddddddddddddddddddddddddddddddddddd…         4.0000   4.0000 to 4.0000 (95 %)
      x\r\ny                                            3.0000   3.0000 to 3.0000 (95 %)
      \u{9b}\u{202e}                                    2.0000   2.0000 to 2.0000 (95 %)
    from 1 of 1 messages
    warning: a note
    ");
    let json = answered.json();
    assert_eq!(json["rows"][1]["key"], long);
    assert_eq!((&json["messages_left_out"], &json["warnings"][0]), (&7.into(), &"a note".into()));
}

/// JSON has the warnings in the rows.
#[test]
fn text__names_the_keys_of_warnings() {
    let mut picture = Picture::new("avg(value) by key", 1_000);
    picture.answering.set_delivery(0, &approx_answers::Delivery::shuffled()).unwrap();
    for n in 0..200u32 {
        let rare = if n % 10 == 0 { "a\u{1b}[2J,7\nb,8\n" } else { "" };
        let fixed = if n % 2 == 0 { "c,5\n" } else { "" };
        picture.push(&format!("d,{}\n{rare}{fixed}", n % 7));
    }
    let text = picture.answered().text();
    let warnings: Vec<&str> = text.lines().filter(|line| line.starts_with("w")).collect();
    insta::assert_snapshot!(warnings.join("\n"), @r"
    warning: a\u{1b}[2J, b: all 20 messages of one or more strata agree, which says nothing about rare values: up to 15.0 % of their messages may differ; use `try_every_message`, or send rare values in an exact group
    warning: a\u{1b}[2J, b: only 20 messages carry this answer, and an interval needs 30: raise the MSR, or send smaller messages
    warning: c: all 100 messages of one or more strata agree, which says nothing about rare values: up to 3.0 % of their messages may differ; use `try_every_message`, or send rare values in an exact group
    ");
    let json = picture.answered().json();
    let of_row = |row: usize| json["rows"][row]["warnings"].as_array().unwrap().len();
    assert_eq!([0, 1, 2, 3].map(of_row), [2, 2, 1, 0]);
}
