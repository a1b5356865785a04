//! The program `atp-kafka`, with librdkafka's mock cluster.

mod bad_input;
mod brokers;
mod cluster;
mod lag;
mod metrics;
#[path = "../process.rs"]
mod process;
mod receiving;
mod scrape;
mod secrets;
mod seeded;
mod send;
mod systemd;
