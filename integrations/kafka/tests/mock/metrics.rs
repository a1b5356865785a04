//! Metrics of both programs.

use crate::cluster::{Cluster, Sent};
use crate::process::Bridge;
use crate::receiving::Receiving;
use crate::scrape::{of, wait_until};
use crate::send::config;
use anyhow::{Result, ensure};
use std::sync::atomic::Ordering::Relaxed;

fn records<'a>(number: usize, value: &'a [u8]) -> Vec<Sent<'a>> {
    let record = |index: usize| Sent {
        partition: (index % 2) as i32,
        timestamp_ms: Some(1_700_000_000_000 + index as i64),
        value: Some(value),
        ..Sent::default()
    };
    (0..number).map(record).collect()
}

/// A receiver that takes no window for a while: the partitions are paused, and memory is bounded.
#[test]
fn send__a_slow_receiver_pauses_partitions() -> Result<()> {
    const RECORDS: f64 = 4_000.0;
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 2)?;
    let receiving = Receiving::at_own_address()?;
    let sections = "metrics = \"127.0.0.1:0\"\n[window]\nrecords = 100\nmemory_max = \"256KiB\"\n\
                    idle = \"200ms\"\n[sampling]\nmsr = 1.0\n";
    let path = config(folder.path(), &cluster, &receiving.address.to_string(), sections)?;
    let mut bridge = Bridge::start(folder.path(), "send", &["send", path.to_str().unwrap()])?;
    bridge.wait_for_log("sending windows", crate::process::TIMEOUT)?;
    // The hello was answered. From here on no window is.
    receiving.hold.store(true, Relaxed);
    cluster.produce("readings", &records(8_000, &[7; 1_000]))?;
    let both = |value: &dyn Fn(i32) -> bool| value(0) && value(1);
    let metrics = wait_until(&bridge, |metrics| {
        both(&|partition| {
            of(metrics, "paused", partition) == Some(1.0)
                && of(metrics, "lag_records", partition) == Some(RECORDS)
        })
    })?;
    let sum = |name| of(&metrics, name, 0).unwrap() + of(&metrics, name, 1).unwrap();
    // A sixteenth may come between two looks at the memory, and a record.
    assert!(sum("held_bytes") <= f64::from(256 << 10) * 17.0 / 16.0 + 1_100.0, "{metrics:#?}");
    assert!(sum("unconfirmed_windows") >= 1.0, "{metrics:#?}");
    for partition in [0, 1] {
        let of = |name| of(&metrics, name, partition).unwrap();
        assert!(of("records_total") < RECORDS, "{metrics:#?}");
        assert_eq!(of("windows_confirmed_total"), 0.0);
    }
    receiving.hold.store(false, Relaxed);
    let metrics = wait_until(&bridge, |metrics| {
        both(&|partition| {
            of(metrics, "records_total", partition) == Some(RECORDS)
                && of(metrics, "lag_records", partition) == Some(0.0)
        })
    })?;
    for partition in [0, 1] {
        let of = |name| of(&metrics, name, partition).unwrap();
        // Some windows closed early, to bound memory.
        let closed = of("windows_closed_total");
        assert!(closed >= RECORDS / 100.0, "{closed}");
        for (name, expected) in [
            ("windows_confirmed_total", closed),
            ("confirmation_seconds_count", closed),
            ("paused", 0.0),
            ("held_bytes", 0.0),
            ("unconfirmed_windows", 0.0),
            ("late_records_total", 0.0),
            ("refused_records_total", 0.0),
            ("failures_total", 0.0),
        ] {
            assert_eq!(of(name), expected, "{name} {partition}");
        }
        assert!(of("since_confirmation_seconds") >= 0.0);
    }
    // Addresses are no labels.
    ensure!(!metrics.keys().any(|name| name.contains("127.0.0.1")), "{metrics:#?}");
    bridge.terminate()?;
    let (seen, _) = receiving.end()?;
    assert_eq!(seen.groups["rest"], (8_000, 8_000));
    Ok(())
}

#[test]
fn receive__counts_windows_of_each_stream() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 2)?;
    for (topic, partitions) in [("copy", 2), ("copy.windows", 1), ("copy.counted", 1)] {
        cluster.mock()?.create_topic(topic, partitions, 1)?;
    }
    let path = folder.path().join("receive.toml");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nname = \"copy\"\nmetrics = \"127.0.0.1:0\"\n\
         [atp]\ndaemon = false\n[kafka]\nbrokers = \"{}\"\ntopic = \"copy\"\n",
        cluster.brokers()?
    );
    std::fs::write(&path, text)?;
    let mut receiver =
        Bridge::start(folder.path(), "receive", &["receive", path.to_str().unwrap()])?;
    receiver.wait_for_log("receiving windows", crate::process::TIMEOUT)?;
    let log = receiver.log();
    let address = log.split_once("address=").unwrap().1.split_whitespace().next().unwrap();
    cluster.produce("readings", &records(2_000, b"a value"))?;
    let sections = "[window]\nrecords = 100\n[sampling]\nmsr = 1.0\n";
    let path = config(folder.path(), &cluster, address, sections)?;
    let path = path.to_str().unwrap();
    Bridge::start(folder.path(), "send", &["send", path, "--until-end"])?.wait()?;
    let metrics = wait_until(&receiver, |metrics| {
        metrics["atp_kafka_receive_windows_total"] == 20.0
            && metrics["atp_kafka_receive_memory_bytes"] == 0.0
    })?;
    for (name, expected) in [
        ("records_total", 2_000.0),
        ("lost_records_total", 0.0),
        ("skipped_offsets_total", 0.0),
        ("malformed_senders_total", 0.0),
        ("failed_transactions_total", 0.0),
        ("other_streams_windows_total", 0.0),
        ("memory_max_bytes", f64::from(512 << 20)),
    ] {
        assert_eq!(metrics[&format!("atp_kafka_receive_{name}")], expected, "{name}");
    }
    for partition in [0, 1] {
        let of = |name: &str| {
            let name = format!("atp_kafka_receive_stream_{name}{{");
            let labels = format!("group=\"bridge\",topic=\"readings\",partition=\"{partition}\"}}");
            let is_it = |(key, _): &(&String, _)| key.starts_with(&name) && key.ends_with(&labels);
            *metrics.iter().find(is_it).unwrap_or_else(|| panic!("{name}: {metrics:#?}")).1
        };
        assert_eq!((of("windows_total"), of("last_window")), (10.0, 9.0));
        assert_eq!((of("records_total"), of("lost_records_total")), (1_000.0, 0.0));
    }
    receiver.terminate()
}
