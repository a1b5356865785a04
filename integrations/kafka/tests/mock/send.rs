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
