//! Tests with real brokers of Kafka.
//!
//! They need `ATP_KAFKA_JARS`, the folder of Kafka's jars. `cargo xtask test --engine kafka` sets
//! it.

mod records;
#[path = "../../broker/tests/trial.rs"]
mod trial;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use trial::trial;

fn main() -> ExitCode {
    let trials = vec![trial(
        "records__come_back_also_after_a_crash_of_the_broker",
        records::come_back_also_after_a_crash_of_the_broker,
    )];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
