//! Offsets that move: records that expire, and topics that are made again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_executor::block_on;
use kafka_broker::Broker;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

use crate::both_ways::read;
use crate::process::Bridge;

const LIMIT: Duration = Duration::from_secs(120);

pub fn records_that_expire_or_are_of_another_topic_are_told(jars: &Path) -> Result<()> {
    let broker = Broker::builder(jars).start()?;
    let folder = tempfile::tempdir()?;
    let admin: AdminClient<DefaultClientContext> = client(&broker).create()?;
    make(&admin, "target")?;
    let configs = configs(&broker, folder.path())?;
    let receive = configs[1].to_string_lossy().into_owned();
    let mut receiver = Bridge::start(folder.path(), "receive", &["receive", &receive])?;
    receiver.wait_for_log("receiving windows", LIMIT)?;
    let send = |name: &str| -> Result<String> {
        let path = configs[0].to_string_lossy().into_owned();
        let mut sender = Bridge::start(folder.path(), name, &["send", &path, "--until-end"])?;
        sender.wait()?;
        Ok(sender.log())
    };

    make(&admin, "source")?;
    produce(&broker, 1_000)?;
    send("first")?;
    // 300 more are there, and 200 of them expire.
    produce(&broker, 300)?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("source", 0, Offset::Offset(1_200))?;
    block_on(admin.delete_records(&list, &AdminOptions::new()))?;
    let log = send("expired")?;
    ensure!(log.contains("records have expired"), "{log}");
    let windows = windows(&broker)?;
    let sum = |name: &str| -> u64 { windows.iter().filter_map(|w| w[name].as_u64()).sum() };
    ensure!((sum("records"), sum("skipped")) == (1_100, 200), "{windows:?}");

    // Another topic of the same name begins at offset 0 again.
    block_on(admin.delete_topics(&["source"], &AdminOptions::new()))?;
    make(&admin, "source")?;
    produce(&broker, 500)?;
    send("again")?;
    let windows = self::windows(&broker)?;
    let records: u64 = windows.iter().filter_map(|w| w["records"].as_u64()).sum();
    ensure!(records == 1_600, "the new topic's records don't count: {windows:?}");
    receiver.terminate()?;
    Ok(())
}

/// The records of windows.
fn windows(broker: &Broker) -> Result<Vec<Value>> {
    let records = read(broker, "target.windows")?;
    records.iter().map(|record| Ok(serde_json::from_slice(&record.payload)?)).collect()
}

fn client(broker: &Broker) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", broker.bootstrap());
    client
}

/// Makes a topic. One of the same name may be on its way out.
fn make(admin: &AdminClient<DefaultClientContext>, topic: &str) -> Result<()> {
    let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
    let deadline = std::time::Instant::now() + LIMIT;
    loop {
        let made = block_on(admin.create_topics([&new], &AdminOptions::new()))?;
        match made.into_iter().next().context("no answer")? {
            Ok(_) => return Ok(()),
            Err((_, code)) => ensure!(std::time::Instant::now() < deadline, "{topic}: {code}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn produce(broker: &Broker, records: usize) -> Result<()> {
    let producer: ThreadedProducer<_> = client(broker).create()?;
    for _ in 0..records {
        let record: BaseRecord<'_, str, str> = BaseRecord::to("source").payload("a value");
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(LIMIT)?;
    Ok(())
}

fn configs(broker: &Broker, folder: &Path) -> Result<[PathBuf; 2]> {
    let bootstrap = broker.bootstrap();
    // Of the loopback, where no other test receives.
    let address = "127.2.255.1:4747";
    let send = format!(
        "peer = \"{address}\"\n[window]\nrecords = 100\n[sampling]\nmsr = 0.8\n[atp]\ndaemon = false\n\
         [kafka]\nbrokers = \"{bootstrap}\"\ngroup = \"g\"\ntopics = [\"source\"]\n"
    );
    let receive = format!(
        "listen = \"{address}\"\nname = \"offsets\"\n[atp]\ndaemon = false\n\
         [kafka]\nbrokers = \"{bootstrap}\"\ntopic = \"target\"\n"
    );
    let paths = ["send.toml", "receive.toml"].map(|name| folder.join(name));
    std::fs::write(&paths[0], send)?;
    std::fs::write(&paths[1], receive)?;
    Ok(paths)
}
