//! Three brokers, of which the leaders of the bridge's partitions are killed and come back.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kafka_broker::Broker;
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

use crate::process::Bridge;
use crate::topics::{LIMIT, counted, make};

const PARTITIONS: i32 = 2;
const BATCH: u64 = 2_000;
/// The leaders that are killed: first the one where the bridge reads and writes, then the
/// coordinator of its transactions.
const TOPICS: [&str; 2] = ["source", "__transaction_state"];

pub fn a_bridge_outlives_the_leaders_of_its_partitions(jars: &Path) -> Result<()> {
    let mut brokers = Broker::builder(jars)
        // A killed broker loses its partitions after this time. The brokers that live miss no
        // session, also where other programs have the processors for seconds.
        .property("broker.session.timeout.ms", "6000")
        .property("broker.heartbeat.interval.ms", "500")
        .property("controller.quorum.fetch.timeout.ms", "4000")
        .start_cluster(3)?;
    let mut client = ClientConfig::new();
    let bootstrap: Vec<_> = brokers.iter().map(Broker::bootstrap).collect();
    client.set("bootstrap.servers", bootstrap.join(","));
    // The first broker leads the first partitions of both, the second one the others.
    for topic in ["source", "target"] {
        let replicas = TopicReplication::Variable(&[&[1, 2, 3], &[2, 3, 1]]);
        make(&client, NewTopic::new(topic, PARTITIONS, replicas))?;
        bootstrap.iter().try_for_each(|broker| wait_until_known(broker, topic))?;
    }

    let folder = tempfile::tempdir()?;
    let [send, receive] = configs(&bootstrap.join(","), folder.path())?;
    let mut receiver = Bridge::start(folder.path(), "receive", &["receive", &receive])?;
    receiver.wait_for_log("receiving windows", LIMIT)?;
    let mut sender = Bridge::start(folder.path(), "send", &["send", &send])?;
    sender.wait_for_log("sending windows", LIMIT)?;

    let mut records = Records::new(&client)?;
    // Also makes the topics of the coordinators.
    records.produce()?;
    records.wait_until_counted(records.produced)?;
    for topic in TOPICS {
        let why = || {
            let logs = [sender.log(), receiver.log()].join("\nthe receiver:\n");
            format!("after the leader of {topic} was killed; the sender:\n{logs}")
        };
        wait_until_replicated(&records.windows)?;
        let leader = leader(&records.windows, topic)?;
        records.produce()?;
        // The batch is on its way.
        records.wait_until_counted(records.produced - BATCH + 1)?;
        brokers[leader].kill();
        records.produce().with_context(why)?;
        records.wait_until_counted(records.produced).with_context(why)?;
        brokers[leader].restart()?;
    }
    records.produce()?;
    records.wait_until_counted(records.produced)?;
    sender.terminate()?;
    receiver.terminate()?;
    let each = records.produced / PARTITIONS as u64;
    let found = counted(&client, "target", PARTITIONS as usize)?;
    ensure!(found == [each; PARTITIONS as usize], "{found:?}, of {each} each");
    Ok(())
}

/// The records that were produced, and the windows that tell of them.
struct Records {
    producer: ThreadedProducer<DefaultProducerContext>,
    produced: u64,
    windows: BaseConsumer,
    in_windows: u64,
}

impl Records {
    fn new(client: &ClientConfig) -> Result<Records> {
        let mut config = client.clone();
        // A record that is retried isn't there twice.
        let producer = config.set("enable.idempotence", "true").create()?;
        let mut config = client.clone();
        config.set("group.id", "check").set("enable.auto.commit", "false");
        // So that it doesn't rest for long while a broker is away.
        config.set("reconnect.backoff.max.ms", "500");
        let windows: BaseConsumer = config.create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("target.windows", 0, Offset::Beginning)?;
        windows.assign(&list)?;
        Ok(Records { producer, produced: 0, windows, in_windows: 0 })
    }

    /// Writes a batch, and waits until the brokers have it.
    fn produce(&mut self) -> Result<()> {
        for number in 0..BATCH {
            let partition = (number % PARTITIONS as u64) as i32;
            let record: BaseRecord<'_, str, str> = BaseRecord::to("source").payload("a value");
            self.producer.send(record.partition(partition)).map_err(|(error, _)| error)?;
        }
        self.producer.flush(LIMIT)?;
        self.produced += BATCH;
        Ok(())
    }

    /// Waits until windows have this many records.
    fn wait_until_counted(&mut self, records: u64) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while self.in_windows < records {
            let Self { in_windows, produced, .. } = self;
            ensure!(Instant::now() < deadline, "{in_windows} of {produced} are in windows");
            // Errors say that a broker is away.
            let Some(Ok(message)) = self.windows.poll(Duration::from_millis(100)) else { continue };
            let window: Value = serde_json::from_slice(message.payload().context("empty")?)?;
            *in_windows += window["records"].as_u64().context("no records")?;
        }
        Ok(())
    }
}

/// The place of the broker that leads a topic's first partition.
fn leader(client: &BaseConsumer, topic: &str) -> Result<usize> {
    let metadata = client.fetch_metadata(Some(topic), LIMIT)?;
    let topic = metadata.topics().first().context("no topic")?;
    let node = topic.partitions().first().context("no partition")?.leader();
    Ok(usize::try_from(node - 1)?)
}

/// Waits until a broker knows a topic.
fn wait_until_known(broker: &str, topic: &str) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        // A new client asks this broker: it knows of no other one.
        let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", broker).create()?;
        let metadata = client.fetch_metadata(Some(topic), LIMIT)?;
        let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        if partitions == PARTITIONS as usize {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{broker} doesn't know {topic}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until every broker has all records, so that the next one may be killed.
fn wait_until_replicated(client: &BaseConsumer) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let metadata = client.fetch_metadata(None, LIMIT)?;
        let mut partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        if metadata.brokers().len() == 3 && partitions.all(|p| p.isr().len() == 3) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "a broker that came back isn't in sync");
        thread::sleep(Duration::from_millis(100));
    }
}

fn configs(bootstrap: &str, folder: &Path) -> Result<[String; 2]> {
    // Of the loopback, where no other test receives.
    let address = "127.2.254.1:4747";
    let send = format!(
        "peer = \"{address}\"\n[window]\nrecords = 100\nidle = \"1s\"\n[sampling]\nmsr = 0.8\n\
         [atp]\ndaemon = false\n\
         [kafka]\nbrokers = \"{bootstrap}\"\ngroup = \"g\"\ntopics = [\"source\"]\n"
    );
    let receive = format!(
        "listen = \"{address}\"\nname = \"cluster\"\n[atp]\ndaemon = false\n\
         [kafka]\nbrokers = \"{bootstrap}\"\ntopic = \"target\"\n"
    );
    let paths: [PathBuf; 2] = ["send.toml", "receive.toml"].map(|name| folder.join(name));
    std::fs::write(&paths[0], send)?;
    std::fs::write(&paths[1], receive)?;
    Ok(paths.map(|path| path.display().to_string()))
}
