//! Offsets that move: records that expire, and topics that are made again.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use futures_executor::block_on;
use kafka_broker::Broker;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::process::Bridge;
use crate::topics::{self, LIMIT, client, make_one};

pub fn records_that_expire_or_are_of_another_topic_are_told(jars: &Path) -> Result<()> {
    let broker = Broker::builder(jars).start()?;
    let folder = tempfile::tempdir()?;
    let client = client(&broker);
    let admin: AdminClient<DefaultClientContext> = client.create()?;
    make_one(&client, "target")?;
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

    make_one(&client, "source")?;
    produce(&client, 1_000)?;
    send("first")?;
    // 300 more are there, and 200 of them expire.
    produce(&client, 300)?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("source", 0, Offset::Offset(1_200))?;
    block_on(admin.delete_records(&list, &AdminOptions::new()))?;
    let log = send("expired")?;
    ensure!(log.contains("records have expired"), "{log}");
    let windows = topics::windows(&client, "target")?;
    let sum = |name: &str| -> u64 { windows.iter().filter_map(|w| w[name].as_u64()).sum() };
    ensure!((sum("records"), sum("skipped")) == (1_100, 200), "{windows:?}");

    // Another topic of the same name begins at offset 0 again.
    block_on(admin.delete_topics(&["source"], &AdminOptions::new()))?;
    make_one(&client, "source")?;
    produce(&client, 500)?;
    send("again")?;
    let windows = topics::windows(&client, "target")?;
    let records: u64 = windows.iter().filter_map(|w| w["records"].as_u64()).sum();
    ensure!(records == 1_600, "the new topic's records don't count: {windows:?}");
    receiver.terminate()?;
    Ok(())
}

fn produce(client: &ClientConfig, records: usize) -> Result<()> {
    let producer: ThreadedProducer<_> = client.create()?;
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
