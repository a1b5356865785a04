//! `atp-kafka send`: reads topics as a member of a group, and sends windows of their records.
//!
//! One thread polls the consumer and cuts (`run`); each partition has an
//! [`approx_windows::Worker`] that sends.

mod assignment;
mod committed;
mod ends;
mod metrics;
mod partition;
mod plan;
mod records;
mod rules;
mod run;
mod times;

pub use committed::{Committed, now_ms};
pub use plan::print as dry_run;
pub use run::{Options, run};

use crate::config::SendConfig;
use anyhow::Result;
use rdkafka::ClientConfig;

/// The consumer's configuration.
///
/// # Errors
/// A secret can't be read, or a property is the program's own.
pub fn client_config(config: &SendConfig) -> Result<ClientConfig> {
    let kafka = &config.kafka;
    let mut client = kafka.client().config()?;
    let own = [
        ("group.id", kafka.group.as_str()),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        // Records that expired must not be skipped in silence.
        ("auto.offset.reset", "error"),
    ];
    own.into_iter().for_each(|(name, value)| _ = client.set(name, value));
    let defaults = [
        ("isolation.level", "read_committed"),
        // A rebalance stops the partitions that move, and no others.
        ("partition.assignment.strategy", "cooperative-sticky"),
        // Of each partition; the windows have memory of their own.
        ("queued.max.messages.kbytes", "16384"),
    ];
    for (name, value) in defaults {
        if client.get(name).is_none() {
            client.set(name, value);
        }
    }
    Ok(client)
}
