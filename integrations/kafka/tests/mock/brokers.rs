//! Records and topics as brokers may have them.

use crate::cluster::{Cluster, Sent};
use crate::lag::commit_by_hand;
use crate::process::Bridge;
use crate::receiving::{Outcome, Receiving, Seen};
use crate::scrape::{of, wait_until};
use crate::send::config;
use anyhow::Result;
use approx_windows::Record;
use std::collections::BTreeMap;

const BEGIN_MS: i64 = 1_700_000_000_000;

fn record(index: i64, value: Option<&[u8]>) -> Sent<'_> {
    Sent { timestamp_ms: Some(BEGIN_MS + index), key: Some(b"key"), value, ..Sent::default() }
}

/// Sends all records of partition 0 that the cluster has, and returns what was received.
fn carry(cluster: &Cluster, sections: &str) -> Result<Seen> {
    let folder = tempfile::tempdir()?;
    let receiving = Receiving::at_own_address()?;
    let path = config(folder.path(), cluster, &receiving.address.to_string(), sections)?;
    let path = path.to_str().unwrap();
    Bridge::start(folder.path(), "send", &["send", path, "--until-end"])?.wait()?;
    Ok(receiving.end()?.0)
}

fn offsets(seen: &Seen) -> &BTreeMap<u64, Outcome> {
    &seen.offsets[&("readings".to_owned(), 0)]
}

fn received(seen: &Seen, offset: u64) -> &Record {
    match &offsets(seen)[&offset] {
        Outcome::Received(record) => record,
        Outcome::Lost => panic!("offset {offset} is lost"),
    }
}

#[test]
fn send__headers_may_have_names_that_are_no_text() -> Result<()> {
    let cluster = Cluster::new("readings", 1)?;
    let headers: &[(&str, &[u8])] = &[("severity", b"error"), ("", b"")];
    let sent = Sent { headers, ..record(0, Some(b"value")) };
    cluster.produce_with_header("readings", &sent, b"\xff\xfe", b"1")?;
    let seen = carry(&cluster, "window = { records = 5 }\nsampling = { msr = 1.0 }\n")?;
    let headers: Vec<_> = received(&seen, 0).headers.clone();
    let expected = [("severity", &b"error"[..]), ("", b""), ("(not UTF-8)", b"1")];
    let expected = expected.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    assert_eq!(headers, expected);
    Ok(())
}

/// Tombstones arrive whatever the MSR.
#[test]
fn send__tombstones_are_exact() -> Result<()> {
    let cluster = Cluster::new("readings", 1)?;
    let value = |index| (index % 3 != 0).then_some(&b"value"[..]);
    cluster.produce(
        "readings",
        &(0..900).map(|index| record(index, value(index))).collect::<Vec<_>>(),
    )?;
    let seen = carry(&cluster, "window = { records = 100 }\nsampling = { msr = 0.0 }\n")?;
    assert_eq!(offsets(&seen).len(), 900);
    assert_eq!(seen.groups["exact"], (300, 300));
    assert!((0..900).step_by(3).all(|offset| received(&seen, offset).value.is_none()));
    Ok(())
}

#[test]
fn send__batches_may_be_compressed() -> Result<()> {
    let cluster = Cluster::new("readings", 1)?;
    let codecs = ["gzip", "snappy", "lz4", "zstd"];
    let values: Vec<String> = (0..200).map(|index| format!("value {index} ").repeat(9)).collect();
    for codec in codecs {
        let records = values.iter().enumerate();
        let records: Vec<_> =
            records.map(|(index, value)| record(index as i64, Some(value.as_bytes()))).collect();
        cluster.produce_compressed("readings", &records, codec)?;
    }
    let seen = carry(&cluster, "window = { records = 100 }\nsampling = { msr = 1.0 }\n")?;
    assert_eq!(offsets(&seen).len(), 800);
    for offset in 0..800 {
        let expected = values[offset as usize % 200].as_bytes();
        assert_eq!(received(&seen, offset).value.as_deref(), Some(expected), "{offset}");
    }
    Ok(())
}

/// A record of several packets arrives. One beyond the limit is named, and the others arrive.
#[test]
fn send__long_records() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 1)?;
    let (long, too_long) = (vec![3; 60_000], vec![4; 70_000]);
    let records: Vec<_> = (0..300)
        .map(|index| match index {
            100 => record(index, Some(&long)),
            200 => record(index, Some(&too_long)),
            _ => record(index, Some(b"value")),
        })
        .collect();
    cluster.produce("readings", &records)?;
    let receiving = Receiving::at_own_address()?;
    let sections = "metrics = \"127.0.0.1:0\"\n[window]\nrecords = 150\n\
                    record_bytes_max = \"64KiB\"\n[sampling]\nmsr = 1.0\n";
    let path = config(folder.path(), &cluster, &receiving.address.to_string(), sections)?;
    let mut bridge = Bridge::start(folder.path(), "send", &["send", path.to_str().unwrap()])?;
    let metrics =
        wait_until(&bridge, |metrics| of(metrics, "windows_confirmed_total", 0) == Some(2.0))?;
    assert_eq!(of(&metrics, "refused_records_total", 0), Some(1.0));
    bridge.terminate()?;
    assert!(bridge.log().contains("records=1 first=200"), "{}", bridge.log());
    let (seen, _) = receiving.end()?;
    assert_eq!(received(&seen, 100).value.as_deref(), Some(&long[..]));
    assert!(!offsets(&seen).contains_key(&200));
    assert!(
        (0..300)
            .filter(|offset| *offset != 200)
            .all(|offset| { received(&seen, offset).offset == offset })
    );
    let refused: Vec<_> = seen.windows.iter().map(|window| window.refused.to_string()).collect();
    assert_eq!(refused, ["", "200"]);
    Ok(())
}

/// An event time of the year 292 million closes no window, and makes no later record late.
#[test]
fn send__a_poison_record_closes_no_window() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 1)?;
    let mut records: Vec<_> = (0..3_000).map(|index| record(index, Some(b"value"))).collect();
    records[1_500].timestamp_ms = Some(i64::MAX);
    records[1_501].timestamp_ms = Some(i64::MAX - 1);
    cluster.produce("readings", &records)?;
    let receiving = Receiving::at_own_address()?;
    let sections = "metrics = \"127.0.0.1:0\"\n[window]\nlength = \"1s\"\nidle = \"200ms\"\n\
                    [sampling]\nmsr = 0.0\n";
    let path = config(folder.path(), &cluster, &receiving.address.to_string(), sections)?;
    let mut bridge = Bridge::start(folder.path(), "send", &["send", path.to_str().unwrap()])?;
    let metrics =
        wait_until(&bridge, |metrics| of(metrics, "windows_confirmed_total", 0) == Some(3.0))?;
    assert_eq!(of(&metrics, "untimed_records_total", 0), Some(2.0));
    assert_eq!(of(&metrics, "late_records_total", 0), Some(0.0));
    bridge.terminate()?;
    // One line for both.
    let lines = bridge.log();
    assert_eq!(lines.matches("without an event time").count(), 1, "{lines}");
    let (seen, _) = receiving.end()?;
    let spans: Vec<_> = seen.windows.iter().map(|window| window.span_ms.unwrap()).collect();
    let expected =
        [0, 1, 2].map(|second| (BEGIN_MS + second * 1_000, BEGIN_MS + (second + 1) * 1_000));
    assert_eq!(spans, expected);
    assert_eq!(received(&seen, 1_500).timestamp_ms, None);
    assert_eq!(offsets(&seen).len(), 3_000);
    Ok(())
}

/// The group has committed an offset that the new topic doesn't have.
#[test]
fn send__a_topic_that_was_made_again_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 1)?;
    commit_by_hand(&cluster, 0, 1_000, "")?;
    cluster.produce(
        "readings",
        &(0..10).map(|index| record(index, Some(b"value"))).collect::<Vec<_>>(),
    )?;
    let receiving = Receiving::at_own_address()?;
    let sections = "window = { records = 5 }\nsampling = { msr = 1.0 }\n";
    let path = config(folder.path(), &cluster, &receiving.address.to_string(), sections)?;
    let text = std::fs::read_to_string(&path)?.replace("\"bridge\"", "\"by-hand\"");
    std::fs::write(&path, text)?;
    let mut bridge = Bridge::start(folder.path(), "send", &["send", path.to_str().unwrap()])?;
    let log = bridge.wait_for_failure()?;
    let expected = "error: readings [0] ends at offset 10, before offset 1000 up to which it was \
                    read: the topic was deleted and created again, or has lost records. Start the \
                    bridge again if it was created again; else give the bridge another `group`";
    assert_eq!(log.lines().last(), Some(expected), "{log}");
    assert!(receiving.end()?.0.windows.is_empty());
    Ok(())
}
