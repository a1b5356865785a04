//! `atp-kafka lag`.

use crate::cluster::{Cluster, Sent};
use crate::process::{Bridge, run_to_end};
use crate::receiving::Receiving;
use crate::send::config;
use anyhow::{Result, ensure};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer},
};
use serde_json::Value;

fn produce(cluster: &Cluster, records: usize, from_ms: i64) -> Result<()> {
    let record = |index: usize| Sent {
        partition: (index % 2) as i32,
        timestamp_ms: Some(from_ms + index as i64),
        value: Some(b"a value"),
        ..Sent::default()
    };
    cluster.produce("readings", &(0..records).map(record).collect::<Vec<_>>())
}

/// Commits as another program does. A text that begins with `?` gets a byte there that isn't UTF-8.
pub fn commit_by_hand(cluster: &Cluster, partition: i32, offset: i64, text: &str) -> Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.brokers()?).set("group.id", "by-hand");
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    let mut element = list.add_partition("readings", partition);
    element.set_offset(Offset::Offset(offset))?;
    element.set_metadata(text);
    if text.starts_with('?') {
        // SAFETY: the list has one element, and that has its own copy of the text.
        unsafe { (*(*list.ptr()).elems).metadata.cast::<u8>().write(0xff) };
    }
    consumer.commit(&list, CommitMode::Sync)?;
    Ok(())
}

#[test]
fn lag__is_that_of_each_partition() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 3)?;
    let receiving = Receiving::at_own_address()?;
    let peer = receiving.address.to_string();
    let sections = "[window]\nlength = \"1s\"\n[sampling]\nmsr = 1.0\n";
    let path = config(folder.path(), &cluster, &peer, sections)?;
    let path = path.to_str().unwrap();
    produce(&cluster, 5_000, 1_700_000_000_000)?;
    Bridge::start(folder.path(), "send", &["send", path, "--until-end"])?.wait()?;
    receiving.end()?;
    produce(&cluster, 200, 1_700_000_009_000)?;

    // Neither the bridge nor the receiver runs.
    let ended = run_to_end(folder.path(), &["lag", path, "--json"], &[])?;
    ensure!(ended.is_good && ended.stderr.is_empty(), "{}", ended.stderr);
    let lag: Value = serde_json::from_str(&ended.stdout)?;
    assert_eq!((&lag["group"], &lag["rule"]), (&"bridge".into(), &"time:1000:0".into()));
    assert_eq!(lag["lag"], 200);
    for partition in [0, 1] {
        let row = &lag["partitions"][partition];
        assert_eq!(row["topic"], "readings");
        for (name, expected) in [
            ("partition", partition as i64),
            ("start", 0),
            ("end", 2_600),
            ("committed", 2_500),
            ("lag", 100),
            ("window", 1_700_000_004),
            // The end of the run has closed a part of the last window.
            ("part", 1),
            ("epoch", 1),
            ("confirmed_until_ms", 1_700_000_004_000),
        ] {
            assert_eq!(row[name], expected, "{name}: {row}");
        }
        assert!(row["committed_at_ms"].as_u64() <= lag["at_ms"].as_u64(), "{lag}");
        assert_eq!(row["notes"], serde_json::json!([]));
    }
    let empty = &lag["partitions"][2];
    assert_eq!((&empty["committed"], &empty["lag"]), (&0.into(), &0.into()));
    assert!(empty["notes"][0].as_str().unwrap().contains("no window is confirmed"), "{empty}");

    let ended = run_to_end(folder.path(), &["lag", path], &[])?;
    ensure!(ended.is_good, "{}", ended.stderr);
    for expected in ["next window", "2023-11-14T22:13:24Z", "readings [2]: no window is confirmed"]
    {
        ensure!(ended.stdout.contains(expected), "{expected}: {}", ended.stdout);
    }
    // The same offsets, cut otherwise.
    let text = std::fs::read_to_string(path)?.replace("length = \"1s\"", "records = 100");
    std::fs::write(path, text)?;
    let ended = run_to_end(folder.path(), &["lag", path], &[])?;
    let note = "readings [0]: committed under the rule time:1000:0, not records:100";
    ensure!(ended.stdout.contains(note), "{}", ended.stdout);
    Ok(())
}

#[test]
fn lag__says_that_another_program_committed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 2)?;
    produce(&cluster, 100, 0)?;
    commit_by_hand(&cluster, 0, 17, "by hand")?;
    commit_by_hand(&cluster, 1, 20, "? not UTF-8")?;
    let receiving = Receiving::at_own_address()?;
    let peer = receiving.address.to_string();
    let sections = "[window]\nrecords = 10\n[sampling]\nmsr = 1.0\n";
    let path = config(folder.path(), &cluster, &peer, sections)?;
    let text = std::fs::read_to_string(&path)?.replace("\"bridge\"", "\"by-hand\"");
    std::fs::write(&path, text)?;
    let path = path.to_str().unwrap();
    let ended = run_to_end(folder.path(), &["lag", path], &[])?;
    ensure!(ended.is_good, "{}", ended.stderr);
    for expected in [
        "readings [0]: committed by another program, with the text \"by hand\"",
        "readings [1]: committed by another program, with the text \"\u{fffd} not UTF-8\"",
    ] {
        ensure!(ended.stdout.contains(expected), "{expected}: {}", ended.stdout);
    }
    // A bridge goes on at these offsets.
    Bridge::start(folder.path(), "send", &["send", path, "--until-end"])?.wait()?;
    let (seen, _) = receiving.end()?;
    let known = |partition| seen.offsets[&("readings".to_owned(), partition)].len();
    assert_eq!((known(0), known(1)), (33, 30));
    Ok(())
}
