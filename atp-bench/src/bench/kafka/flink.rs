//! A cluster of Flink in the receiving host: a job manager with the job, and task managers, each a
//! process.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use testbed::{Host, Process, Testbed};

use super::programs::{self, BROKER_PORT, TOPIC};
use super::row::{Cell, PARTITIONS, WINDOW_MS};
use super::scheme::Scheme;
use crate::installed;

const TASK_MANAGERS: u16 = 4;
/// The first port where windows arrive: each task manager has one.
const WINDOWS_PORT: u16 = 4_747;
const RPC_PORT: u16 = 6_123;
const REST_PORT: u16 = 8_081;
const JOB: &str = "org.netapprox.atp.flink.bench.WindowedAverage";
const JOB_MANAGER: &str =
    "org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint";
const TASK_MANAGER: &str = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner";
/// The line of the job manager's log for each task that runs, and their number: a source and an
/// aggregate in each task manager.
const RUNS: &str = "switched from INITIALIZING to RUNNING";
const TASKS: usize = 2 * TASK_MANAGERS as usize;
const JVM_OPTIONS: [&str; 9] = [
    "-XX:TieredStopAtLevel=1",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:-CreateCoredumpOnCrash",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.flink.runtime.executiongraph=info",
];

/// The addresses where windows arrive. Partition `p` is sent to the one at place `p`.
pub fn addresses(host: &Host) -> impl Iterator<Item = SocketAddr> {
    let ip = host.ipv4;
    (0..TASK_MANAGERS).map(move |number| SocketAddr::new(ip.into(), WINDOWS_PORT + number))
}

/// Starts the cluster with the cell's job, and waits until all tasks run. The job manager is the
/// first process.
pub fn start(cell: &Cell, testbed: &Testbed) -> Result<Vec<Process>> {
    let host = testbed.receiver();
    let folder = testbed.folder().join("flink");
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let file = folder.join("config.yaml");
    fs::write(&file, configuration(host, &folder))
        .with_context(|| format!("can't write {}", file.display()))?;
    let mut command = java(host, &folder)?;
    command.arg(JOB_MANAGER).arg("--configDir").arg(&folder).args(["--job-classname", JOB]);
    command.args(job_words(cell, testbed)?);
    let mut all = vec![Process::captured("the job manager of Flink", command)?];
    for number in 0..TASK_MANAGERS {
        let mut command = java(host, &folder)?;
        command.arg(TASK_MANAGER).arg("--configDir").arg(&folder);
        command.arg(format!("-Dtaskmanager.resource-id=tm-{number}"));
        all.push(Process::captured("a task manager of Flink", command)?);
    }
    let (job_manager, task_managers) = all.split_at_mut(1);
    programs::wait_until(&mut job_manager[0], "the job of Flink", |process| {
        for task_manager in &mut *task_managers {
            programs::require_running(task_manager, "a task manager of Flink")?;
        }
        Ok(process.stderr()?.matches(RUNS).count() >= TASKS)
    })?;
    Ok(all)
}

fn java(host: &Host, folder: &Path) -> Result<Command> {
    let mut command = host.namespace.command(installed::java());
    command.current_dir(folder).env_remove("ATP_SOCKET").args(JVM_OPTIONS);
    command.arg("-cp").arg(installed::flink_class_path()?);
    Ok(command)
}

/// The memory is that of small tasks: the sum of all processes is 3 GB.
fn configuration(host: &Host, folder: &Path) -> String {
    let (ip, folder) = (host.ipv4, folder.display());
    format!(
        "jobmanager.rpc.address: {ip}\n\
         jobmanager.rpc.port: {RPC_PORT}\n\
         jobmanager.bind-host: {ip}\n\
         rest.address: {ip}\n\
         rest.bind-address: {ip}\n\
         rest.port: {REST_PORT}\n\
         taskmanager.host: {ip}\n\
         taskmanager.bind-host: {ip}\n\
         taskmanager.numberOfTaskSlots: 1\n\
         taskmanager.cpu.cores: 1.0\n\
         taskmanager.memory.framework.heap.size: 64m\n\
         taskmanager.memory.framework.off-heap.size: 64m\n\
         taskmanager.memory.task.heap.size: 256m\n\
         taskmanager.memory.task.off-heap.size: 0m\n\
         taskmanager.memory.network.min: 64m\n\
         taskmanager.memory.network.max: 64m\n\
         taskmanager.memory.managed.size: 32m\n\
         taskmanager.memory.jvm-metaspace.size: 192m\n\
         taskmanager.memory.jvm-overhead.min: 64m\n\
         taskmanager.memory.jvm-overhead.max: 64m\n\
         parallelism.default: {TASK_MANAGERS}\n\
         execution.buffer-timeout.interval: 10 ms\n\
         pipeline.auto-watermark-interval: 10 ms\n\
         io.tmp.dirs: {folder}\n"
    )
}

/// The arguments of the job.
fn job_words(cell: &Cell, testbed: &Testbed) -> Result<Vec<String>> {
    let is_atp = cell.scheme == Some(Scheme::Atp);
    let (broker, host) = (&testbed.senders()[0], testbed.receiver());
    let listen: Vec<String> = addresses(host).map(|address| address.to_string()).collect();
    let socket = testbed.control_socket(host);
    let daemon = socket.map_or("none".to_owned(), |socket| socket.display().to_string());
    let streams = PARTITIONS.div_ceil(TASK_MANAGERS.into());
    let pairs = [
        ("source", if is_atp { "atp" } else { "kafka" }.to_owned()),
        ("brokers", format!("{}:{BROKER_PORT}", broker.ipv4)),
        ("topic", TOPIC.to_owned()),
        ("listen", listen.join(";")),
        ("streams", streams.to_string()),
        ("daemon", daemon),
        ("window-ms", WINDOW_MS.to_string()),
        ("share", programs::topic_share(cell).to_string()),
        ("parallelism", TASK_MANAGERS.to_string()),
    ];
    Ok(pairs.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect())
}
