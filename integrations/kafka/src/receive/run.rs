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
/// The most windows of a transaction, and the records after which none is added.
const WINDOWS_MAX: usize = 64;
const RECORDS_MAX: u64 = 100_000;

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
            Some(Arrival::Window(window)) => {
                let windows = with_others(&mut inbox, *window)?;
                take(&mut inbox, &store, &windows, &shown)?;
            }
            Some(other) => log(&other),
            None => {}
        }
        shown.note(&inbox);
    }
    systemd::stopping();
    Ok(())
}

/// The window, and others that wait: a transaction takes as long for several as for one.
fn with_others(inbox: &mut Inbox, first: ReceivedWindow) -> Result<Vec<ReceivedWindow>> {
    let mut records = first.received();
    let mut windows = vec![first];
    while windows.len() < WINDOWS_MAX && records < RECORDS_MAX {
        match inbox.next(Some(Duration::ZERO))? {
            Some(Arrival::Window(window)) => {
                records += window.received();
                windows.push(*window);
            }
            Some(other) => log(&other),
            None => break,
        }
    }
    Ok(windows)
}

fn take(inbox: &mut Inbox, store: &Store, windows: &[ReceivedWindow], shown: &Shown) -> Result<()> {
    // Each is of another stream: an inbox hands over the next one of a stream once this one is
    // confirmed.
    let counted = |window: &ReceivedWindow| inbox.counted().with(&window.header);
    match store.store(windows.iter().map(|window| (window, counted(window)))) {
        Ok(()) => {
            for window in windows {
                let (received, lost) = (window.received(), window.lost.len());
                let group = &window.header.stream.group;
                tracing::info!(window = %window.header, group, received, lost, "written");
                inbox.confirm(window);
                if window.skipped > 0 {
                    let (window, skipped) = (&window.header, window.skipped);
                    tracing::error!(%window, skipped, "no window has brought offsets before this one");
                }
                shown.note_written(window, window.skipped);
            }
            Ok(())
        }
        Err(error @ StoreError::Aborted { .. }) => {
            tracing::warn!("{error}");
            shown.note_failure();
            windows.iter().for_each(|window| inbox.reject(window));
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
        Arrival::Ended(stream) => tracing::info!(%stream, "its sender has ended"),
        Arrival::Malformed { source, error } => tracing::error!(%source, "no window: {error}"),
        Arrival::NoMemory { source, window, bytes_max } => {
            let window = window.as_ref().map(ToString::to_string);
            tracing::warn!(
                %source,
                window,
                bytes_max,
                "refused, and sent again later: open windows need more than `memory_max`. Raise \
                 it, or make windows smaller"
            );
        }
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
