//! `atp-kafka lag`: how far a group of bridges has come, from the brokers alone.

mod print;
mod row;

use crate::{
    client::{Inquirer, TIMEOUT, cluster_id, inquirer, partitions, patiently, texts},
    config::{SendConfig, Start},
    send::{client_config, now_ms},
};
use anyhow::{Context, Result};
use approx_windows::Rule;
use rdkafka::{
    Offset, TopicPartitionList, consumer::Consumer, topic_partition_list::TopicPartitionListElem,
};
use row::{Found, Row};
use serde::Serialize;

/// The state of a group.
#[derive(Serialize)]
struct Lag<'a> {
    cluster: String,
    group: &'a str,
    /// How the configuration cuts, as `records:N`, or `time:LENGTH:LATE` in milliseconds.
    rule: String,
    /// When the brokers were asked, milliseconds since 1970.
    at_ms: u64,
    /// Records that aren't confirmed, of the partitions where their number is known.
    lag: u64,
    partitions: Vec<Row>,
}

/// The part of the configuration that a row needs.
#[derive(Clone, Copy)]
struct Group {
    rule: Rule,
    start: Start,
}

/// Prints the lag of each partition.
///
/// # Errors
/// The brokers or topics can't be used.
pub fn run(config: &SendConfig, json: bool) -> Result<()> {
    let lag = read(config)?;
    match json {
        true => atp_output::say!("{}", serde_json::to_string_pretty(&lag)?),
        false => print::table(&lag)?,
    }
    Ok(())
}

fn read(config: &SendConfig) -> Result<Lag<'_>> {
    let kafka = &config.kafka;
    let inquirer = inquirer(&client_config(config)?)?;
    let mut asked = TopicPartitionList::new();
    for topic in &kafka.topics {
        for partition in partitions(&inquirer, topic, &kafka.brokers)? {
            asked.add_partition(topic, partition);
        }
    }
    let cluster = cluster_id(inquirer.client(), &kafka.brokers)?;
    let committed =
        patiently(|| inquirer.committed_offsets(asked.clone(), TIMEOUT)).map_err(|error| {
            let (group, reason) = (&kafka.group, inquirer.context().reason());
            anyhow::anyhow!("can't read the offsets of group {group:?}: {error}{reason}")
        })?;
    let group = Group { rule: config.window.rule(), start: kafka.start };
    let (elements, texts) = (committed.elements(), texts(&committed));
    let rows = elements.iter().zip(&texts);
    let rows = rows.map(|(element, text)| row(&inquirer, group, element, text));
    let partitions: Vec<Row> = rows.collect::<Result<_>>()?;
    Ok(Lag {
        cluster,
        group: &kafka.group,
        rule: group.rule.to_string(),
        at_ms: now_ms(),
        lag: partitions.iter().filter_map(|row| row.lag).sum(),
        partitions,
    })
}

fn row(
    inquirer: &Inquirer,
    group: Group,
    element: &TopicPartitionListElem<'_>,
    text: &str,
) -> Result<Row> {
    let (topic, partition) = (element.topic(), element.partition());
    let what = || format!("can't read the offsets of {topic} [{partition}]");
    element.error().with_context(what)?;
    let (start, end) = inquirer.fetch_watermarks(topic, partition, TIMEOUT).with_context(what)?;
    let offset = match element.offset() {
        Offset::Offset(offset) => u64::try_from(offset).ok(),
        _ => None,
    };
    let log = (start.max(0) as u64, end.max(0) as u64);
    let found = Found { topic, partition, log, committed: offset, text };
    Ok(Row::new(found, group))
}
