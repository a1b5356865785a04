//! Rows per second of processor time that answers with intervals take, beside a plain loop over the
//! same rows.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, anyhow};
use approx_answers::{Answering, Confidence, GroupBy, Quantiles, Sample};
use atp_output::note;
use nix::time::{ClockId, clock_gettime};
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;

use crate::bench::table;
use crate::median::median;
use crate::result_file::ResultFile;

/// As the main job's messages of flights.
const ROWS_PER_MESSAGE: usize = 15;
const KEYS: u32 = 16;

/// The rows, as numbers and as text.
struct Rows {
    values: Vec<f64>,
    keys: Vec<u32>,
    texts: Vec<[String; 2]>,
}

/// One way to an answer.
struct Case {
    name: &'static str,
    run: fn(&Rows) -> Result<f64>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    million_rows_per_cpu_s: f64,
}

const CASES: [Case; 6] = [
    Case { name: "a plain loop: sum and count", run: plain },
    Case { name: "Sample: sum and count, with intervals", run: sample },
    Case { name: "GroupBy: 16 keys", run: group_by },
    Case { name: "Quantiles: the median", run: quantiles },
    Case { name: "Answering: sum(value), from text", run: answering_sum },
    Case { name: "Answering: sum(value) by key, from text", run: answering_by_key },
];

/// Measures `rows` rows, `repetitions` times.
pub fn run(rows: u32, repetitions: u32, json: Option<ResultFile>) -> Result<()> {
    let table_of_rows = Rows::draw(rows);
    let mut results = Vec::new();
    for case in CASES {
        let mut rates = Vec::new();
        for _ in 0..repetitions {
            let begin = cpu_time()?;
            black_box((case.run)(black_box(&table_of_rows))?);
            let took = cpu_time()?.saturating_sub(begin);
            rates.push(f64::from(rows) / 1e6 / took.as_secs_f64());
        }
        let rate = median(rates).ok_or_else(|| anyhow!("no run"))?;
        results.push(Row { name: case.name, million_rows_per_cpu_s: rate });
    }
    let header = ["answer", "M rows/CPU s", "of the plain loop"];
    let plain = results[0].million_rows_per_cpu_s;
    let cells = results.iter().map(|row| {
        let rate = row.million_rows_per_cpu_s;
        [row.name.to_owned(), format!("{rate:.1}"), format!("{:.3}", rate / plain)]
    });
    note!("{}", table(header, 1, cells));
    json.map_or(Ok(()), |file| file.write_json(&results))
}

/// Processor time of this thread.
fn cpu_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

impl Rows {
    fn draw(rows: u32) -> Rows {
        let mut draws = ChaCha8Rng::seed_from_u64(1);
        let values: Vec<f64> = (0..rows).map(|_| draws.random_range(-20..300i32).into()).collect();
        let keys: Vec<u32> = (0..rows).map(|_| draws.random_range(0..KEYS)).collect();
        let texts =
            values.iter().zip(&keys).map(|(v, k)| [format!("C{k}"), v.to_string()]).collect();
        Rows { values, keys, texts }
    }

    /// Twice the messages that are here: half of them arrived.
    fn sent(&self) -> u64 {
        2 * self.values.len().div_ceil(ROWS_PER_MESSAGE) as u64
    }
}

fn plain(rows: &Rows) -> Result<f64> {
    let (mut sum, mut count) = (0.0, 0u64);
    for &value in &rows.values {
        sum += value;
        count += 1;
    }
    Ok(sum + count as f64)
}

fn sample(rows: &Rows) -> Result<f64> {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, rows.sent())?;
    for message in rows.values.chunks(ROWS_PER_MESSAGE) {
        sample.push(0, message.len() as u64, message.iter().sum())?;
    }
    Ok(sample.sum(Confidence::P95)?.half_width() + sample.count(Confidence::P95)?.half_width())
}

fn group_by(rows: &Rows) -> Result<f64> {
    let mut by = GroupBy::new(1_000);
    by.set_messages_sent(0, rows.sent())?;
    let keys = rows.keys.chunks(ROWS_PER_MESSAGE);
    for (keys, values) in keys.zip(rows.values.chunks(ROWS_PER_MESSAGE)) {
        by.push_message(0, keys.iter().zip(values.iter().copied()))?;
    }
    Ok(by.sum(&0, Confidence::P95)?.half_width())
}

fn quantiles(rows: &Rows) -> Result<f64> {
    let mut quantiles = Quantiles::new(1);
    quantiles.set_messages_sent(0, rows.sent())?;
    for message in rows.values.chunks(ROWS_PER_MESSAGE) {
        quantiles.push_message(0, message.iter().map(|&value| ((), value)))?;
    }
    Ok(quantiles.quantile(&(), 0.5, Confidence::P95)?.half_width())
}

fn answering_sum(rows: &Rows) -> Result<f64> {
    answering(rows, "sum(value)")
}

fn answering_by_key(rows: &Rows) -> Result<f64> {
    answering(rows, "sum(value) by key")
}

fn answering(rows: &Rows, query: &str) -> Result<f64> {
    let mut answering = Answering::new(query.parse()?, &["key", "value"])?;
    answering.set_messages_sent(0, rows.sent())?;
    for message in rows.texts.chunks(ROWS_PER_MESSAGE) {
        answering.push_message(0, message)?;
    }
    Ok(answering.answers(Confidence::P95)?.rows[0].estimate.half_width())
}
