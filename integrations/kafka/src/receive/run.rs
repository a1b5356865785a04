//! The loop of the receiving bridge.

use super::{
    metrics::Shown,
    store::{Store, StoreError},
    topics::{make_own_topics, read_counted, target_partitions},
};
use crate::{config::ReceiveConfig, metrics, stop, systemd};
use anyhow::{Context, Result};
use approx_windows::{Arrival, Inbox, ReceivedWindow};
use std::time::Duration;

/// The longest wait for a window: a signal is looked at in between.
const WAIT: Duration = Duration::from_millis(50);

/// Runs until it is told to stop.
///
/// # Errors
/// One sentence: the brokers, topics or port can't be used, or the producer failed for good.
pub fn run(config: &ReceiveConfig) -> Result<()> {
    let memory_bytes_max = config.atp.memory_bytes_max();
    let shown = Shown::new(memory_bytes_max);
    let to_show = shown.clone();
    let fill = move |registry: &mut _| to_show.fill(registry);
    let _metrics = metrics::serve(config.metrics, "atp_kafka_receive", fill)?;
    let partitions = target_partitions(config)?;
    make_own_topics(config)?;
    // First: an earlier receiver of this name can commit no window from now on.
    let store = Store::open(config, partitions)?;
    let counted = read_counted(config)?;
    for (stream, offset) in counted.positions() {
        tracing::info!(%stream, group = stream.group, offset, "goes on");
    }
    let builder = config.atp.receiver().map_err(anyhow::Error::msg)?;
    let mut inbox = Inbox::bind(builder, &*config.listen, counted, memory_bytes_max)?;
    let address = inbox.local_addr()?;
    tracing::info!(%address, topic = config.kafka.topic, "receiving windows");
    systemd::ready(&format!("receiving windows at {address}"));
    while !stop::is_asked() {
        systemd::alive();
        match inbox.next(Some(WAIT))? {
            Some(Arrival::Window(window)) => take(&mut inbox, &store, &window, &shown)?,
            Some(other) => log(&other),
            None => {}
        }
        shown.note(&inbox);
    }
    systemd::stopping();
    Ok(())
}

fn take(inbox: &mut Inbox, store: &Store, window: &ReceivedWindow, shown: &Shown) -> Result<()> {
    let counted = inbox.counted().with(&window.header);
    match store.store(window, counted) {
        Ok(()) => {
            let (received, lost) = (window.received(), window.lost.len());
            let group = &window.header.stream.group;
            tracing::info!(window = %window.header, group, received, lost, "written");
            inbox.confirm(window);
            if window.skipped > 0 {
                let (window, skipped) = (&window.header, window.skipped);
                tracing::error!(%window, skipped, "no window has brought offsets before this one");
            }
            shown.note_written(window, window.skipped);
            Ok(())
        }
        Err(error @ StoreError::Aborted { .. }) => {
            tracing::warn!("{error}");
            shown.note_failure();
            inbox.reject(window);
            Ok(())
        }
        Err(error @ StoreError::Fatal { .. }) => Err(error.into()),
    }
}

fn log(arrival: &Arrival) {
    match arrival {
        Arrival::Window(_) => {}
        Arrival::Repeated(header) => tracing::info!(window = %header, "counted before"),
        Arrival::Unfinished(header) => {
            tracing::info!(window = %header, "not finished: its sender will repeat it");
        }
        Arrival::Malformed { source, error } => tracing::error!(%source, "no window: {error}"),
        Arrival::NoMemory { source, bytes_max } => tracing::error!(
            %source,
            bytes_max,
            "windows need more than `memory_max`: raise it, or make windows smaller"
        ),
    }
}

/// Prints what would be written, and receives nothing.
///
/// # Errors
/// The brokers or topics can't be used.
pub fn dry_run(config: &ReceiveConfig) -> Result<()> {
    let partitions = target_partitions(config)?;
    let kafka = &config.kafka;
    atp_output::say!("name      {}", config.name);
    atp_output::say!("listen    {}", config.listen);
    atp_output::say!(
        "records   topic {} of {partitions} partitions at {}",
        kafka.topic,
        kafka.brokers
    );
    atp_output::say!("windows   topic {}, made if it isn't there", kafka.windows_topic());
    atp_output::say!("counted   topic {}, made if it isn't there", kafka.counted_topic());
    config.atp.receiver().map_err(anyhow::Error::msg).map(drop).context("[atp]")
}
