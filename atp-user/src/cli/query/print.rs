//! Prints a query's answers: a line while records arrive, and a table or JSON at the end.

use super::{end::Outcome, strata::Strata};
use approx_answers::{Answers, Estimate, Query, Reason, Row, Warning};
use serde_json::{Value, json};
use std::fmt::Write;

/// The keys on the live line.
const KEYS_MAX: usize = 4;
/// The decimals of numbers on the live line, and in the table: more if the interval needs them.
const PLACES: [u8; 2] = [2, 4];
/// The characters of a key on the live line, and in the table. JSON has whole keys.
const KEY_CHARS_MAX: [usize; 2] = [16, 40];

/// A line such as `avg(x): 12.63 (11.90 to 13.40, 95 %) from 420 of 1000 messages`.
pub fn live_line(query: &Query, answers: &Answers, strata: &Strata) -> String {
    let mut line = format!("{query}:");
    let mut keys = answers.by_key();
    for rows in keys.by_ref().take(KEYS_MAX) {
        for (at, row) in rows.iter().enumerate() {
            if at == 0 && !row.key.is_empty() {
                _ = write!(line, " {}", printable(&row.key_text(), KEY_CHARS_MAX[0]));
            }
            if answers.functions.len() > 1 {
                _ = write!(line, " {}", answers.functions[row.function]);
            }
            _ = write!(line, " {}", interval(&row.estimate));
        }
    }
    let more = keys.count();
    if more > 0 {
        _ = write!(line, " and {more} more");
    }
    let messages = answers.rows.first().map_or(0, |row| row.estimate.messages);
    match strata.sent() {
        Some(sent) => _ = write!(line, " from {messages} of {sent} messages"),
        None => _ = write!(line, " from {messages} messages"),
    }
    line
}

/// `12.63 ± 0.75`, or the ends where the interval isn't symmetric. A bound for all rows is `at
/// least` or `at most` what arrived.
fn interval(estimate: &Estimate) -> String {
    let Estimate { value, low, high, .. } = estimate;
    let is_even = (value - low - (high - value)).abs() <= 1e-6 * (high - low).abs();
    let digits = estimate.digits(PLACES[0]);
    let text = |number: &f64| digits.text(*number);
    match (estimate.bound(), is_even || low == high) {
        (Some(bound), _) => format!("{bound} {}", text(value)),
        (None, true) => format!("{} ± {}", text(value), text(&estimate.half_width())),
        (None, false) => format!("{} ({} to {})", text(value), text(low), text(high)),
    }
}

/// A text of another host, for a terminal: control characters and other invisible ones are
/// escaped, and an ellipsis replaces what is beyond `chars_max`.
pub fn printable(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    let mut room = chars_max;
    for char in text.chars() {
        let escaped = match char {
            '"' | '\'' | '\\' => char.to_string(),
            // Behind a letter: an accent of its own is no invisible character.
            _ => format!("a{char}").escape_debug().skip(1).collect(),
        };
        match room.checked_sub(escaped.chars().count()) {
            Some(left) => room = left,
            None => return shown + "…",
        }
        shown += &escaped;
    }
    shown
}

/// The answers as aligned lines, then the warnings and notes.
pub fn text(query: &Query, answers: &Answers, outcome: &Outcome) -> String {
    let mut text = format!("{query}\n");
    let keys: Vec<String> = answers.rows.iter().map(|row| name(answers, row)).collect();
    let width = keys.iter().map(|key| key.chars().count()).max().unwrap_or(0);
    for (key, Row { estimate, .. }) in keys.iter().zip(&answers.rows) {
        // 100 * 0.57 is 56.99999999999999.
        let percent = (1e6 * estimate.confidence.level()).round() / 1e4;
        let digits = estimate.digits(PLACES[1]);
        let interval = match estimate.bound() {
            Some(bound) => format!("{bound} this in all rows"),
            None => format!(
                "{} to {} ({percent} %)",
                digits.text(estimate.low),
                digits.text(estimate.high)
            ),
        };
        _ = writeln!(text, "  {key:width$} {:>14}   {interval}", digits.text(estimate.value));
    }
    if let Some(separates) = answers.separates {
        text += if separates {
            "  these are the largest\n"
        } else {
            "  the sample can't tell these from the others for certain\n"
        };
    }
    if let Some(Row { estimate, .. }) = answers.rows.first() {
        let of = estimate.messages_sent.map_or(String::new(), |sent| format!(" of {sent}"));
        _ = writeln!(text, "from {}{of} messages", estimate.messages);
    }
    if let Some(from @ 2..) = answers.keys_seen_from {
        let what = if answers.separates.is_some() { "uncounted" } else { "missing here" };
        _ = writeln!(text, "a key in fewer than {from} messages may be {what}");
    }
    match (&outcome.report, outcome.verdict.sentence()) {
        (Some(report), _) => _ = writeln!(text, "{report}"),
        (None, Some(sentence)) => _ = writeln!(text, "{sentence}"),
        (None, None) => {}
    }
    let (warnings, others) = warnings(answers);
    for Said { warning, keys } in warnings {
        let rows = answers.rows.len();
        _ = writeln!(text, "warning: {}{warning}", of_keys(&keys, rows));
    }
    if others > 0 {
        _ = writeln!(text, "warning: {others} more warnings of rows: --json has them all");
    }
    for note in &outcome.notes {
        _ = writeln!(text, "warning: {note}");
    }
    text
}

/// The key and, if there are several, the function of a row.
fn name(answers: &Answers, row: &Row) -> String {
    let key = printable(&row.key_text(), KEY_CHARS_MAX[1]);
    let function = &answers.functions[row.function];
    match (answers.functions.len(), row.key.is_empty()) {
        (1, _) => key,
        (_, true) => function.clone(),
        (_, false) => format!("{key}  {function}"),
    }
}

/// The most warnings of rows in a text. Each row may have one with a number of its own.
const WARNINGS_MAX: usize = 20;

/// The most keys that a warning names.
const KEYS_NAMED_MAX: usize = 3;

/// A warning, and the keys of its rows.
struct Said<'a> {
    warning: &'a Warning,
    /// Empty for a warning about all rows together, or about a row without a key.
    keys: Vec<String>,
}

/// All warnings, each once, and the number of those that are left out.
fn warnings(answers: &Answers) -> (Vec<Said<'_>>, usize) {
    let (mut all, mut others): (Vec<Said<'_>>, usize) = (Vec::new(), 0);
    let of_table = answers.warnings.iter().map(|warning| (None, warning));
    let of_rows = answers.rows.iter().flat_map(|row| {
        let has_name = !row.key.is_empty() || answers.functions.len() > 1;
        let warnings = row.estimate.warnings.iter();
        warnings.map(move |warning| (has_name.then(|| name(answers, row)), warning))
    });
    for (key, warning) in of_table.chain(of_rows) {
        match all.iter().position(|said| said.warning == warning) {
            // One that is about all rows stays so.
            Some(at) if all[at].keys.is_empty() => {}
            Some(at) => all[at].keys.extend(key),
            None if all.len() < WARNINGS_MAX => {
                all.push(Said { warning, keys: key.into_iter().collect() });
            }
            None => others += 1,
        }
    }
    (all, others)
}

/// The keys in front of a warning; none if it is of all rows.
fn of_keys(keys: &[String], rows: usize) -> String {
    if keys.is_empty() || keys.len() == rows && rows > 1 {
        return String::new();
    }
    let shown = |key: &String| if key.is_empty() { "\"\"".to_owned() } else { key.clone() };
    let named = keys.iter().take(KEYS_NAMED_MAX).map(shown);
    let named = named.collect::<Vec<_>>().join(", ");
    match keys.len().saturating_sub(KEYS_NAMED_MAX) {
        0 => format!("{named}: "),
        more => format!("{named} and {more} more: "),
    }
}

/// The answers as a JSON object. Ends of intervals that aren't finite are null. The notes are among
/// the warnings of all rows.
///
/// A row has a key: a text, or a list if the key has several columns. With one function the row has
/// the answer, and with several it has `answers`, each under the name of its function.
pub fn json(query: &Query, answers: &Answers, outcome: &Outcome) -> Value {
    let finite = |number: f64| number.is_finite().then_some(number);
    let texts = |warnings: &[Warning]| -> Vec<String> {
        warnings.iter().map(ToString::to_string).collect()
    };
    let all_rows = [texts(&answers.warnings), outcome.notes.clone()].concat();
    let answer = |estimate: &Estimate| {
        let mut answer = json!({
            "value": estimate.value,
            "low": finite(estimate.low),
            "high": finite(estimate.high),
            "confidence": estimate.confidence.level(),
            "messages": estimate.messages,
            "messages_sent": estimate.messages_sent,
            "warnings": texts(&estimate.warnings),
        });
        if let Some(bound) = estimate.bound() {
            answer["bound"] = bound.to_string().into();
        }
        answer
    };
    let row = |rows: &[Row]| {
        let mut row = match answers.functions.len() {
            1 => rows.first().map_or(json!({}), |row| answer(&row.estimate)),
            _ => {
                let of =
                    |row: &Row| (answers.functions[row.function].clone(), answer(&row.estimate));
                json!({ "answers": rows.iter().map(of).collect::<serde_json::Map<_, _>>() })
            }
        };
        row["key"] = match rows.first().map(|row| &row.key[..]) {
            None | Some([]) => Value::Null,
            Some([key]) => key.clone().into(),
            Some(keys) => keys.into(),
        };
        row
    };
    json!({
        "query": query.to_string(),
        "rows": answers.by_key().map(row).collect::<Vec<_>>(),
        "separates": answers.separates,
        "keys_seen_from": answers.keys_seen_from,
        "warnings": all_rows,
        "messages_left_out": outcome.left_out,
        "verdict": outcome.verdict.name(),
        "accepted_error": outcome.report.as_ref().map(|report| json!({
            "met": report.is_met(),
            "in_doubt": report.because == Some(Reason::InDoubt),
            "reached": finite(report.reached),
            "looks": report.looks,
            "text": report.to_string(),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::{super::strata::Header, *};
    use approx_answers::{Answering, Confidence};

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
            let stratum = picture.strata.number("10.0.0.1:1".parse().unwrap(), 1, 1);
            let of = picture.strata.of_mut(stratum);
            (of.header, of.sent) = (Header::Same, Some(sent));
            picture.answering.set_messages_sent(stratum, sent).unwrap();
            picture
        }

        fn push(&mut self, rows: &str) {
            self.answering.push_csv(0, rows.as_bytes()).unwrap();
        }

        fn line(&self) -> String {
            live_line(&self.query, &self.answers(), &self.strata)
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
        let query =
            "SELECT count(*), min(value), count(distinct value) WHERE value < 9 GROUP BY key";
        let mut picture = Picture::new(query, 200);
        picture.answering.set_delivery(0, &approx_answers::Delivery::shuffled()).unwrap();
        (0..100).for_each(|n| picture.push(&format!("a,{}\nb,{}\n", n % 11, n % 2)));
        insta::assert_snapshot!(picture.line(), @r#"SELECT count(*), min("value"), count(distinct "value") WHERE "value" < 9 GROUP BY "key": a count(*) 164.00 (151.57 to 173.81) min(value) at most 0.00 count(distinct value) at least 9.00 b count(*) 200.00 ± 4.38 min(value) at most 0.00 count(distinct value) at least 2.00 from 100 of 200 messages"#);
        let answers = picture.answers();
        let text = text(&picture.query, &answers, &Outcome::default());
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
        let json = json(&picture.query, &answers, &Outcome::default());
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
        let text = text(&picture.query, &picture.answers(), &Outcome::default());
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
        let outcome = Outcome { notes, left_out: 7, ..Outcome::default() };
        let text = text(&picture.query, &picture.answers(), &outcome);
        insta::assert_snapshot!(text, @r"
        avg(value) by key
          a\u{1b}[2J                                        1.0000   1.0000 to 1.0000 (95 %)
          dddddddddddddddddddddddddddddddddddddddd…         4.0000   4.0000 to 4.0000 (95 %)
          x\r\ny                                            3.0000   3.0000 to 3.0000 (95 %)
          \u{9b}\u{202e}                                    2.0000   2.0000 to 2.0000 (95 %)
        from 1 of 1 messages
        warning: a note
        ");
        let json = json(&picture.query, &picture.answers(), &outcome);
        assert_eq!(json["rows"][1]["key"], long);
        assert_eq!(
            (&json["messages_left_out"], &json["warnings"][0]),
            (&7.into(), &"a note".into())
        );
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
        let answers = picture.answers();
        let text = text(&picture.query, &answers, &Outcome::default());
        let warnings: Vec<&str> = text.lines().filter(|line| line.starts_with("w")).collect();
        insta::assert_snapshot!(warnings.join("\n"), @r"
        warning: a\u{1b}[2J, b: all 20 messages of one or more strata agree, which says nothing about rare values: up to 15.0 % of their messages may differ; use `try_every_message`, or send rare values in an exact group
        warning: a\u{1b}[2J, b: only 20 messages carry this answer, and an interval needs 30: raise the MSR, or send smaller messages
        warning: c: all 100 messages of one or more strata agree, which says nothing about rare values: up to 3.0 % of their messages may differ; use `try_every_message`, or send rare values in an exact group
        ");
        let json = json(&picture.query, &answers, &Outcome::default());
        let of_row = |row: usize| json["rows"][row]["warnings"].as_array().unwrap().len();
        assert_eq!([0, 1, 2, 3].map(of_row), [2, 2, 1, 0]);
    }

    /// A warning of all rows names no key, and one of many rows names some.
    #[test]
    fn of_keys__names_a_few() {
        for (keys, rows, expected) in [
            (vec![], 1, ""),
            (vec!["a"], 1, "a: "),
            (vec!["a", "b"], 2, ""),
            (vec!["a", ""], 3, "a, \"\": "),
            (vec!["a", "b", "c", "d", "e"], 9, "a, b, c and 2 more: "),
        ] {
            let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
            assert_eq!(of_keys(&keys, rows), expected);
        }
    }

    #[test]
    fn printable__keeps_letters_of_all_scripts() {
        for text in ["", "O'Hare \"ORD\" \\ 5 %", "Zürich", "Zu\u{308}rich", "हिन्दी", "東京"]
        {
            assert_eq!(printable(text, 40), text);
        }
        assert_eq!(printable("abcdef", 5), "abcde…");
        assert_eq!(printable("abcd\0", 5), "abcd…");
        assert_eq!(printable("\u{7f}\t", 40), "\\u{7f}\\t");
    }
}
