//! Arrivals as bytes for Java. Each begins with its kind.

use crate::record::Record as Fields;
use approx_windows::{
    Arrival, Count, InboxStats, Offsets, ReceivedGroup, ReceivedWindow, Record, Stream, WindowBegin,
};

const WINDOW: u8 = 1;
const REPEATED: u8 = 2;
const UNFINISHED: u8 = 3;
const ENDED: u8 = 4;
const MALFORMED: u8 = 5;
const NO_MEMORY: u8 = 6;

/// A window with its records. `number`: by which Java confirms it.
pub fn window(window: &ReceivedWindow, number: i64) -> Vec<u8> {
    let header = &window.header;
    let mut fields = Fields::default();
    fields.u8(WINDOW).u64(number as u64);
    id(&mut fields, &header.begin()).flag(header.is_last_part);
    fields.option(header.span_ms, |fields, (start, end)| fields.u64(start as u64).u64(end as u64));
    fields.u64(header.resume).u64(header.records()).u64(header.late).u64(window.skipped);
    let repeated = match &window.count {
        Count::Whole => 0,
        Count::Repeated => header.records(),
        Count::Partly(new) => header.records() - new.len(),
    };
    fields.u64(repeated);
    offsets(&mut fields, &window.lost);
    offsets(&mut fields, &window.refused());
    fields.list(&window.groups, group);
    for group in &window.groups {
        fields.list(&group.records, record);
    }
    fields.into_bytes()
}

/// An arrival that isn't a window with records.
pub fn other(arrival: &Arrival) -> Vec<u8> {
    let mut fields = Fields::default();
    match arrival {
        Arrival::Window(_) => unreachable!("it has records"),
        Arrival::Repeated(header) => id(fields.u8(REPEATED), &header.begin()),
        Arrival::Unfinished(begin) => id(fields.u8(UNFINISHED), begin),
        Arrival::Ended(ended) => stream(fields.u8(ENDED), ended),
        Arrival::Malformed { source, error } => {
            fields.u8(MALFORMED).address(*source).text(&error.to_string())
        }
        Arrival::NoMemory { source, window, bytes_max } => {
            fields.u8(NO_MEMORY).address(*source).option(window.as_deref(), id).u64(*bytes_max)
        }
    };
    fields.into_bytes()
}

pub fn stats(stats: &InboxStats) -> Vec<u8> {
    let InboxStats {
        windows,
        repeated,
        unfinished,
        malformed,
        no_memory,
        received,
        lost,
        records_repeated,
        skipped,
    } = *stats;
    let mut fields = Fields::default();
    for number in [windows, repeated, unfinished, malformed, no_memory] {
        fields.u64(number);
    }
    fields.u64(received).u64(lost).u64(records_repeated).u64(skipped);
    fields.into_bytes()
}

fn stream<'a>(fields: &'a mut Fields, stream: &Stream) -> &'a mut Fields {
    let Stream { cluster, group, topic, topic_id, partition } = stream;
    fields.text(cluster).text(group).text(topic).text(topic_id).u32(*partition)
}

fn id<'a>(fields: &'a mut Fields, begin: &WindowBegin) -> &'a mut Fields {
    let WindowBegin { stream: of, epoch, number, part } = begin;
    stream(fields, of).u64(*epoch).u64(*number as u64).u32(*part)
}

fn offsets(fields: &mut Fields, offsets: &Offsets) {
    let ranges: Vec<_> = offsets.ranges().collect();
    fields.list(&ranges, |fields, range| fields.u64(range.start).u64(range.end));
}

fn group<'a>(fields: &'a mut Fields, group: &ReceivedGroup) -> &'a mut Fields {
    let header = &group.header;
    fields.u8(header.id).text(&header.name).f64(header.msr).u64(header.records).u64(header.sent);
    fields.flag(header.has_long).u64(group.arrived)
}

fn record<'a>(fields: &'a mut Fields, record: &Record) -> &'a mut Fields {
    fields.u64(record.offset).option(record.timestamp_ms, |fields, ms| fields.u64(ms as u64));
    bytes(fields, record.key.as_deref());
    bytes(fields, record.value.as_deref());
    fields.list(&record.headers, |fields, (name, value)| bytes(fields.text(name), value.as_deref()))
}

fn bytes<'a>(fields: &'a mut Fields, value: Option<&[u8]>) -> &'a mut Fields {
    fields.option(value, Fields::blob)
}
