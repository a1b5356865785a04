//! Real brokers start, stop, die and come back.
//!
//! The tests need `ATP_KAFKA_JARS`, the folder of Kafka's jars. `cargo xtask test --engine kafka`
//! sets it.

#[path = "../trial.rs"]
mod trial;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_broker::{Broker, Builder};
use libtest_mimic::Arguments;
use testbed::{Identity, Namespace, privilege};
use trial::{trial, trial_if};

fn main() -> ExitCode {
    let needs_root = || (!privilege::is_root()).then(|| "needs root".to_owned());
    let trials = vec![
        trial("broker__stops_dies_and_comes_back", stops_dies_and_comes_back),
        trial("broker__dies_with_its_thread", dies_with_its_thread),
        trial("start__an_error_shows_the_broker_s_log", an_error_shows_the_broker_s_log),
        trial("start_cluster__three_brokers_answer", three_brokers_answer),
        trial_if("command__a_broker_in_another_network", needs_root, in_another_network),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn answers(broker: &Broker) -> bool {
    TcpStream::connect(broker.bootstrap()).is_ok()
}

fn stops_dies_and_comes_back(jars: &Path) -> Result<()> {
    let mut broker = Broker::builder(jars).start()?;
    let (address, folder) = (broker.bootstrap(), broker.folder().to_owned());
    ensure!(answers(&broker) && folder.join("data/meta.properties").exists());
    broker.stop()?;
    ensure!(!answers(&broker) && broker.process_id().is_none());
    broker.stop().context("a second time")?;
    broker.restart()?;
    ensure!(answers(&broker));
    broker.kill();
    ensure!(!answers(&broker));
    broker.restart()?;
    ensure!(answers(&broker) && broker.bootstrap() == address);
    broker.restart().context("while it runs")?;
    ensure!(answers(&broker));
    drop(broker);
    ensure!(!folder.exists() && TcpStream::connect(address).is_err());
    Ok(())
}

fn dies_with_its_thread(jars: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let start = || -> Result<Identity> {
        let broker = Broker::builder(jars).folder(folder.path()).start()?;
        let process = broker.process_id().and_then(Identity::of).context("no process")?;
        // Its owner has no time to clean up, as if it were killed.
        std::mem::forget(broker);
        Ok(process)
    };
    let process = thread::scope(|scope| scope.spawn(start).join()).expect("no panic")?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while process.is_alive() {
        ensure!(Instant::now() < deadline, "the broker outlived its thread");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn an_error_shows_the_broker_s_log(jars: &Path) -> Result<()> {
    let starts = |builder: Builder| match builder.start() {
        Ok(_) => bail!("the broker started"),
        Err(error) => Ok(format!("{error:#}")),
    };
    let error = starts(Broker::builder(jars).property("num.partitions", "many"))?;
    ensure!(error.starts_with("Kafka can't use the folder "), "{error}");
    ensure!(error.contains("Invalid value many for configuration num.partitions"), "{error}");

    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port();
    let error = starts(Broker::builder(jars).port(port))?;
    let begin = format!("the broker at 127.0.0.1:{port} ended at its start; the end of its log:");
    ensure!(error.starts_with(&begin) && error.contains("Address already in use"), "{error}");

    let error = starts(Broker::builder(jars).command_prefix(["/no/such/program"]))?;
    ensure!(error.contains("Java 17 or newer") && error.contains("can't start java"), "{error}");
    Ok(())
}

fn three_brokers_answer(jars: &Path) -> Result<()> {
    let mut brokers = Broker::builder(jars).start_cluster(3)?;
    ensure!(brokers.iter().all(answers));
    brokers[0].kill();
    ensure!(answers(&brokers[1]) && answers(&brokers[2]));
    brokers[0].restart()?;
    ensure!(brokers.iter().all(answers));
    Ok(())
}

fn in_another_network(jars: &Path) -> Result<()> {
    let namespace = Namespace::new()?;
    let other = Namespace::new()?;
    let inside = namespace.clone();
    let builder = Broker::builder(jars).port(9092);
    let broker = builder.command(move |program| inside.command(program)).start()?;
    ensure!(broker.bootstrap() == "127.0.0.1:9092");
    ensure!(namespace.enter(|| Ok(answers(&broker)))?);
    ensure!(!other.enter(|| Ok(answers(&broker)))?);
    Ok(())
}
