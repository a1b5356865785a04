//! The formulas beside samplics, NumPy and SciPy, on random cluster samples of several strata.
//!
//! `cargo xtask test` installs samplics. Without it the test is skipped, and says so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use approx_answers::{Confidence, Delivery, Quantiles, Sample};
use libtest_mimic::{Arguments, Trial};
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde_json::{Value, json};

const SAMPLES: u64 = 40;
/// No share of a sample is one of these, which rounding would turn up or down.
const RANKS: [f64; 3] = [0.0314159, 0.5123457, 0.9012347];
const LEVELS: [f64; 4] = [0.5, 0.95, 0.99, 0.999_999];
const DEGREES: [f64; 8] = [1.0, 1.7, 4.0, 29.0, 400.5, 999.0, 1_001.0, 1e6];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let python = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../tools/venv/bin/python");
    let missing = (!has_samplics(&python)).then_some("needs samplics: no package in our Python");
    let name = "answers__are_those_of_samplics";
    let runner = move || {
        answers_are_those_of_samplics(&python);
        Ok(())
    };
    let trial = Trial::test(name, runner).with_ignored_flag(missing.is_some());
    if let Some(reason) = missing
        && !arguments.list
        && !arguments.is_filtered_out(&trial)
    {
        println!("skipped: {name}: {reason}");
    }
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

fn has_samplics(python: &Path) -> bool {
    let mut import = Command::new(python);
    import.args(["-c", "import samplics"]).stderr(Stdio::null());
    import.status().is_ok_and(|status| status.success())
}

/// A sample of one to four strata, each with the values of its messages.
fn draw(seed: u64) -> Value {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let strata = draws.random_range(1..=4);
    let part = |draws: &mut ChaCha8Rng| {
        let arrived = draws.random_range(2..40u64);
        let sent = arrived + draws.random_range(1..200u64);
        // Two messages differ in their records: counts of equal ones have an interval of our own.
        let message = |draws: &mut ChaCha8Rng, number: u64| {
            let mean: f64 = draws.random_range(-20.0..60.0);
            let records = 1 + number % 2 + 2 * draws.random_range(0..10);
            (0..records).map(|_| mean + draws.random_range(-5.0..5.0)).collect::<Vec<f64>>()
        };
        let messages: Vec<Vec<f64>> = (0..arrived).map(|number| message(draws, number)).collect();
        json!({ "sent": sent, "messages": messages })
    };
    (0..strata).map(|_| part(&mut draws)).collect()
}

fn sample(drawn: &Value) -> Sample {
    let mut sample = Sample::new();
    for (stratum, part) in (0..).zip(drawn.as_array().unwrap()) {
        sample.set_messages_sent(stratum, part["sent"].as_u64().unwrap()).unwrap();
        sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        for message in part["messages"].as_array().unwrap() {
            let values: Vec<f64> =
                message.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            sample.push(stratum, values.len() as u64, values.iter().sum()).unwrap();
        }
    }
    sample
}

fn answers_are_those_of_samplics(python: &Path) {
    let drawn: Vec<Value> = (0..SAMPLES).map(draw).collect();
    let student: Vec<(f64, f64)> =
        LEVELS.iter().flat_map(|&level| DEGREES.map(|degrees| (level, degrees))).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samplics/oracle.py");
    let mut oracle = Command::new(python);
    let oracle = oracle.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut oracle = oracle.spawn().unwrap();
    let input =
        serde_json::to_vec(&json!({ "samples": &drawn, "ranks": RANKS, "student": &student }))
            .unwrap();
    oracle.stdin.take().unwrap().write_all(&input).unwrap();
    let output = oracle.wait_with_output().unwrap();
    assert!(output.status.success(), "the script failed: its error is above");
    let expected: Value = serde_json::from_slice(&output.stdout).unwrap();
    let quantiles = expected["student"].as_array().unwrap();
    assert_eq!(quantiles.len(), student.len());
    for ((level, degrees), expected) in student.into_iter().zip(quantiles) {
        let found = Confidence::new(level).unwrap().student(degrees);
        let apart = found / expected.as_f64().unwrap() - 1.0;
        assert!(apart.abs() < 1e-8, "{level}, {degrees}: {found} instead of {expected}");
    }
    let expected = expected["samples"].as_array().unwrap();
    assert_eq!(expected.len(), drawn.len());

    let p95 = Confidence::P95;
    for (seed, (drawn, expected)) in drawn.iter().zip(expected).enumerate() {
        let sample = sample(drawn);
        let quantiles = self::quantiles(drawn);
        for (at, rank) in RANKS.into_iter().enumerate() {
            let expected = expected["quantiles"][at].as_f64().unwrap();
            let found = quantiles.quantile(&(), rank, p95).unwrap().value;
            assert_near(seed, "quantile", found, expected);
        }
        for (name, found) in [
            ("sum", sample.sum(p95).unwrap()),
            ("count", sample.count(p95).unwrap()),
            ("mean", sample.mean(p95).unwrap()),
        ] {
            let number = |at: usize| expected[name][at].as_f64().unwrap();
            assert_near(seed, name, found.value, number(0));
            assert_near(seed, name, found.standard_error(), number(1));
        }
    }
}

/// Few enough values for the sketches to be exact.
fn quantiles(drawn: &Value) -> Quantiles {
    let mut quantiles = Quantiles::new(1);
    for (stratum, part) in (0..).zip(drawn.as_array().unwrap()) {
        quantiles.set_messages_sent(stratum, part["sent"].as_u64().unwrap()).unwrap();
        quantiles.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        for message in part["messages"].as_array().unwrap() {
            let values = message.as_array().unwrap().iter().map(|v| ((), v.as_f64().unwrap()));
            quantiles.push_message(stratum, values).unwrap();
        }
    }
    quantiles
}

fn assert_near(seed: usize, name: &str, found: f64, expected: f64) {
    let apart = (found - expected).abs();
    assert!(apart <= 1e-9 * (1.0 + expected.abs()), "seed {seed}, {name}: {found}, {expected}");
}
