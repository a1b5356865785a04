//! The programs and files that `cargo xtask` built or installed. It passes their paths in the
//! environment.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use testbed::Launch;

const DAEMON: &str = "ATP_USER";
const OBJECT: &str = "ATP_EBPF_OBJECT";
/// The variable with the reason why there is no object.
const NO_OBJECT: &str = "ATP_NO_EBPF";
const FLIGHTS: &str = "ATP_FLIGHTS";
const PYTHON: &str = "ATP_PYTHON";
const TARGET: &str = "ATP_TARGET";
const KAFKA: &str = "ATP_KAFKA";
const KAFKA_LOAD: &str = "ATP_KAFKA_LOAD";
const KAFKA_JARS: &str = "ATP_KAFKA_JARS";
const FLINK_CLASS_PATH: &str = "ATP_FLINK_CLASS_PATH";

/// The daemon's binary.
pub fn daemon() -> Result<PathBuf> {
    path(DAEMON)
}

/// The compiled eBPF programs.
pub fn object() -> Result<PathBuf> {
    path(OBJECT)
}

/// The compiled eBPF programs, or the reason why there are none.
pub fn object_or_reason() -> Result<PathBuf, String> {
    let given = env::var(NO_OBJECT);
    object().map_err(|error| given.unwrap_or_else(|_| error.to_string()))
}

/// The table of flights.
pub fn flights() -> Result<PathBuf> {
    path(FLIGHTS)
}

/// The bridge to Kafka.
pub fn kafka() -> Result<PathBuf> {
    path(KAFKA)
}

/// The load generator and the receivers of the bridge's benchmark.
pub fn kafka_load() -> Result<PathBuf> {
    path(KAFKA_LOAD)
}

/// The folder of Kafka's jars.
pub fn kafka_jars() -> Result<PathBuf> {
    path(KAFKA_JARS)
}

/// The class path of Flink with the jobs of the benchmark, such as `FOLDER/*:FOLDER`.
pub fn flink_class_path() -> Result<PathBuf> {
    path(FLINK_CLASS_PATH)
}

/// A Python interpreter with the packages of the benchmarks.
pub fn python() -> PathBuf {
    env::var_os(PYTHON).map_or_else(|| "python3".into(), PathBuf::from)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    env::var_os(TARGET).map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The cargo that started `cargo xtask`.
pub fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// `java` of the kit that has built the jar.
pub fn java() -> PathBuf {
    env::var_os("ATP_JAVA").map_or_else(|| "java".into(), PathBuf::from)
}

/// The repository's root.
pub fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// How to start the daemon that was built.
pub fn launch() -> Result<Launch> {
    Ok(Launch { program: daemon()?, object: Some(object()?), options: Vec::new() })
}

fn path(variable: &str) -> Result<PathBuf> {
    let value = env::var_os(variable).filter(|value| !value.is_empty());
    value
        .map(PathBuf::from)
        .with_context(|| format!("{variable} is not set: start this program through `cargo xtask`"))
}
