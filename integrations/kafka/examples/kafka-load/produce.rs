//! Writes records at a rate: an open loop, in which each record is due at its event time.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::line::{Line, Produced, Truth};
use crate::records::{Drawn, Records};
use crate::{now_ms, say, window_of};

/// The time between two looks at the clock.
const TICK: Duration = Duration::from_millis(2);
const FLUSH_MAX: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    brokers: String,
    #[arg(long)]
    topic: String,
    #[arg(long)]
    partitions: u32,
    /// Records per second of all partitions
    #[arg(long)]
    records_per_s: f64,
    /// The share of the records that is written
    #[arg(long)]
    share: f64,
    /// Bytes of a record's value
    #[arg(long)]
    bytes: usize,
    #[arg(long)]
    seed: u64,
    /// The first event time
    #[arg(long)]
    begin_ms: i64,
    /// The end of event times
    #[arg(long)]
    end_ms: i64,
    #[arg(long)]
    window_ms: u64,
}

pub fn main(args: &Args) -> Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &args.brokers).set("acks", "1").set("linger.ms", "5");
    config.set("queue.buffering.max.messages", "1000000");
    let producer: BaseProducer = config.create()?;
    // Before the first record is due: a client asks for the partitions' leaders first.
    producer.client().fetch_metadata(Some(&args.topic), FLUSH_MAX).context("no broker answers")?;
    let per_s = args.records_per_s / f64::from(args.partitions);
    let records = |partition| {
        Records::new(args.seed, partition, args.share, args.bytes, args.begin_ms, per_s)
    };
    let mut partitions: Vec<Records> = (0..args.partitions).map(records).collect();
    let mut truths = Truths { window_ms: args.window_ms, sums: BTreeMap::new() };
    let mut produced = Produced::default();
    // Event times end before `end_ms`.
    let last_ms = (args.end_ms - 1) as f64;
    loop {
        let now = now_ms();
        for (partition, records) in (0..).zip(&mut partitions) {
            while let Some(drawn) = records.due(now.min(last_ms)) {
                produced.drawn += 1;
                truths.add(partition, &drawn)?;
                let Some(value) = &drawn.value else { continue };
                send(&producer, &args.topic, partition, drawn.time_ms, value)?;
                produced.written += 1;
                if produced.written.is_multiple_of(64) {
                    let behind_ms = now_ms() - drawn.time_ms as f64;
                    produced.behind_ms_max = produced.behind_ms_max.max(behind_ms);
                }
            }
        }
        producer.poll(Duration::ZERO);
        if now >= args.end_ms as f64 {
            break;
        }
        thread::sleep(TICK);
    }
    producer.flush(FLUSH_MAX).context("the broker doesn't take the last records")?;
    truths.finish()?;
    say(&Line::Produced(produced))
}

fn send(
    producer: &BaseProducer,
    topic: &str,
    partition: u32,
    time_ms: i64,
    value: &[u8],
) -> Result<()> {
    let mut record: BaseRecord<'_, (), [u8]> =
        BaseRecord::to(topic).partition(partition as i32).timestamp(time_ms).payload(value);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                producer.poll(TICK);
            }
            Err((error, _)) => bail!("can't write to {topic}: {error}"),
        }
    }
}

/// The right answers, from all records that were drawn.
struct Truths {
    window_ms: u64,
    /// The open window of each partition: number, count and sum.
    sums: BTreeMap<u32, (i64, u64, f64)>,
}

impl Truths {
    fn add(&mut self, partition: u32, drawn: &Drawn) -> Result<()> {
        let number = window_of(drawn.time_ms, self.window_ms);
        let sum = self.sums.entry(partition).or_insert((number, 0, 0.0));
        if sum.0 != number {
            let ended = std::mem::replace(sum, (number, 0, 0.0));
            say(&truth(partition, ended))?;
        }
        sum.1 += 1;
        sum.2 += drawn.number;
        Ok(())
    }

    fn finish(self) -> Result<()> {
        self.sums.into_iter().try_for_each(|(partition, sum)| say(&truth(partition, sum)))
    }
}

fn truth(partition: u32, (window, count, sum): (i64, u64, f64)) -> Line {
    Line::Truth(Truth { partition, window, count, mean: sum / count as f64 })
}
