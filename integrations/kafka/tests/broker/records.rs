//! Records of a real broker, without the bridge: what its tests rely on.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kafka_broker::Broker;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const TOPIC: &str = "records";
const PARTITIONS: u32 = 4;
const RECORDS: usize = 1_000;
/// The limit for the records to be written, and to be read: a fraction of a second when idle.
const LIMIT: Duration = Duration::from_secs(120);

pub fn come_back_also_after_a_crash_of_the_broker(jars: &Path) -> Result<()> {
    // A killed broker comes back when its session has ended, 9 s later by default.
    let builder = Broker::builder(jars).partitions_default(PARTITIONS);
    let mut broker = builder.property("broker.session.timeout.ms", "3000").start()?;
    for codec in ["none", "zstd", "gzip", "lz4", "snappy"] {
        produce(&broker, codec)?;
    }
    let before = consume(&broker, "before", 5 * RECORDS)?;
    ensure!(before.iter().all(|count| *count == 5), "each record was written 5 times");
    broker.kill();
    broker.restart()?;
    ensure!(consume(&broker, "after", 5 * RECORDS)? == before);
    broker.stop()
}

fn client(broker: &Broker) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", broker.bootstrap());
    client
}

/// Writes the records, and waits until the broker has them.
fn produce(broker: &Broker, codec: &str) -> Result<()> {
    let producer: BaseProducer = client(broker).set("compression.type", codec).create()?;
    for number in 0..RECORDS {
        let (key, payload) = (number.to_string(), vec![b'x'; number % 300]);
        let header = Header { key: "number", value: Some(&key) };
        let headers = OwnedHeaders::new().insert(header);
        let record = BaseRecord::to(TOPIC).key(&key).payload(&payload).headers(headers);
        producer.send(record).map_err(|(error, _)| error).context("the producer's queue")?;
    }
    producer.flush(LIMIT).with_context(|| format!("records with {codec} compression"))
}

/// Reads so many records as a new group, and returns how often each was there.
fn consume(broker: &Broker, group: &str, records: usize) -> Result<Vec<usize>> {
    let mut config = client(broker);
    config.set("group.id", group).set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create()?;
    consumer.subscribe(&[TOPIC])?;
    let (mut counts, mut partitions) = (vec![0; RECORDS], vec![0; PARTITIONS as usize]);
    let deadline = Instant::now() + LIMIT;
    for arrived in 0..records {
        let message = loop {
            ensure!(Instant::now() < deadline, "{arrived} of {records} records arrived");
            if let Some(message) = consumer.poll(Duration::from_millis(100)) {
                break message?;
            }
        };
        let header = message.headers().context("no headers")?.try_get(0).context("no header")?;
        let number: usize =
            std::str::from_utf8(header.value.context("an empty header")?)?.parse()?;
        ensure!(header.key == "number" && message.key() == header.value);
        ensure!(message.payload().map_or(0, <[u8]>::len) == number % 300);
        *counts.get_mut(number).context("an unknown record")? += 1;
        partitions[usize::try_from(message.partition())?] += 1;
    }
    ensure!(partitions.iter().all(|count| *count > 0), "a partition is empty: {partitions:?}");
    Ok(counts)
}
