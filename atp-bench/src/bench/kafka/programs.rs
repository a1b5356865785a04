//! The programs of a cell: the bridge, the load generator and its topic.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::{Host, Process, Testbed, interrupt};

use super::row::{Cell, PARTITIONS, WINDOW_MS};
use super::scheme::Scheme;
use super::summary::Line;
use crate::installed;

pub const TOPIC: &str = "readings";
pub const BROKER_PORT: u16 = 9_092;
/// The least rate with an accepted error.
const ERROR_MSR: f64 = 0.01;
/// The time for a program to reach the broker, for a group to form, and for a cluster to start.
const READY_MAX: Duration = Duration::from_secs(120);
const LOOK_UP: Duration = Duration::from_millis(50);

/// Event times of the load, milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub begin_ms: i64,
    pub end_ms: i64,
}

/// The share of the records that the topic has.
pub fn topic_share(cell: &Cell) -> f64 {
    match (cell.scheme, cell.msr) {
        (Some(Scheme::TcpSample), Some(msr)) => msr,
        _ => 1.0,
    }
}

/// Makes the topic.
pub fn make_topic(broker: &Host) -> Result<()> {
    let mut command = load(broker, broker, "topic")?;
    command.args(["--partitions", &PARTITIONS.to_string()]);
    Process::captured("the topic's maker", command)?.success().map(drop)
}

/// Starts the bridge, and waits until it has all partitions.
pub fn start_bridge(cell: &Cell, testbed: &Testbed, peers: &[SocketAddr]) -> Result<Process> {
    let mut command = testbed.senders()[0].namespace.command(installed::kafka()?);
    command.env_remove("ATP_SOCKET").env_remove("RUST_LOG").env("NO_COLOR", "1");
    command.arg("send").arg(write_config(cell, testbed, peers)?);
    let mut bridge = Process::captured("atp-kafka send", command)?;
    wait_until(&mut bridge, "atp-kafka send", |process| {
        Ok(process.stderr()?.matches(" assigned ").count() >= PARTITIONS as usize)
    })?;
    Ok(bridge)
}

/// Writes the bridge's configuration.
fn write_config(cell: &Cell, testbed: &Testbed, peers: &[SocketAddr]) -> Result<PathBuf> {
    let broker = &testbed.senders()[0];
    let daemon = match testbed.control_socket(broker) {
        Some(socket) => format!("daemon = {:?}", socket.display().to_string()),
        None => {
            let rate = cell.others_rate_bits_per_s() / 8;
            format!("daemon = false\nrate_max_bytes_per_s = {rate}")
        }
    };
    let msr = cell.msr.or(cell.error.map(|_| ERROR_MSR));
    let msr = msr.context("a cell of ATP without an MSR or an error")?;
    let accepted = cell.error.map_or_else(String::new, |error| {
        format!("[sampling.accepted]\nerror = {error}\nnumber = {{ f64_at = 0 }}\n")
    });
    let peers: Vec<String> = peers.iter().map(ToString::to_string).collect();
    let text = format!(
        "peer = {peers:?}\n\
         [kafka]\nbrokers = \"{}:{BROKER_PORT}\"\ngroup = \"bridge\"\ntopics = [\"{TOPIC}\"]\n\
         [window]\nlength = \"{WINDOW_MS}ms\"\n\
         [sampling]\nmsr = {msr}\n{accepted}\
         [atp]\n{daemon}\n",
        broker.ipv4
    );
    let path = testbed.folder().join("send.toml");
    fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    Ok(path)
}

/// Starts the load generator, which writes records from `times.begin_ms` on.
pub fn start_producer(
    cell: &Cell,
    broker: &Host,
    records_per_s: f64,
    times: Times,
) -> Result<Process> {
    let mut command = load(broker, broker, "produce")?;
    for (name, value) in [
        ("--partitions", PARTITIONS.to_string()),
        ("--records-per-s", records_per_s.to_string()),
        ("--share", topic_share(cell).to_string()),
        ("--bytes", cell.value_bytes.to_string()),
        ("--seed", cell.round.to_string()),
        ("--begin-ms", times.begin_ms.to_string()),
        ("--end-ms", times.end_ms.to_string()),
        ("--window-ms", WINDOW_MS.to_string()),
    ] {
        command.arg(name).arg(value);
    }
    Process::captured("the load generator", command)
}

/// A command of the load generator's program, for the broker's topic.
pub fn load(host: &Host, broker: &Host, command: &str) -> Result<Command> {
    let mut load = host.namespace.command(installed::kafka_load()?);
    load.arg(command).args(["--topic", TOPIC]);
    load.args(["--brokers", &format!("{}:{BROKER_PORT}", broker.ipv4)]);
    Ok(load)
}

/// The lines that a program has written.
pub fn lines(process: &Process) -> Result<Vec<Line>> {
    let text = process.stdout()?;
    // The last line may not be whole yet.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let parse = |line| serde_json::from_str(line).with_context(|| format!("no line: {line:?}"));
    whole.lines().map(parse).collect()
}

/// Fails if a program has ended, which goes on until it is ended.
pub fn require_running(process: &mut Process, name: &str) -> Result<()> {
    ensure!(!interrupt::interrupted(), "interrupted");
    if process.is_running()? {
        return Ok(());
    }
    let text = process.stderr()?;
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    bail!("{name} ended: {}", last.unwrap_or("it wrote nothing").trim());
}

pub fn wait_until(
    process: &mut Process,
    name: &str,
    mut is_ready: impl FnMut(&Process) -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + READY_MAX;
    while !is_ready(process)? {
        require_running(process, name)?;
        ensure!(Instant::now() < deadline, "{name} wasn't ready in time: {}", process.stderr()?);
        thread::sleep(LOOK_UP);
    }
    Ok(())
}
