//! A topic over ATP into another topic, while programs and the broker are killed.
//!
//! `ATP_SEED=n` replays one run. `ATP_KAFKA_RUNS=n` makes that many, 6 without it.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kafka_broker::Broker;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};

use crate::process::{Bridge, run_to_end};
use crate::topics::{LIMIT, client, counted};

const PARTITIONS: usize = 2;

pub fn each_record_is_written_once_or_known_to_be_lost(jars: &Path) -> Result<()> {
    let builder = Broker::builder(jars).partitions_default(PARTITIONS as u32);
    let mut broker = builder.property("broker.session.timeout.ms", "3000").start()?;
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds = match number("ATP_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ATP_KAFKA_RUNS").unwrap_or(6),
    };
    for seed in seeds {
        run(&mut broker, seed).with_context(|| format!("replay with ATP_SEED={seed}"))?;
    }
    broker.stop()
}

/// The programs of a run, and their topics.
struct Run<'a> {
    broker: &'a mut Broker,
    rng: ChaCha8Rng,
    folder: tempfile::TempDir,
    source: String,
    target: String,
    address: String,
    started: u32,
    senders: Vec<Bridge>,
    receiver: Option<Bridge>,
    /// The committed records of each partition.
    written: [u64; PARTITIONS],
    batches: u32,
}

fn run(broker: &mut Broker, seed: u64) -> Result<()> {
    let mut run = Run {
        broker,
        rng: ChaCha8Rng::seed_from_u64(seed),
        folder: tempfile::tempdir()?,
        source: format!("source-{seed}"),
        target: format!("target-{seed}"),
        // An address of the loopback where no other test receives, with a port that the kernel
        // gives to nobody.
        address: format!("127.3.{}.{}:4747", (seed >> 8) as u8, seed as u8),
        started: 0,
        senders: Vec::new(),
        receiver: None,
        written: [0; PARTITIONS],
        batches: 0,
    };
    // Both topics are there before the programs look for them.
    run.produce()?;
    produce_one(run.broker, &run.target)?;
    let configs = run.configs()?;
    run.start_receiver(&configs)?;
    for _ in 0..run.rng.random_range(4..9) {
        run.step(&configs)?;
        thread::sleep(Duration::from_millis(run.rng.random_range(0..1_500)));
    }
    run.finish(&configs)?;
    run.check()
}

impl Run<'_> {
    fn configs(&mut self) -> Result<[PathBuf; 2]> {
        let bootstrap = self.broker.bootstrap();
        let (source, target, address) = (&self.source, &self.target, &self.address);
        let window = match self.rng.random_bool(0.5) {
            true => "records = 150",
            false => "length = \"200ms\"\nwatermark_delay = \"20ms\"",
        };
        let send = format!(
            "peer = \"{address}\"\n[window]\n{window}\nidle = \"1s\"\n[sampling]\nmsr = 0.8\n\
             [atp]\ndaemon = false\npeer_timeout = \"2s\"\n\
             [kafka]\nbrokers = \"{bootstrap}\"\ngroup = \"{source}\"\ntopics = [\"{source}\"]\n\
             [kafka.properties]\n\"session.timeout.ms\" = 6000\n\"heartbeat.interval.ms\" = 500\n"
        );
        let receive = format!(
            "listen = \"{address}\"\nname = \"{target}\"\n[atp]\ndaemon = false\n\
             [kafka]\nbrokers = \"{bootstrap}\"\ntopic = \"{target}\"\n"
        );
        let paths = ["send.toml", "receive.toml"].map(|name| self.folder.path().join(name));
        std::fs::write(&paths[0], send)?;
        std::fs::write(&paths[1], receive)?;
        Ok(paths)
    }

    fn start(&mut self, name: &str, arguments: &[&str]) -> Result<Bridge> {
        self.started += 1;
        let name = format!("{name}-{}", self.started);
        Bridge::start(self.folder.path(), &name, arguments)
    }

    fn start_receiver(&mut self, configs: &[PathBuf; 2]) -> Result<()> {
        let path = configs[1].to_string_lossy().into_owned();
        self.receiver = None;
        let receiver = self.start("receive", &["receive", &path])?;
        // Only then can a sender find it.
        receiver.wait_for_log("receiving windows", LIMIT)?;
        self.receiver = Some(receiver);
        Ok(())
    }

    fn step(&mut self, configs: &[PathBuf; 2]) -> Result<()> {
        match self.rng.random_range(0..9) {
            0..=2 => self.produce()?,
            3 | 4 if self.senders.len() < 2 => {
                let path = configs[0].to_string_lossy().into_owned();
                let sender = self.start("send", &["send", &path])?;
                self.senders.push(sender);
            }
            5 => drop(self.senders.pop()),
            6 | 7 => {
                // Killed, perhaps in the middle of a transaction.
                self.receiver = None;
                self.start_receiver(configs)?;
            }
            8 if self.rng.random_bool(0.4) => {
                self.broker.kill();
                self.broker.restart()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes records in a transaction, which is aborted at times.
    fn produce(&mut self) -> Result<()> {
        self.batches += 1;
        let id = format!("{}-{}", self.source, self.batches);
        let mut config = client(self.broker);
        let producer: ThreadedProducer<_> = config.set("transactional.id", &id).create()?;
        producer.init_transactions(LIMIT)?;
        producer.begin_transaction()?;
        let is_aborted = self.batches > 1 && self.rng.random_bool(0.2);
        let now_ms =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
        for number in 0..self.rng.random_range(1..500) {
            let partition = self.rng.random_range(0..PARTITIONS);
            let payload = vec![b'x'; [10, 100, 3_000][self.rng.random_range(0..3)]];
            let (source, key) = (&self.source, number.to_string());
            let record = BaseRecord::to(source).partition(partition as i32);
            let record = record.key(&key).payload(&payload).timestamp(now_ms as i64 + number);
            producer.send(record).map_err(|(error, _)| error)?;
            self.written[partition] += u64::from(!is_aborted);
        }
        match is_aborted {
            true => {
                producer.flush(LIMIT)?;
                producer.abort_transaction(LIMIT)?;
            }
            false => producer.commit_transaction(LIMIT)?,
        }
        Ok(())
    }

    /// Sends all that is left.
    fn finish(&mut self, configs: &[PathBuf; 2]) -> Result<()> {
        self.senders.clear();
        let path = configs[0].to_string_lossy().into_owned();
        let mut last = self.start("last", &["send", &path, "--until-end"])?;
        last.wait().context("the last sender")?;
        self.check_lag(&path)?;
        let receiver = self.receiver.as_mut().context("no receiver")?;
        receiver.terminate().context("the receiver")
    }

    /// The brokers know the position of each partition that has records.
    fn check_lag(&self, path: &str) -> Result<()> {
        let ended = run_to_end(self.folder.path(), &["lag", path, "--json"], &[])?;
        ensure!(ended.is_good && ended.stderr.is_empty(), "{}", ended.stderr);
        let lag: serde_json::Value = serde_json::from_str(&ended.stdout)?;
        for (partition, written) in self.written.iter().enumerate().filter(|of| *of.1 > 0) {
            let row = &lag["partitions"][partition];
            let of = |name: &str| row[name].as_u64();
            let is_known = of("epoch") >= Some(1) && of("committed") >= Some(*written);
            let is_in_log = of("committed") <= of("end");
            let has_no_note = row["notes"].as_array().is_some_and(Vec::is_empty);
            ensure!(is_known && is_in_log && has_no_note, "{written} written: {row}");
        }
        Ok(())
    }

    /// Every committed record is in the target once, or lost.
    fn check(&self) -> Result<()> {
        let found = counted(&client(self.broker), &self.target, PARTITIONS)?;
        ensure!(found == self.written, "{found:?} of {:?} records are known", self.written);
        Ok(())
    }
}

/// Makes a topic.
fn produce_one(broker: &Broker, topic: &str) -> Result<()> {
    let producer: ThreadedProducer<_> = client(broker).create()?;
    let record: BaseRecord<'_, str, str> = BaseRecord::to(topic).payload("made");
    producer.send(record).map_err(|(error, _)| error)?;
    producer.flush(LIMIT)?;
    Ok(())
}
