//! The metrics of `atp-kafka receive`.

use crate::metrics::{TotalOf, gauge, one_gauge, one_total, total};
use approx_windows::{Inbox, InboxStats, ReceivedWindow, Stream};
use prometheus_client::{
    encoding::EncodeLabelSet,
    registry::{Registry, Unit},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The most streams with metrics of their own: senders choose their names.
const STREAMS_MAX: usize = 2_000;

/// Counters that the receiving loop writes and the server of metrics reads.
#[derive(Clone, Default)]
pub struct Shown(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    stats: InboxStats,
    memory_bytes: u64,
    memory_bytes_max: u64,
    failed_transactions: u64,
    streams: BTreeMap<Stream, Tally>,
    /// Windows of streams beyond [`STREAMS_MAX`].
    windows_of_others: u64,
}

/// Counters of a stream, since the process began.
#[derive(Clone, Copy, Default)]
struct Tally {
    last_window: i64,
    windows: u64,
    received: u64,
    lost: u64,
    skipped: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    cluster: String,
    group: String,
    topic: String,
    partition: u32,
}

impl From<&Stream> for Of {
    fn from(stream: &Stream) -> Self {
        let Stream { cluster, group, topic, partition, .. } = stream.clone();
        Self { cluster, group, topic, partition }
    }
}

/// The inbox's counters.
const TOTALS: [TotalOf<InboxStats>; 9] = [
    ("windows", "Windows that were written, in whole or in part", |stats| stats.windows),
    ("repeated_windows", "Windows all of whose records had been written", |stats| stats.repeated),
    ("unfinished_windows", "Windows that a sender didn't finish", |stats| stats.unfinished),
    ("malformed_senders", "Senders whose bytes were no window", |stats| stats.malformed),
    ("no_memory_senders", "Senders refused for want of memory", |stats| stats.no_memory),
    ("records", "Records that arrived and count", |stats| stats.received),
    ("lost_records", "Records that count and didn't arrive", |stats| stats.lost),
    ("repeated_records", "Records that were received again", |stats| stats.records_repeated),
    ("skipped_offsets", "Offsets that no window has brought", |stats| stats.skipped),
];

/// A stream's counters.
const STREAM_TOTALS: [TotalOf<Tally>; 4] = [
    ("stream_windows", "Windows of the stream", |tally| tally.windows),
    ("stream_records", "Records of the stream that arrived", |tally| tally.received),
    ("stream_lost_records", "Records of the stream that didn't arrive", |tally| tally.lost),
    ("stream_skipped_offsets", "Offsets of the stream that no window brought", |tally| {
        tally.skipped
    }),
];

impl Shown {
    /// Counters of an inbox with this much memory.
    pub fn new(memory_bytes_max: u64) -> Self {
        let shown = Self::default();
        shown.state().memory_bytes_max = memory_bytes_max;
        shown
    }

    /// Notes the inbox's state.
    pub fn note(&self, inbox: &Inbox) {
        let mut state = self.state();
        (state.stats, state.memory_bytes) = (inbox.stats(), inbox.memory_bytes());
    }

    /// Notes a window that was written. `skipped`: the offsets before it that no window brought.
    pub fn note_written(&self, window: &ReceivedWindow, skipped: u64) {
        let (state, stream) = (&mut *self.state(), &window.header.stream);
        if state.streams.len() >= STREAMS_MAX && !state.streams.contains_key(stream) {
            state.windows_of_others += 1;
            return;
        }
        let tally = state.streams.entry(stream.clone()).or_default();
        tally.last_window = window.header.number;
        tally.windows += 1;
        tally.received += window.received();
        tally.lost += window.lost.len();
        tally.skipped += skipped;
    }

    /// Notes a window that wasn't written.
    pub fn note_failure(&self) {
        self.state().failed_transactions += 1;
    }

    /// Registers the metrics.
    pub fn fill(&self, registry: &mut Registry) {
        let state = self.state();
        for (name, help, value) in TOTALS {
            one_total(registry, name, help, value(&state.stats));
        }
        let help = "Transactions that failed: their windows are sent again";
        one_total(registry, "failed_transactions", help, state.failed_transactions);
        for (name, help, bytes) in [
            ("memory", "Windows that are open or wait", state.memory_bytes),
            ("memory_max", "The limit of memory", state.memory_bytes_max),
        ] {
            one_gauge(registry, name, Unit::Bytes, help, bytes as f64);
        }
        for (name, help, value) in STREAM_TOTALS {
            let values = state.streams.iter();
            total(
                registry,
                name,
                help,
                values.map(|(stream, tally)| (Of::from(stream), value(tally))),
            );
        }
        let numbers = state.streams.iter();
        let numbers = numbers.map(|(stream, tally)| (Of::from(stream), tally.last_window as f64));
        let help = "Number of the stream's last window";
        gauge(registry, "stream_last_window", None, help, numbers);
        let help = "Windows of streams that have no metrics of their own";
        one_total(registry, "other_streams_windows", help, state.windows_of_others);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
