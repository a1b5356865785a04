//! Tests with real brokers of Kafka.
//!
//! They need `ATP_KAFKA_JARS`, the folder of Kafka's jars. `cargo xtask test --engine kafka` sets
//! it.

mod both_ways;
mod certificates;
mod cluster;
mod offsets;
mod permissions;
#[path = "../process.rs"]
#[expect(dead_code, reason = "the tests with the mock cluster use the rest")]
mod process;
mod records;
mod refused;
mod secure;
mod topics;
#[path = "../../broker/tests/trial.rs"]
mod trial;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use trial::trial;

fn main() -> ExitCode {
    let trials = vec![
        trial(
            "records__come_back_also_after_a_crash_of_the_broker",
            records::come_back_also_after_a_crash_of_the_broker,
        ),
        trial(
            "both_ways__each_record_is_written_once_or_known_to_be_lost",
            both_ways::each_record_is_written_once_or_known_to_be_lost,
        ),
        trial(
            "offsets__records_that_expire_or_are_of_another_topic_are_told",
            offsets::records_that_expire_or_are_of_another_topic_are_told,
        ),
        trial(
            "cluster__a_bridge_outlives_the_leaders_of_its_partitions",
            cluster::a_bridge_outlives_the_leaders_of_its_partitions,
        ),
        trial("secure__bridges_log_in_over_tls", secure::bridges_log_in_over_tls),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
