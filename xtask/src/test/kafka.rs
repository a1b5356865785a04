//! The tests of the Kafka bridge: with the mock brokers of librdkafka, and with `--engine kafka`
//! also with real ones. They are compiled in release, as the program is: librdkafka takes minutes
//! to compile, and is compiled once.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Choice, Run, Rung, compile, unit};
use crate::build;
use crate::setup::{self, KAFKA_JARS, LIBRDKAFKA};
use test_report::Skip;

const LIMIT: Duration = Duration::from_secs(20 * 60);
/// The test targets with real brokers, which cargo runs only if they are named.
const WITH_BROKERS: [&str; 8] = [
    "--package",
    "atp-kafka",
    "--test",
    "broker",
    "--package",
    "kafka-broker",
    "--test",
    "lifecycle",
];
/// Names the folder of the jars for them.
const JARS_VARIABLE: &str = "ATP_KAFKA_JARS";

/// The tests are compiled, or the reason why they can't be.
pub type Built = Result<(), String>;

pub fn build(choice: &Choice) -> Result<Built> {
    if let Err(why) = setup::obtainable(&[&LIBRDKAFKA]) {
        return Ok(Err(why));
    }
    atp_output::note!("building the Kafka bridge and its tests");
    setup::ensure(&[&LIBRDKAFKA])?;
    compile::run("kafka", cargo_test("--no-run", &compile::tested_targets("atp-kafka")?), |_| {})?;
    if choice.engine.is_some() {
        compile::run("kafka-broker", cargo_test("--no-run", &WITH_BROKERS), |_| {})?;
        // Where they can't be installed, the tests are skipped.
        if setup::obtainable(&[&KAFKA_JARS]).is_ok() {
            setup::ensure(&[&KAFKA_JARS])?;
        }
    }
    Ok(Ok(()))
}

pub fn run(built: &Built, choice: &Choice, run: &mut Run) -> Result<()> {
    if let Err(why) = built {
        let skip = Skip::new("the Kafka bridge", &format!("needs librdkafka: {why}"));
        return run.rung("Kafka", || Ok(Rung::skipped(skip)));
    }
    run.rung("tests of the Kafka bridge", || {
        atp_output::note!("tests of the Kafka bridge");
        let test = cargo_test("--no-fail-fast", &compile::tested_targets("atp-kafka")?);
        unit::run_cargo("kafka", test, LIMIT, choice)
    })?;
    if choice.engine.is_none() {
        return Ok(());
    }
    run.rung("tests with real brokers of Kafka", || {
        atp_output::note!("tests with real brokers of Kafka");
        let mut test = cargo_test("--no-fail-fast", &WITH_BROKERS);
        test.envs(setup::java_home().map(|home| ("JAVA_HOME", home)));
        match KAFKA_JARS.path() {
            jars if jars.is_dir() => test.env(JARS_VARIABLE, jars),
            _ => test.env_remove(JARS_VARIABLE),
        };
        unit::run_cargo("kafka-broker", test, LIMIT, choice)
    })
}

fn cargo_test(option: &str, targets: &[impl AsRef<OsStr>]) -> Command {
    let mut test = build::cargo_beside_bench(&format!("test --color=never {option}"));
    test.args(targets);
    test
}
