//! A plain consumer: reads a topic from its broker, and answers windows.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message};

use crate::answer::Sums;
use crate::line::Line;
use crate::{records, say};

/// The longest wait for a record.
const POLL: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    brokers: String,
    #[arg(long)]
    topic: String,
    #[arg(long)]
    partitions: usize,
    #[arg(long)]
    window_ms: u64,
    /// The share of the records that the topic has
    #[arg(long)]
    share: f64,
}

pub fn main(args: &Args) -> Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &args.brokers).set("group.id", "plain");
    config.set("auto.offset.reset", "earliest");
    // As the bridge has it.
    config.set("isolation.level", "read_committed").set("queued.max.messages.kbytes", "16384");
    let consumer: BaseConsumer = config.create()?;
    consumer.subscribe(&[&args.topic])?;
    let mut is_ready = false;
    let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
    loop {
        if !is_ready && consumer.assignment()?.count() == args.partitions {
            is_ready = true;
            say(&Line::Ready)?;
        }
        let Some(message) = consumer.poll(POLL) else { continue };
        let message = message.map_err(|error| anyhow!("can't read {}: {error}", args.topic))?;
        let time_ms = message.timestamp().to_millis().context("a record without event time")?;
        let number = records::number(message.payload()).context("a record without a number")?;
        let partition = message.partition() as u32;
        let new = || Sums::new(partition, args.window_ms, args.share);
        for answer in sums.entry(partition).or_insert_with(new).add(time_ms, number) {
            say(&Line::Answer(answer))?;
        }
    }
}
