//! Makes a topic, of as many partitions as the broker gives topics that a client uses first.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    brokers: String,
    #[arg(long)]
    topic: String,
    #[arg(long)]
    partitions: usize,
}

pub fn main(args: &Args) -> Result<()> {
    // A consumer's metadata request makes no topic.
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &args.brokers).create()?;
    let deadline = Instant::now() + LIMIT;
    loop {
        let metadata = producer.client().fetch_metadata(Some(&args.topic), LIMIT);
        let metadata = metadata.context("no broker answers")?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        if partitions.filter(|partition| partition.leader() >= 0).count() == args.partitions {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "topic {} has no leaders in time", args.topic);
        std::thread::sleep(POLL);
    }
}
