//! Brokers of Kafka for tests, benchmarks and demonstrations: real ones, in KRaft mode, so without
//! ZooKeeper. Each is broker and controller in one JVM, and dies with the thread that started it.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let jars = kafka_broker::jars().map_err(anyhow::Error::msg)?;
//! let broker = kafka_broker::Broker::builder(&jars).start()?;
//! println!("bootstrap.servers={}", broker.bootstrap());
//! # Ok(())
//! # }
//! ```
//!
//! Topics are the clients' business: they have an interface for administrators. A topic that a
//! client uses first is created, with [`Builder::partitions_default`] partitions.

mod broker;
mod builder;
mod jvm;
mod port;
mod properties;

use std::path::PathBuf;

pub use broker::Broker;
pub use builder::Builder;

/// Names the folder of the jars.
const JARS: &str = "ATP_KAFKA_JARS";

/// The folder of Kafka's jars, as `cargo xtask test --engine kafka` names it.
///
/// # Errors
/// The reason why tests of a broker can't run, in the test runner's format.
pub fn jars() -> Result<PathBuf, String> {
    let named = std::env::var_os(JARS).filter(|path| !path.is_empty()).map(PathBuf::from);
    named.ok_or_else(|| format!("needs kafka_jars: {JARS} names no folder"))
}
