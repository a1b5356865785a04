//! The topics of a real broker, and the records that the bridge has written into them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_executor::block_on;
use kafka_broker::Broker;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

pub const LIMIT: Duration = Duration::from_secs(120);

/// A client in plain text.
pub fn client(broker: &Broker) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", broker.bootstrap());
    client
}

/// Makes a topic. One of the same name may be on its way out.
pub fn make(client: &ClientConfig, new: NewTopic<'_>) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client.create()?;
    let deadline = Instant::now() + LIMIT;
    loop {
        let made = block_on(admin.create_topics([&new], &AdminOptions::new()))?;
        match made.into_iter().next().context("no answer")? {
            Ok(_) => return Ok(()),
            Err((_, code)) => ensure!(Instant::now() < deadline, "{}: {code}", new.name),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Makes a topic of one partition.
pub fn make_one(client: &ClientConfig, name: &str) -> Result<()> {
    make(client, NewTopic::new(name, 1, TopicReplication::Fixed(1)))
}

/// The records of windows, as JSON.
pub fn windows(client: &ClientConfig, target: &str) -> Result<Vec<Value>> {
    let records = read(client, &format!("{target}.windows"))?;
    records.iter().map(|record| Ok(serde_json::from_slice(&record.payload)?)).collect()
}

/// How many offsets of each partition of the source are written into the target, or lost.
///
/// # Errors
/// An offset is counted twice.
pub fn counted(client: &ClientConfig, target: &str, partitions: usize) -> Result<Vec<u64>> {
    let mut known: Vec<BTreeMap<u64, &str>> = vec![BTreeMap::new(); partitions];
    let mut note = |partition: usize, offset: u64, what: &'static str| {
        let before = known[partition].insert(offset, what);
        ensure!(before.is_none(), "[{partition}] {offset} is {what} and {before:?}");
        Ok(())
    };
    for message in read(client, target)? {
        let Some(offset) = message.offset else { continue };
        note(message.partition, offset, "written")?;
    }
    for window in windows(client, target)? {
        let partition = window["stream"]["partition"].as_u64().context("a partition")?;
        for range in window["lost"].as_array().context("lost")? {
            let ends = [0, 1].map(|at| range[at].as_u64().expect("an offset"));
            for offset in ends[0]..=ends[1] {
                note(partition as usize, offset, "lost")?;
            }
        }
    }
    Ok(known.iter().map(|offsets| offsets.len() as u64).collect())
}

/// A record.
pub struct Read {
    partition: usize,
    /// The offset in the source, if it has one.
    offset: Option<u64>,
    pub payload: Vec<u8>,
}

/// All committed records of a topic.
pub fn read(client: &ClientConfig, topic: &str) -> Result<Vec<Read>> {
    let mut config = client.clone();
    config.set("group.id", "check").set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), LIMIT)?;
    let mut open: Vec<i32> = metadata.topics()[0].partitions().iter().map(|p| p.id()).collect();
    let mut list = TopicPartitionList::new();
    for partition in &open {
        list.add_partition_offset(topic, *partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    let deadline = Instant::now() + LIMIT;
    let mut records = Vec::new();
    while !open.is_empty() {
        ensure!(Instant::now() < deadline, "reading {topic} doesn't end");
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Err(KafkaError::PartitionEOF(ended))) => open.retain(|open| *open != ended),
            Some(Err(error)) => bail!("reading {topic}: {error}"),
            Some(Ok(message)) => {
                let headers = message.headers();
                let mut headers = headers.into_iter().flat_map(Headers::iter);
                let offset = headers.find(|header| header.key == "atp-offset");
                let offset = offset.and_then(|header| header.value);
                let offset = offset.map(std::str::from_utf8).transpose()?;
                records.push(Read {
                    partition: usize::try_from(message.partition())?,
                    offset: offset.map(str::parse).transpose()?,
                    payload: message.payload().unwrap_or_default().to_vec(),
                });
            }
        }
    }
    Ok(records)
}
