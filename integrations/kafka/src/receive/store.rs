//! Writes windows into topics, each in a transaction.

use super::window_record::{Stored, WindowRecord, key};
use crate::{
    client::{Logged, wrong_properties},
    config::ReceiveConfig,
    stop, systemd,
};
use anyhow::{Result, anyhow};
use approx_windows::{CountedOffsets, GroupHeader, ReceivedWindow, Record};
use rdkafka::{
    ClientContext, Message,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, Producer, ThreadedProducer},
    producer::{DeliveryResult, ProducerContext},
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long the brokers may take for a step of a transaction before it is tried again.
const STEP: Duration = Duration::from_secs(30);
/// The wait while librdkafka's queue is full.
const QUEUE_FULL: Duration = Duration::from_millis(5);
/// The wait between two looks whether the records of a transaction were written.
const IN_FLIGHT: Duration = Duration::from_micros(500);

/// The producer, and the topics that it writes.
pub struct Store {
    producer: ThreadedProducer<Delivery>,
    topic: String,
    partitions: usize,
    windows_topic: String,
    counted_topic: String,
}

/// A window that was not written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// This transaction failed. Another one may succeed.
    #[error("writing {windows} failed, and is tried again: {cause}")]
    Aborted {
        /// The windows.
        windows: String,
        /// The cause.
        cause: KafkaError,
    },
    /// No transaction will succeed.
    #[error("writing {windows} failed: {cause}{}", hint(.cause))]
    Fatal {
        /// The windows.
        windows: String,
        /// The cause.
        cause: KafkaError,
    },
}

fn hint(error: &KafkaError) -> &'static str {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced) => {
            ". Another receiver of the same `name` has been started"
        }
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
            ". Raise `max.message.bytes` of the topics, and `message.max.bytes` in \
             [kafka.properties]: records get headers on their way"
        }
        Some(RDKafkaErrorCode::InvalidTimestamp) => {
            ". A record's time is outside the range of the topic: raise its \
             `message.timestamp.after.max.ms` and `message.timestamp.before.max.ms`"
        }
        _ => "",
    }
}

/// Logs deliveries that fail. The transaction fails with them.
pub struct Delivery(Logged);

impl ClientContext for Delivery {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for Delivery {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            tracing::debug!(topic = message.topic(), "a record was not written: {error}");
        }
    }
}

impl Store {
    /// Opens the producer. An earlier one of the same name can write no more.
    ///
    /// # Errors
    /// A property is wrong, or the brokers have no transactions.
    pub fn open(config: &ReceiveConfig, partitions: usize) -> Result<Self> {
        let mut client = config.kafka.client().config()?;
        client.set("transactional.id", format!("atp-kafka/{}", config.name));
        // Records come with more headers than they left the source with, and the record of a window
        // with many lost ones is long.
        for (name, value) in [("compression.type", "lz4"), ("message.max.bytes", "16777216")] {
            if client.get(name).is_none() {
                client.set(name, value);
            }
        }
        let delivery = Delivery(Logged::default());
        let producer: ThreadedProducer<Delivery> =
            client.create_with_context(delivery).map_err(wrong_properties)?;
        let brokers = &config.kafka.brokers;
        producer
            .init_transactions(STEP)
            .map_err(|error| anyhow!("can't begin transactions at {brokers}: {error}"))?;
        let topic = config.kafka.topic.clone();
        let [windows_topic, counted_topic] =
            [config.kafka.windows_topic(), config.kafka.counted_topic()];
        Ok(Self { producer, topic, partitions, windows_topic, counted_topic })
    }

    /// Writes windows of different streams. With each, the offsets of its stream that are counted
    /// then.
    ///
    /// # Errors
    /// [`StoreError`]. Nothing of the windows is there then.
    pub fn store<'a>(
        &self,
        windows: impl Iterator<Item = (&'a ReceivedWindow, CountedOffsets)>,
    ) -> Result<(), StoreError> {
        let mut names = Vec::new();
        let windows = windows.inspect(|(window, _)| names.push(window.header.to_string()));
        self.write_all(windows).map_err(|cause| {
            let is_fatal = self.producer.client().fatal_error().is_some();
            let windows = names.join("; ");
            let is_lasting = !hint(&cause).is_empty();
            match is_fatal || self.abort().is_err() || is_lasting {
                true => StoreError::Fatal { windows, cause },
                false => StoreError::Aborted { windows, cause },
            }
        })
    }

    fn write_all<'a>(
        &self,
        mut windows: impl Iterator<Item = (&'a ReceivedWindow, CountedOffsets)>,
    ) -> Result<(), KafkaError> {
        self.producer.begin_transaction()?;
        windows.try_for_each(|(window, counted)| self.write(window, counted))?;
        self.commit()
    }

    fn write(&self, window: &ReceivedWindow, counted: CountedOffsets) -> Result<(), KafkaError> {
        let stream = &window.header.stream;
        let source = key(stream);
        let number = format!("{}/{}", window.header.number, window.header.part);
        let partition = stream.partition as usize % self.partitions;
        let with_group = |group| move |record| (group, record);
        let records = window.groups.iter();
        let mut records: Vec<(&GroupHeader, &Record)> =
            records.flat_map(|g| g.records.iter().map(with_group(&g.header))).collect();
        records.sort_unstable_by_key(|(_, record)| record.offset);
        for (group, record) in records {
            let offset = record.offset.to_string();
            let own = [
                ("atp-source", source.as_str()),
                ("atp-window", &number),
                ("atp-offset", &offset),
                ("atp-group", &group.name),
            ];
            let mut headers = OwnedHeaders::new();
            for (key, value) in &record.headers {
                headers = headers.insert(Header { key, value: value.as_ref() });
            }
            for (key, value) in own {
                headers = headers.insert(Header { key, value: Some(value) });
            }
            let mut sent: BaseRecord<'_, [u8], [u8]> =
                BaseRecord::to(&self.topic).partition(partition as i32).headers(headers);
            sent.key = record.key.as_deref();
            sent.payload = record.value.as_deref();
            sent.timestamp = record.timestamp_ms;
            self.send(sent)?;
        }
        // Numbers and texts are always JSON.
        let described = serde_json::to_vec(&WindowRecord::new(window)).unwrap_or_default();
        let stored = Stored { stream: stream.clone(), counted };
        let stored = serde_json::to_vec(&stored).unwrap_or_default();
        for (topic, value) in [(&self.windows_topic, &described), (&self.counted_topic, &stored)] {
            let sent: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
            self.send(sent.key(source.as_bytes()).payload(value))?;
        }
        Ok(())
    }

    fn send(&self, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<(), KafkaError> {
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    record = again;
                    thread::sleep(QUEUE_FULL);
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Commits. While the answer is unknown, it asks again: only that tells what has happened. A
    /// program that is told to stop leaves that to the next one.
    fn commit(&self) -> Result<(), KafkaError> {
        // The crate's flush looks every 100 ms.
        let deadline = Instant::now() + STEP;
        while self.producer.in_flight_count() > 0 && Instant::now() < deadline {
            thread::sleep(IN_FLIGHT);
        }
        loop {
            match self.producer.commit_transaction(STEP) {
                Err(KafkaError::Transaction(error))
                    if error.is_retriable() && !stop::is_asked() =>
                {
                    systemd::alive();
                    tracing::warn!("committing a transaction is tried again: {error}");
                }
                outcome => return outcome,
            }
        }
    }

    fn abort(&self) -> Result<(), KafkaError> {
        loop {
            match self.producer.abort_transaction(STEP) {
                Err(KafkaError::Transaction(error))
                    if error.is_retriable() && !stop::is_asked() =>
                {
                    systemd::alive();
                    tracing::warn!("aborting a transaction is tried again: {error}");
                }
                outcome => return outcome,
            }
        }
    }
}
