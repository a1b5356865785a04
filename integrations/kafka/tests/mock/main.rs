//! The program `atp-kafka`, with librdkafka's mock cluster.

mod cluster;
mod lag;
#[path = "../process.rs"]
mod process;
mod receiving;
mod seeded;
mod send;
