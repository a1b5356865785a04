//! The program `atp-kafka`, with librdkafka's mock cluster.

mod bridge;
mod cluster;
mod seeded;
mod send;
