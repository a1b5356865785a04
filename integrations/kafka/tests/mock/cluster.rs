//! A mock cluster, and a producer for it.

use anyhow::{Context, Result, ensure};
use rdkafka::{
    ClientConfig,
    bindings::{
        rd_kafka_handle_mock_cluster, rd_kafka_header_add,
        rd_kafka_mock_group_initial_rebalance_delay_ms,
    },
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    mocking::MockCluster,
    producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
};
use std::{ptr, thread, time::Duration};

pub type Mock<'a> = MockCluster<'a, DefaultProducerContext>;

/// The client that has a mock cluster, and produces for it.
pub struct Cluster {
    producer: ThreadedProducer<DefaultProducerContext>,
}

/// A record that a test sends.
#[derive(Clone, Debug, Default)]
pub struct Sent<'a> {
    pub partition: i32,
    pub timestamp_ms: Option<i64>,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [(&'a str, &'a [u8])],
}

impl Cluster {
    /// A cluster of one broker with a topic.
    pub fn new(topic: &str, partitions: i32) -> Result<Self> {
        let mut config = ClientConfig::new();
        config.set("test.mock.num.brokers", "1").set("reconnect.backoff.max.ms", "300");
        let producer: ThreadedProducer<_> = config.create()?;
        let cluster = Self { producer };
        cluster.mock()?.create_topic(topic, partitions, 1)?;
        // SAFETY: the client has a mock cluster, as the line before has shown, and is alive.
        unsafe {
            let mock = rd_kafka_handle_mock_cluster(cluster.producer.client().native_ptr());
            // A member that joins first waits three seconds for others otherwise.
            rd_kafka_mock_group_initial_rebalance_delay_ms(mock, 100);
        }
        Ok(cluster)
    }

    pub fn mock(&self) -> Result<Mock<'_>> {
        self.producer.client().mock_cluster().context("no mock cluster")
    }

    pub fn brokers(&self) -> Result<String> {
        Ok(self.mock()?.bootstrap_servers())
    }

    /// Produces records, and waits until the broker has them.
    pub fn produce(&self, topic: &str, records: &[Sent<'_>]) -> Result<()> {
        for record in records {
            send(&self.producer, topic, record)?;
        }
        self.producer.flush(Duration::from_secs(60))?;
        ensure!(self.producer.in_flight_count() == 0);
        Ok(())
    }

    /// Produces a record with a last header whose name needn't be text.
    pub fn produce_with_header(
        &self,
        topic: &str,
        sent: &Sent<'_>,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let headers = headers(sent);
        let list = ptr::from_ref(headers.as_borrowed()).cast_mut().cast();
        let (name_bytes, value_bytes) = (name.len() as isize, value.len() as isize);
        // SAFETY: a reference to borrowed headers is librdkafka's pointer to the list, which this
        // function owns. librdkafka copies the bytes.
        unsafe {
            let (name, value) = (name.as_ptr().cast(), value.as_ptr().cast());
            rd_kafka_header_add(list, name, name_bytes, value, value_bytes);
        }
        send_with(&self.producer, topic, sent, headers)?;
        self.producer.flush(Duration::from_secs(60))?;
        Ok(())
    }

    /// Produces records in batches that are compressed by `codec`.
    pub fn produce_compressed(&self, topic: &str, records: &[Sent<'_>], codec: &str) -> Result<()> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers()?).set("compression.type", codec);
        config.set("linger.ms", "100");
        let producer: ThreadedProducer<DefaultProducerContext> = config.create()?;
        for record in records {
            send(&producer, topic, record)?;
        }
        producer.flush(Duration::from_secs(60))?;
        ensure!(producer.in_flight_count() == 0);
        Ok(())
    }
}

fn send(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    sent: &Sent<'_>,
) -> Result<()> {
    send_with(producer, topic, sent, headers(sent))
}

fn headers(sent: &Sent<'_>) -> OwnedHeaders {
    let header = |headers: OwnedHeaders, (key, value): &(&str, &[u8])| {
        headers.insert(Header { key, value: Some(*value) })
    };
    sent.headers.iter().fold(OwnedHeaders::new(), header)
}

fn send_with(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    sent: &Sent<'_>,
    headers: OwnedHeaders,
) -> Result<()> {
    let mut record: BaseRecord<'_, [u8], [u8]> =
        BaseRecord::to(topic).partition(sent.partition).headers(headers);
    if let Some(timestamp_ms) = sent.timestamp_ms {
        record = record.timestamp(timestamp_ms);
    }
    if let Some(key) = sent.key {
        record = record.key(key);
    }
    if let Some(value) = sent.value {
        record = record.payload(value);
    }
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                thread::sleep(Duration::from_millis(5));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
