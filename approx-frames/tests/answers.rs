//! Queries of tables as Arrow record batches have the answers of the same tables as CSV.

use approx_answers::{
    Answers, Comparison, Condition, Confidence, Function, Literal, Query, QueryError, RecordOrder,
    Table,
};
use approx_frames::{Frame, TableAnswering};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    DurationMillisecondArray, Float32Array, Float64Array, Int64Array, LargeStringArray, NullArray,
    RecordBatch, StringArray, TimestampMillisecondArray, TimestampSecondArray, UInt8Array,
    types::*,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use proptest::prelude::*;
use std::sync::Arc;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The header and the messages of a table.
type Messages = (Vec<u8>, Vec<Vec<u8>>);

fn as_frame(batch: &RecordBatch, rows: u32) -> Messages {
    let batches = std::slice::from_ref(batch);
    let frame = Frame::new(&batch.schema(), batches, Some(rows), RecordOrder::OfFile).unwrap();
    let messages = frame.messages().collect();
    (frame.header, messages)
}

/// As CSV, in which missing values are empty.
fn as_csv(batch: &RecordBatch, rows: u32) -> Messages {
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut csv = names.join(",") + "\n";
    let format = FormatOptions::new();
    let columns = batch.columns().iter().map(|column| (column, column.logical_nulls()));
    let columns: Vec<_> = columns
        .map(|(column, nulls)| (nulls, ArrayFormatter::try_new(column, &format).unwrap()))
        .collect();
    for row in 0..batch.num_rows() {
        let values = columns.iter().map(|(nulls, values)| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let text = if is_null { String::new() } else { values.value(row).to_string() };
            let text = if text == "NaN" { "" } else { &text };
            format!("\"{}\"", text.replace('"', "\"\""))
        });
        csv += &(values.collect::<Vec<_>>().join(",") + "\n");
    }
    let table = Table::read(csv.as_bytes(), Some(rows), RecordOrder::OfFile).unwrap();
    (table.header, table.messages)
}

/// The answers from all messages but the last, and the refusals of messages. Those of CSV name the
/// words for missing values, too.
fn answers(query: &Query, (header, messages): &Messages) -> (Option<Answers>, Vec<String>) {
    let mut answering = TableAnswering::new(query.clone(), header).unwrap();
    answering.answering_mut().set_messages_sent(0, messages.len() as u64).unwrap();
    let most = &messages[..messages.len().saturating_sub(1).max(1)];
    let refusals = most.iter().filter_map(|message| answering.push(0, message).err());
    let refusals = refusals.map(|error| {
        let text = error.to_string();
        let words = [" where a number is needed", ", which is neither a number"];
        let end = words.iter().find_map(|words| text.find(words));
        text[..end.unwrap_or(text.len())].to_owned()
    });
    let refusals = refusals.collect();
    (answering.answering().answers(Confidence::P95).ok(), refusals)
}

fn one(query: &str, batch: &RecordBatch) -> Answers {
    let (answers, refusals) = answers(&query.parse().unwrap(), &as_frame(batch, 1_000));
    assert_eq!(refusals, [""; 0], "{query}");
    answers.unwrap()
}

fn value(query: &str, batch: &RecordBatch) -> f64 {
    one(query, batch).rows[0].estimate.value
}

/// Values of each kind, some of them missing.
type Row = (usize, Option<f64>, Option<f32>, Option<i64>, Option<i64>, Option<i32>);

fn row() -> impl Strategy<Value = Row> {
    let float = prop_oneof![
        4 => (-9i32..9).prop_map(|number| f64::from(number) / 4.0),
        1 => -1e20..1e20,
        1 => Just(f64::NAN),
    ];
    // A number such as -3631311.25 has two shortest texts, of which Arrow and Rust write different
    // ones. Integers of 24 bits have one.
    let integer = (-16_777_216i32..=16_777_216).prop_map(|number| number as f32);
    let short = prop_oneof![
        4 => (-9i16..9).prop_map(|number| f32::from(number) / 10.0),
        1 => integer
    ];
    let integer = prop_oneof![4 => -3i64..3, 1 => any::<i64>()];
    let cents = prop_oneof![4 => -300i64..300, 1 => any::<i64>()];
    let some = prop::option::of::<BoxedStrategy<f64>>;
    (
        0..TEXTS.len() + 1,
        some(float.boxed()),
        prop::option::of(short),
        prop::option::of(integer),
        prop::option::of(cents),
        prop::option::of(-3i32..3),
    )
}

const TEXTS: [&str; 6] = ["UA", "a,b", "O\"Hare", "12", "née", "UAx"];
const NUMBERS: [&str; 4] = ["x", "short", "i", "money"];
const COLUMNS: [&str; 8] = ["x", "short", "i", "money", "day", "text", "large", "key"];

fn table(rows: &[Row]) -> RecordBatch {
    let text = || rows.iter().map(|row| TEXTS.get(row.0).copied());
    let money = rows.iter().map(|row| row.4.map(i128::from)).collect::<Decimal128Array>();
    batch(vec![
        ("key", Arc::new(text().collect::<DictionaryArray<Int8Type>>())),
        ("x", Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>())),
        ("short", Arc::new(rows.iter().map(|row| row.2).collect::<Float32Array>())),
        ("i", Arc::new(rows.iter().map(|row| row.3).collect::<Int64Array>())),
        ("money", Arc::new(money.with_precision_and_scale(20, 2).unwrap())),
        ("day", Arc::new(rows.iter().map(|row| row.5).collect::<Date32Array>())),
        ("text", Arc::new(text().collect::<StringArray>())),
        ("large", Arc::new(text().collect::<LargeStringArray>())),
        ("none", Arc::new(NullArray::new(rows.len()))),
    ])
}

fn column(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(names).prop_map(str::to_owned)
}

fn function() -> impl Strategy<Value = Function> {
    let (one, two) = (column(&NUMBERS), column(&NUMBERS));
    let of_numbers = (one, two, 0..8).prop_map(|(column, other, which)| match which {
        0 => Function::Sum { column },
        1 => Function::Average { column },
        2 => Function::Ratio { numerator: column, denominator: other },
        3 => Function::Quantile { column, rank: 0.3 },
        4 => Function::Deviation { column },
        5 => Function::Minimum { column },
        6 => Function::Maximum { column },
        _ => Function::Count { column: None },
    });
    let of_values = (column(&COLUMNS), any::<bool>()).prop_map(|(column, counts)| match counts {
        true => Function::Count { column: Some(column) },
        false => Function::Distinct { column },
    });
    prop_oneof![3 => of_numbers, 1 => of_values]
}

fn literal() -> impl Strategy<Value = Literal> {
    let texts = prop::sample::select(&["UA", "12", "1970-01-01", "0.50", "x", ""]);
    prop_oneof![
        (-8i8..8).prop_map(|number| Literal::Number(f64::from(number) / 4.0)),
        Just(Literal::Number(0.1)),
        texts.prop_map(|text| Literal::Text(text.to_owned())),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let comparisons = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];
    // A number beside a column of text leaves messages out: seldom.
    let of = || prop_oneof![9 => column(&NUMBERS), 1 => column(&["text", "large", "key"])];
    // Other texts are refused beside times.
    let days = prop::sample::select(&["1970-01-01", "1969-12-30", "1970-01-03"]);
    let days = days.prop_map(|day| Literal::Text(day.to_owned()));
    let of_day =
        (prop::sample::select(comparisons.to_vec()), days).prop_map(|(comparison, with)| {
            Condition::Compare { column: "day".to_owned(), comparison, with }
        });
    let patterns = prop::sample::select(&["UA%", "_,b", "%1_", "%"]);
    let leaf = prop_oneof![
        1 => of_day,
        4 => (of(), prop::sample::select(comparisons.to_vec()), literal())
            .prop_map(|(column, comparison, with)| Condition::Compare { column, comparison, with }),
        2 => (of(), prop::collection::vec(literal(), 1..4))
            .prop_map(|(column, values)| Condition::In { column, values }),
        1 => (column(&COLUMNS), patterns)
            .prop_map(|(column, pattern)| Condition::Like { column, pattern: pattern.to_owned() }),
        1 => prop_oneof![column(&COLUMNS), Just("none".to_owned())]
            .prop_map(|column| Condition::IsNull { column }),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            inner.prop_map(|one| Condition::Not(Box::new(one))),
            list.clone().prop_map(Condition::And),
            list.prop_map(Condition::Or),
        ]
    })
}

fn query() -> impl Strategy<Value = Query> {
    let functions = prop::collection::vec(function(), 1..3);
    let by = prop::collection::vec(column(&COLUMNS), 0..3);
    let plain = (functions, prop::option::of(condition()), by);
    let top = (column(&COLUMNS), prop::option::of(condition()));
    let ranked = |column| vec![Function::Top { ranks: 2, column }];
    prop_oneof![
        9 => plain.prop_map(|(functions, filter, by)| Query { functions, filter, by }),
        1 => top.prop_map(move |(column, filter)| Query {
            functions: ranked(column), filter, by: Vec::new(),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn push__answers_as_for_csv(rows in prop::collection::vec(row(), 1..80), query in query()) {
        let table = table(&rows);
        let [of_frame, of_csv] =
            [as_frame(&table, 7), as_csv(&table, 7)].map(|messages| answers(&query, &messages));
        // As text, in which NaN equals itself.
        prop_assert_eq!(format!("{of_frame:?}"), format!("{of_csv:?}"), "{}", query);
    }
}

/// No word stands for a missing value in a column of text: NA may be Namibia.
#[test]
fn push__takes_every_text_as_a_value() {
    let texts = [Some("NA"), Some("null"), Some(""), Some("x"), None, Some("NA")];
    let table = batch(vec![
        ("plain", Arc::new(StringArray::from(texts.to_vec()))),
        ("key", Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>())),
    ]);
    for column in ["plain", "key"] {
        for (query, expected) in [
            (format!("count({column})"), 5.0),
            (format!("count(distinct {column})"), 4.0),
            (format!("SELECT count(*) WHERE {column} IS NULL"), 1.0),
            (format!("SELECT count(*) WHERE {column} = 'NA'"), 2.0),
            (format!("SELECT count(*) WHERE {column} = ''"), 1.0),
            (format!("SELECT count(*) WHERE {column} LIKE 'nul_'"), 1.0),
        ] {
            assert_eq!(value(&query, &table), expected, "{query}");
        }
        let top = one(&format!("top(5, {column})"), &table);
        let ranks: Vec<_> =
            top.rows.iter().map(|row| (&row.key[0][..], row.estimate.value)).collect();
        assert_eq!(ranks[0], ("NA", 2.0));
        assert!(ranks.contains(&("", 1.0)) && ranks.len() == 4, "{ranks:?}");
        let sum = format!("sum({column})").parse().unwrap();
        let (_, refusals) = answers(&sum, &as_frame(&table, 1_000));
        assert!(refusals[0].contains("NA") && refusals[0].contains(column), "{refusals:?}");
    }
}

#[test]
fn push__knows_what_types_are_numbers() {
    let numbers = [Some(1), None, Some(200), Some(3)];
    let table = batch(vec![
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(true), Some(false)]))),
        (
            "took",
            Arc::new(DurationMillisecondArray::from(vec![Some(500), None, None, Some(1_000)])),
        ),
        ("at", Arc::new(TimestampSecondArray::from(vec![0, 60, 120, 180]))),
        ("coded", Arc::new(coded(&numbers))),
    ]);
    for (query, expected) in [
        ("sum(flag)", 2.0),
        ("SELECT count(*) WHERE flag = 'true'", 2.0),
        ("SELECT count(*) WHERE flag = 0", 1.0),
        ("avg(took)", 0.75),
        ("sum(coded)", 204.0),
        ("SELECT count(*) WHERE coded > 2", 2.0),
        ("SELECT count(*) WHERE at >= '1970-01-01T00:02'", 2.0),
        ("count(at)", 4.0),
    ] {
        assert_eq!(value(query, &table), expected, "{query}");
    }
    let keys = |query: &str| -> Vec<String> {
        one(query, &table).rows.iter().map(|row| row.key_text()).collect()
    };
    assert_eq!(keys("count(*) by coded"), ["", "1", "200", "3"]);
    assert_eq!(keys("count(*) by flag"), ["", "false", "true"]);
    let (_, refusals) = answers(&"avg(at)".parse().unwrap(), &as_frame(&table, 1_000));
    assert!(refusals[0].contains("1970-01-01T00:00:00"), "{refusals:?}");
}

/// A dictionary of numbers, with a value that is null.
fn coded(numbers: &[Option<u8>]) -> DictionaryArray<Int16Type> {
    let keys = (0..numbers.len() as i16).collect::<arrow_array::PrimitiveArray<Int16Type>>();
    DictionaryArray::new(keys, Arc::new(UInt8Array::from(numbers.to_vec())))
}

/// Minutes of 2024, and a fraction.
#[test]
fn new__compares_times_and_not_their_texts() {
    let minutes: Vec<i64> = (0..5_000).map(|minute| 1_704_067_200 + 60 * minute).collect();
    let days = minutes.iter().map(|second| (second / 86_400) as i32);
    let fractions =
        minutes.iter().enumerate().map(|(row, second)| second * 1_000 + [0, 500][row % 2]);
    let zoned = TimestampSecondArray::from(minutes.clone()).with_timezone("Europe/Zurich");
    let batch = batch(vec![
        ("t", Arc::new(TimestampSecondArray::from(minutes.clone()))),
        ("d", Arc::new(Date32Array::from_iter_values(days))),
        ("f", Arc::new(TimestampMillisecondArray::from_iter_values(fractions))),
        ("z", Arc::new(zoned)),
        ("s", Arc::new(DurationMillisecondArray::from_iter_values(0..5_000))),
    ]);
    let (header, messages) = as_frame(&batch, 1_000);
    let count = |filter: &str| -> Result<f64, QueryError> {
        let query = format!("SELECT count(*) WHERE {filter}").parse()?;
        let mut answering = TableAnswering::new(query, &header)?;
        answering.answering_mut().set_messages_sent(0, messages.len() as u64).unwrap();
        messages.iter().try_for_each(|message| answering.push(0, message))?;
        Ok(answering.answering().answers(Confidence::P95).unwrap().rows[0].estimate.value)
    };
    for (filter, rows) in [
        ("t < '2024-01-02 12:00'", 2_160.0),
        ("t < '2024-01-02T12:00:00'", 2_160.0),
        ("t = '2024-01-02'", 1.0),
        ("t <= '2024-01-02' AND NOT t < '2024-01-02'", 1.0),
        ("t IN ('2024-01-02', '2024-01-01 00:01:00')", 2.0),
        ("d >= '2024-01-03'", 5_000.0 - 2.0 * 1_440.0),
        ("f <= '2024-01-01T00:01:00'", 1.0),
        ("f <= '2024-01-01T00:01:00.500'", 2.0),
        ("f = '2024-01-01T00:01:00.5'", 1.0),
        ("z = '2024-01-01T00:00:00Z'", 1.0),
        ("z = '2024-01-01T01:00:00+01:00'", 1.0),
        ("s > 4.5", 499.0),
    ] {
        assert_eq!(count(filter), Ok(rows), "{filter}");
    }
    for (filter, words) in [
        ("t < 'noon'", "\"noon\" is none of"),
        ("d > '2024-1'", "is none of Date32"),
        ("z > '2024-01-01'", "times with the zone Europe/Zurich"),
        ("s > '10s'", "compare it with a number of seconds"),
    ] {
        let said = count(filter).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
}
