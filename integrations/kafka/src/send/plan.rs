//! `--dry-run`: what would be read, how it would be cut and sampled, and where it would go.

use super::client_config;
use crate::{
    client::{Inquirer, TIMEOUT, cluster_id, inquirer, partitions, patiently},
    config::SendConfig,
};
use anyhow::{Context, Result};
use approx_windows::Rule;
use rdkafka::{Offset, TopicPartitionList, consumer::Consumer};
use std::time::Duration;

/// Prints the plan, and sends nothing.
///
/// # Errors
/// The brokers or topics can't be used.
pub fn print(config: &SendConfig) -> Result<()> {
    let kafka = &config.kafka;
    let consumer = inquirer(&client_config(config)?)?;
    let mut lines = Vec::new();
    for topic in &kafka.topics {
        for partition in partitions(&consumer, topic, &kafka.brokers)? {
            lines.push(line(&consumer, topic, partition)?);
        }
    }
    let cluster = cluster_id(consumer.client(), &kafka.brokers)?;
    atp_output::say!("cluster   {cluster} at {}", kafka.brokers);
    atp_output::say!("group     {}", kafka.group);
    atp_output::say!("receiver  {}", config.peer);
    let idle = config.window.idle();
    let rule = match config.window.rule() {
        Rule::Records(records) => format!("of {records} records"),
        Rule::Time { length_ms, watermark_delay_ms } => {
            let [length, late] = [length_ms, watermark_delay_ms].map(Duration::from_millis);
            format!("of {length:?} of event time; records may be {late:?} late")
        }
    };
    atp_output::say!("windows   {rule}; closed after {idle:?} without a record");
    atp_output::say!("exact     tombstones, and records without an event time that can be true");
    for group in &config.sampling.groups {
        let by_header = group.header.as_ref().map(|header| match &group.values {
            Some(values) => format!("header {header} = {}", values.join(" or ")),
            None => format!("header {header}"),
        });
        let by_key = group.key_prefix.as_ref().map(|prefix| format!("key {prefix}..."));
        let rule: Vec<String> = by_header.into_iter().chain(by_key).collect();
        atp_output::say!("group     {}: MSR {}, {}", group.name, group.msr.0, rule.join(" and "));
    }
    atp_output::say!("group     rest: MSR {}, all other records", config.sampling.msr.0);
    if let Some(msr_max) = config.sampling.msr_max {
        atp_output::say!("room      up to {} of the records, while there is room", msr_max.0);
    }
    lines.into_iter().try_for_each(|line| {
        atp_output::say!("{line}");
        Ok(())
    })
}

fn line(consumer: &Inquirer, topic: &str, number: i32) -> Result<String> {
    let what = || format!("can't read the offsets of {topic} [{number}]");
    let (low, high) = consumer.fetch_watermarks(topic, number, TIMEOUT).with_context(what)?;
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, number);
    let committed = patiently(|| consumer.committed_offsets(list.clone(), TIMEOUT));
    let committed = committed.with_context(what)?;
    let element = committed.find_partition(topic, number);
    let from = match element.map(|element| element.offset()) {
        Some(Offset::Offset(offset)) => format!("committed {offset}"),
        _ => "nothing committed".to_owned(),
    };
    Ok(format!("partition {topic} [{number}]: offsets {low} to {high}, {from}"))
}
