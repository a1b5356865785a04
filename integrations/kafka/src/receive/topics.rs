//! The topics of a receiver: that of the records must be there, the others are made.

use super::window_record::Stored;
use crate::{
    client::{Logged, TIMEOUT, inquirer, partitions, partitions_within, wrong_properties},
    config::ReceiveConfig,
};
use anyhow::{Context, Result, anyhow, bail};
use approx_windows::Counted;
use rdkafka::{
    Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    consumer::Consumer,
    error::{KafkaError, RDKafkaErrorCode},
};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The longest silence of the brokers while the topic of windows is read.
const SILENCE: Duration = Duration::from_secs(60);

/// The number of partitions of the topic for records.
///
/// # Errors
/// The topic isn't there, or no broker answers.
pub fn target_partitions(config: &ReceiveConfig) -> Result<usize> {
    let kafka = &config.kafka;
    let consumer = inquirer(&kafka.client().config()?)?;
    Ok(partitions(&consumer, &kafka.topic, &kafka.brokers)?.len())
}

/// A record of a window with many lost records is long.
const RECORD_BYTES_MAX: &str = "16777216";

/// Makes the topics of windows and of counted offsets, if they aren't there. That of windows keeps
/// its records as long as the brokers' default says, the other one the last record of each stream.
///
/// # Errors
/// The brokers refuse them.
pub fn make_own_topics(config: &ReceiveConfig) -> Result<()> {
    let kafka = &config.kafka;
    make(config, &kafka.windows_topic(), &[("max.message.bytes", RECORD_BYTES_MAX)])?;
    let options = [("max.message.bytes", RECORD_BYTES_MAX), ("cleanup.policy", "compact")];
    make(config, &kafka.counted_topic(), &options)
}

fn make(config: &ReceiveConfig, name: &str, options: &[(&str, &str)]) -> Result<()> {
    let kafka = &config.kafka;
    let consumer = inquirer(&kafka.client().config()?)?;
    if partitions_within(Duration::ZERO, &consumer, name, &kafka.brokers).is_ok() {
        return Ok(());
    }
    let admin: AdminClient<Logged> = kafka
        .client()
        .config()?
        .create_with_context(Logged::default())
        .map_err(wrong_properties)?;
    let topic = NewTopic::new(name, 1, TopicReplication::Fixed(-1));
    let topic = options.iter().fold(topic, |topic, (option, value)| topic.set(option, value));
    let timeout = AdminOptions::new().operation_timeout(Some(TIMEOUT));
    let made = futures_executor::block_on(admin.create_topics([&topic], &timeout));
    match made.with_context(|| format!("can't make topic {name:?}"))?.pop() {
        None | Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => {
            // It is written and read next.
            partitions_within(SILENCE, &consumer, name, &kafka.brokers)?;
            tracing::info!("made topic {name:?}");
            Ok(())
        }
        Some(Err((_, code))) => bail!("can't make topic {name:?}: {code}"),
    }
}

/// Reads the offsets that earlier receivers have counted, to the end of their topic.
///
/// # Errors
/// The topic can't be read, or has a record of another program.
pub fn read_counted(config: &ReceiveConfig) -> Result<Counted> {
    let (kafka, name) = (&config.kafka, config.kafka.counted_topic());
    let mut client = kafka.client().config()?;
    // A group is needed for the client's queue. It commits nothing.
    let own = [
        ("group.id", config.name.as_str()),
        ("enable.auto.commit", "false"),
        ("isolation.level", "read_committed"),
        ("enable.partition.eof", "true"),
    ];
    own.into_iter().for_each(|(key, value)| _ = client.set(key, value));
    let consumer = inquirer(&client)?;
    let mut open: BTreeSet<i32> =
        partitions(&consumer, &name, &kafka.brokers)?.into_iter().collect();
    let mut list = TopicPartitionList::new();
    for partition in &open {
        list.add_partition_offset(&name, *partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    let mut counted = Counted::default();
    let mut deadline = Instant::now() + SILENCE;
    while !open.is_empty() {
        if Instant::now() >= deadline {
            let reason = consumer.context().reason();
            bail!("reading topic {name:?} failed: no record for {SILENCE:?}{reason}");
        }
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Err(KafkaError::PartitionEOF(partition))) => _ = open.remove(&partition),
            Some(Err(error)) => tracing::warn!("reading topic {name:?}: {error}"),
            Some(Ok(message)) => {
                deadline = Instant::now() + SILENCE;
                let Some(value) = message.payload() else { continue };
                let stored: Stored = serde_json::from_slice(value).map_err(|error| {
                    anyhow!(
                        "topic {name:?} has a record of another program at offset {}: {error}. \
                         Name another `counted_topic`",
                        message.offset()
                    )
                })?;
                counted.restore(stored.stream, stored.counted);
            }
        }
    }
    Ok(counted)
}
