//! Clients of Kafka: their errors as sentences, their log as this program's.

use anyhow::{Context, Result, anyhow, bail};
use rdkafka::{
    ClientContext,
    client::Client,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
    metadata::Metadata,
};
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How long the brokers may take for an answer that the program needs at its start.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes librdkafka's log to this program's, and keeps the last error.
#[derive(Debug, Default)]
pub struct Logged {
    last_error: Mutex<Option<String>>,
}

impl ClientContext for Logged {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::error!("librdkafka {facility}: {message}"),
            RDKafkaLogLevel::Warning => tracing::warn!("librdkafka {facility}: {message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!("librdkafka {facility}: {message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!("librdkafka {facility}: {message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {error}: {reason}");
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(reason.to_owned());
    }
}

impl ConsumerContext for Logged {}

impl Logged {
    /// The error that came last, as the reason of a failure.
    pub fn reason(&self) -> String {
        let last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"))
    }
}

/// A consumer that asks for metadata and offsets, and joins no group.
///
/// # Errors
/// A property is wrong.
pub fn inquirer(config: &rdkafka::ClientConfig) -> Result<BaseConsumer<Logged>> {
    config.create_with_context(Logged::default()).map_err(wrong_properties)
}

/// The error of a client that can't be made.
pub fn wrong_properties(error: KafkaError) -> anyhow::Error {
    match error {
        KafkaError::ClientConfig(_, why, name, _) => anyhow!("[kafka.properties] {name}: {why}"),
        other => anyhow!("can't make a client of Kafka: {other}"),
    }
}

/// The partitions of a topic.
///
/// # Errors
/// No broker answers, or none has the topic.
pub fn partitions<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    brokers: &str,
    reason: impl Fn() -> String,
) -> Result<Vec<i32>> {
    let metadata = match consumer.fetch_metadata(Some(topic), TIMEOUT) {
        Ok(metadata) => metadata,
        Err(error) => {
            serve(consumer);
            bail!("no broker at {brokers} answers: {error}{}", reason());
        }
    };
    of_topic(&metadata, topic).with_context(|| format!("the brokers at {brokers} don't have it"))
}

/// Serves callbacks, so that the last error is known.
fn serve<C: ConsumerContext>(consumer: &BaseConsumer<C>) {
    let _ = consumer.poll(Duration::from_millis(100));
}

fn of_topic(metadata: &Metadata, topic: &str) -> Result<Vec<i32>> {
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let Some(found) = found else { bail!("there is no topic {topic:?}") };
    if let Some(error) = found.error() {
        bail!("topic {topic:?}: {}", RDKafkaErrorCode::from(error));
    }
    let mut partitions: Vec<i32> = found.partitions().iter().map(|p| p.id()).collect();
    partitions.sort_unstable();
    if partitions.is_empty() {
        bail!("there is no topic {topic:?}");
    }
    Ok(partitions)
}

/// The id of the cluster.
///
/// # Errors
/// No broker answers.
pub fn cluster_id<C: ClientContext>(client: &Client<C>, brokers: &str) -> Result<String> {
    client.fetch_cluster_id(TIMEOUT).with_context(|| format!("no broker at {brokers} answers"))
}
