//! Brokers of Kafka for tests, benchmarks and demonstrations.
