//! Runs with crashes, rebalances, restarts and broker failures, drawn from a seed: each record is
//! counted once, or known to be lost.
//!
//! `ATP_SEED=n` replays one. `ATP_KAFKA_RUNS=n` makes that many, 24 without it.

use crate::cluster::{Cluster, Sent};
use crate::process::Bridge;
use crate::receiving::{Receiving, Seen, address};
use crate::send::config;
use anyhow::{Context, Result, bail, ensure};
use approx_windows::Counted;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// Runs at a time: they mostly wait.
const AT_ONCE: usize = 8;

#[test]
fn send__counts_each_record_once_whatever_fails() -> Result<()> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    if let Some(seed) = number("ATP_SEED") {
        return run(seed);
    }
    let runs = number("ATP_KAFKA_RUNS").unwrap_or(24);
    let next = AtomicU64::new(0);
    let work = || -> Result<u64> {
        let mut done = 0;
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= runs {
                return Ok(done);
            }
            run(seed).with_context(|| format!("replay with ATP_SEED={seed}"))?;
            done += 1;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let mut done = 0;
        for thread in threads {
            done += thread.join().expect("no panic")?;
        }
        assert_eq!(done, runs);
        Ok(())
    })
}

/// Produces records of random event times.
struct Source<'a> {
    cluster: &'a Cluster,
    produced: Vec<u64>,
    time_ms: i64,
}

impl Source<'_> {
    fn produce(&mut self, rng: &mut ChaCha8Rng) -> Result<()> {
        let number = rng.random_range(1..400);
        let long = vec![1; 6_000];
        let mut records = Vec::new();
        for _ in 0..number {
            let partition = rng.random_range(0..self.produced.len());
            self.produced[partition] += 1;
            self.time_ms += 5;
            let is_wrong = rng.random_ratio(1, 200);
            let time_ms = self.time_ms - rng.random_range(0..100);
            records.push(Sent {
                partition: partition as i32,
                timestamp_ms: Some(if is_wrong { i64::MAX / 2 } else { time_ms }),
                key: rng.random_bool(0.5).then_some(&b"a-key"[..]),
                value: match rng.random_range(0..30) {
                    0 => None,
                    1 => Some(&long[..]),
                    _ => Some(&b"a short value"[..]),
                },
                headers: if rng.random_bool(0.1) { &[("severity", b"error")] } else { &[] },
            });
        }
        self.cluster.produce("readings", &records)
    }
}

/// The receiver, or what it had counted when it ended. Meanwhile windows wait.
enum Toggled {
    Running(Receiving),
    Ended(Box<(Seen, Counted)>),
}

impl Toggled {
    fn toggle(self, address: SocketAddr) -> Result<Self> {
        Ok(match self {
            Self::Running(receiving) => Self::Ended(receiving.end()?.into()),
            Self::Ended(results) => Self::Running(Receiving::start(address, *results)?),
        })
    }
}

fn run(seed: u64) -> Result<()> {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir()?;
    let partitions = rng.random_range(1..4);
    let cluster = Cluster::new("readings", partitions)?;
    let mut source =
        Source { cluster: &cluster, produced: vec![0; partitions as usize], time_ms: 1 << 40 };
    let mut sections = sections(rng);
    let address = address(seed);
    let mut receiver = Toggled::Running(Receiving::start(address, Default::default())?);
    let path = config(folder.path(), &cluster, &address.to_string(), &sections)?;
    let path = path.to_str().context("a path")?;
    let mut bridges = Vec::new();
    for step in 0..rng.random_range(3..9) {
        match rng.random_range(0..11) {
            0..=2 => source.produce(rng)?,
            3 if bridges.len() < 3 => {
                let name = format!("bridge-{step}");
                bridges.push(Bridge::start(folder.path(), &name, &["send", path])?);
            }
            4 if !bridges.is_empty() => {
                bridges.swap_remove(rng.random_range(0..bridges.len())).kill()?;
            }
            5 if !bridges.is_empty() => {
                // Its last commit may be one of those that fail.
                let _ = bridges.swap_remove(rng.random_range(0..bridges.len())).terminate();
            }
            6 => receiver = receiver.toggle(address)?,
            10 => {
                // The operator changes the windows. Programs that run keep theirs.
                sections = self::sections(rng);
                config(folder.path(), &cluster, &address.to_string(), &sections)?;
            }
            7 => {
                // Real brokers that end are in the tests of `broker`: the mock cluster's can't
                // listen again.
                let mock = cluster.mock()?;
                mock.broker_round_trip_time(1, Duration::from_millis(rng.random_range(0..700)))?;
                thread::sleep(Duration::from_millis(rng.random_range(0..500)));
                mock.broker_round_trip_time(1, Duration::ZERO)?;
            }
            8 => {
                let keys = [
                    RDKafkaApiKey::OffsetCommit,
                    RDKafkaApiKey::Fetch,
                    RDKafkaApiKey::OffsetFetch,
                    RDKafkaApiKey::Heartbeat,
                ];
                let key = keys[rng.random_range(0..keys.len())];
                let errors = [
                    RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                    RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                    RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
                ];
                let error = errors[rng.random_range(0..errors.len())];
                cluster.mock()?.request_errors(key, &vec![error; rng.random_range(1..4)]);
            }
            9 => {
                // Windows that are confirmed, and whose commits fail, come again.
                let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
                cluster.mock()?.request_errors(RDKafkaApiKey::OffsetCommit, &[refused; 20]);
            }
            _ => {}
        }
        thread::sleep(Duration::from_millis(rng.random_range(0..800)));
    }
    for mut bridge in bridges {
        match rng.random_bool(0.5) {
            true => bridge.kill()?,
            false => _ = bridge.terminate(),
        }
    }
    cluster.mock()?.clear_request_errors(RDKafkaApiKey::OffsetCommit);
    if let Toggled::Ended(_) = receiver {
        receiver = receiver.toggle(address)?;
    }
    Bridge::start(folder.path(), "last", &["send", path, "--until-end"])?.wait()?;
    let Toggled::Ended(ended) = receiver.toggle(address)? else { bail!("it runs") };
    let (seen, _) = *ended;
    ensure!(seen.short.is_empty(), "{:?}", seen.short);
    ensure!(seen.skipped == 0, "{} offsets are said to be skipped", seen.skipped);
    for (partition, produced) in source.produced.iter().enumerate() {
        let key = ("readings".to_owned(), partition as u32);
        let known = seen.offsets.get(&key).map_or(0, |offsets| offsets.len() as u64);
        ensure!(known == *produced, "partition {partition}: {known} of {produced} are known");
    }
    Ok(())
}

fn sections(rng: &mut ChaCha8Rng) -> String {
    let window = match rng.random_bool(0.5) {
        true => format!("records = {}", rng.random_range(1..300)),
        false => format!(
            "length = \"{}ms\"\nwatermark_delay = \"{}ms\"",
            rng.random_range(20..2_000),
            rng.random_range(1..200)
        ),
    };
    let idle_ms = [100, 1_000, 10_000][rng.random_range(0..3)];
    let msr = [0.0, 0.5, 0.8, 1.0][rng.random_range(0..4)];
    format!(
        "[window]\n{window}\nidle = \"{idle_ms}ms\"\n[sampling]\nmsr = {msr}\n\
         [[sampling.groups]]\nname = \"alarms\"\nmsr = 0.9\nheader = \"severity\"\n"
    )
}
