//! `atp-kafka send`.

use crate::cluster::{Cluster, Sent};
use crate::process::Bridge;
use crate::receiving::{Outcome, Receiving};
use anyhow::Result;
use std::{fmt::Write as _, path::PathBuf};

/// Writes a configuration. `sections` follow `peer`.
pub fn config(
    folder: &std::path::Path,
    cluster: &Cluster,
    peer: &str,
    sections: &str,
) -> Result<PathBuf> {
    let mut text = format!("peer = \"{peer}\"\n{sections}\n");
    write!(
        text,
        "[atp]\ndaemon = false\npeer_timeout = \"2s\"\n\
         [kafka]\nbrokers = \"{}\"\ngroup = \"bridge\"\ntopics = [\"readings\"]\n\
         [kafka.properties]\n\"session.timeout.ms\" = 3000\n\"heartbeat.interval.ms\" = 100\n\
         \"fetch.wait.max.ms\" = 20\n",
        cluster.brokers()?
    )?;
    let path = folder.join("send.toml");
    std::fs::write(&path, text)?;
    Ok(path)
}

/// The numbers of a window are 1 and 3 in turn, with the variance 1, but for the last, 100 and 300.
#[test]
fn send__as_many_records_as_an_accepted_error_needs() -> Result<()> {
    const RECORDS: u64 = 4_000;
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 1)?;
    let value = |index: u64| match index {
        0..3_500 => format!(r#"{{"t": {}}}"#, 1 + 2 * (index % 2)),
        3_500..3_600 => r#"{"u": 7}"#.to_owned(),
        _ => format!(r#"{{"t": {}}}"#, if index.is_multiple_of(40) { 300.0 } else { 1.0 }),
    };
    let values: Vec<String> = (0..RECORDS).map(value).collect();
    let values = values.iter().map(String::as_bytes);
    let records: Vec<Sent<'_>> =
        values.map(|value| Sent { value: Some(value), ..Sent::default() }).collect();
    cluster.produce("readings", &records)?;
    let receiving = Receiving::at_own_address()?;
    let sections = "[window]\nrecords = 1000\n[sampling]\nmsr = 0.1\n\
                    [sampling.accepted]\nerror = 0.05\nnumber = \"/t\"\n";
    let path = config(folder.path(), &cluster, &receiving.address.to_string(), sections)?;
    let path = path.to_str().unwrap();
    let mut bridge = Bridge::start(folder.path(), "send", &["send", path, "--until-end"])?;
    bridge.wait()?;
    assert_eq!(bridge.log().matches("a record without the `number`").count(), 1);
    let (seen, _) = receiving.end()?;
    assert!(seen.short.is_empty(), "{:?}", seen.short);
    let sent: Vec<u64> = seen.windows.iter().map(|window| window.groups[1].sent).collect();
    // 0.05 of 2, with Student's quantile of 1.97: sqrt(1/280 - 1/1000) is 0.1 / 1.97.
    const NEEDED: u64 = 280;
    assert_eq!(sent.len(), 4);
    // The first window can't be known. The second one draws as the first one needed, each record
    // with that probability: at most 6 deviations of 14.2 more than needed, but for two runs in a
    // billion.
    assert!(sent[0] > 900 && (NEEDED..=NEEDED + 86).contains(&sent[1]), "{sent:?}");
    // Rare large numbers need more than the window before.
    assert!(sent[3] > 800, "{sent:?}");
    Ok(())
}

#[test]
fn send__each_record_is_received_or_known_to_be_lost() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::new("readings", 2)?;
    let long = vec![5; 4_000];
    let values: Vec<[u8; 4]> = (0..3_000u32).map(u32::to_be_bytes).collect();
    let record = |(index, value): (usize, &'_ [u8; 4])| {
        let value: &[u8] = if index % 40 == 0 { &long } else { value };
        let headers: &[(&str, &[u8])] =
            if index % 10 == 0 { &[("severity", b"error")] } else { &[("severity", b"info")] };
        // Every 100th is a tombstone.
        let value = (index % 100 != 7).then(|| value.to_vec());
        (index, value, headers)
    };
    let drawn: Vec<_> = values.iter().enumerate().map(record).collect();
    let records: Vec<Sent<'_>> = drawn
        .iter()
        .map(|(index, value, headers)| Sent {
            partition: (*index % 2) as i32,
            timestamp_ms: Some(1_000_000 + *index as i64),
            key: Some(b"key"),
            value: value.as_deref(),
            headers,
        })
        .collect();
    cluster.produce("readings", &records)?;
    let receiving = Receiving::at_own_address()?;
    let address = receiving.address;
    let sections = "[window]\nrecords = 400\n[sampling]\nmsr = 0.5\n\
                    [[sampling.groups]]\nname = \"alarms\"\nmsr = 1.0\n\
                    header = \"severity\"\nvalues = [\"error\"]\n";
    let path = config(folder.path(), &cluster, &address.to_string(), sections)?;
    let path = path.to_str().unwrap();
    let mut bridge = Bridge::start(folder.path(), "send", &["send", path, "--until-end"])?;
    bridge.wait()?;
    let (seen, _) = receiving.end()?;
    assert!(seen.short.is_empty(), "{:?}", seen.short);
    assert_eq!(seen.groups["alarms"], (300, 300));
    assert_eq!(seen.groups["exact"], (30, 30), "tombstones");
    for partition in 0..2u32 {
        let offsets = &seen.offsets[&("readings".to_owned(), partition)];
        assert_eq!(offsets.len(), 1_500);
        for (offset, outcome) in offsets {
            let index = *offset as usize * 2 + partition as usize;
            let (_, value, headers) = &drawn[index];
            let Outcome::Received(record) = outcome else { continue };
            assert_eq!(&record.value, value);
            assert_eq!(record.timestamp_ms, Some(1_000_000 + index as i64));
            assert_eq!(record.headers[0].1.as_deref(), Some(headers[0].1));
        }
    }
    // Once more: everything is committed.
    let receiving = Receiving::start(address, Default::default())?;
    Bridge::start(folder.path(), "again", &["send", path, "--until-end"])?.wait()?;
    assert!(receiving.end()?.0.offsets.is_empty());
    Ok(())
}
