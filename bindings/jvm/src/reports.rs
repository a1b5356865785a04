//! Reports, terms and summaries as records.

use crate::record::Record;
use approxlib::{
    GroupReport, GroupSummary, GroupTerms, LostIds, Order, Progress, ReceiverStats, Report, Sample,
    ShortCause, ShortGroup, Shortfall, SourceProgress, Summary, Terms, UnknownIds, WindowReport,
};
use std::ops::Range;

/// A record of one structure.
fn bytes(write: impl FnOnce(&mut Record) -> &mut Record) -> Vec<u8> {
    let mut record = Record::default();
    write(&mut record);
    record.into_bytes()
}

pub fn report(report: &Report) -> Vec<u8> {
    bytes(|record| write_report(record, report))
}

pub fn shortfall(shortfall: &Shortfall) -> Vec<u8> {
    bytes(|record| {
        let Shortfall { peer, cause, groups, report } = shortfall;
        record.address(*peer).text(cause_name(cause)).list(groups, |record, group| {
            let ShortGroup { group, delivered, needed } = *group;
            record.u8(group).u32(delivered).u32(needed)
        });
        write_report(record, report)
    })
}

/// The name of a constant of Java's `ShortfallException.Cause`.
fn cause_name(cause: &ShortCause) -> &'static str {
    match cause {
        ShortCause::PeerSilent { .. } => "PEER_SILENT",
        ShortCause::NotReading { .. } => "NOT_READING",
        ShortCause::Refused(_) => "REFUSED",
        ShortCause::NoRoom { .. } => "NO_ROOM",
        ShortCause::ReceiverLostState => "RECEIVER_LOST_STATE",
        ShortCause::PathNarrowed { .. } => "PATH_NARROWED",
        ShortCause::CannotSend { .. } => "CANNOT_SEND",
        ShortCause::Abandoned => "ABANDONED",
        _ => "OTHER",
    }
}

fn write_report<'a>(record: &'a mut Record, report: &Report) -> &'a mut Record {
    record
        .u32(report.job)
        .text(&report.datapath)
        .text(&report.pacing)
        .f64(report.elapsed_s)
        .u64(report.packets_sent)
        .u64(report.packets_retransmitted)
        .u64(report.messages_packed)
        .u64(report.packets_arrived)
        .u64(report.refusals)
        .u64(report.bytes_sent)
        .list(&report.groups, group_report)
        .u32(report.windows)
        .u32(report.windows_hurried)
        .flag(report.canceled)
        .u64(report.requests)
        .flag(report.ended_by_receiver)
        .list(&report.timeline, sample)
}

pub fn window_report(report: &WindowReport) -> Vec<u8> {
    let WindowReport { window, complete, groups } = report;
    bytes(|record| record.u32(*window).flag(*complete).list(groups, group_report))
}

fn group_report<'a>(record: &'a mut Record, group: &GroupReport) -> &'a mut Record {
    record
        .u8(group.group)
        .u32(group.messages)
        .u32(group.delivered)
        .u32(group.needed)
        .u32(group.lost)
        .f64(group.msr);
    match &group.lost_ids {
        LostIds::Known(lost) => record.text("").list(lost, range),
        LostIds::Unknown(why) => record.text(match why {
            UnknownIds::NotAsked => "NOT_ASKED",
            UnknownIds::EndUnconfirmed => "END_UNCONFIRMED",
            UnknownIds::NamesMissing => "NAMES_MISSING",
        }),
    }
}

fn range<'a>(record: &'a mut Record, range: &Range<u32>) -> &'a mut Record {
    record.u32(range.start).u32(range.end)
}

fn sample<'a>(record: &'a mut Record, sample: &Sample) -> &'a mut Record {
    record
        .f64(sample.at_s)
        .u8(sample.group)
        .f64(sample.tlr)
        .u64(sample.rate_bytes_per_s)
        .f64(sample.loss)
        .u8(sample.queue)
        .option(sample.rtt_us, Record::f64)
}

pub fn progress(progress: &Progress) -> Vec<u8> {
    let Progress { messages, delivered, rate_bytes_per_s, packets_sent, complete } = *progress;
    bytes(|record| {
        record.u64(messages).u32(delivered).u64(rate_bytes_per_s).u64(packets_sent).flag(complete)
    })
}

pub fn terms<'a>(record: &'a mut Record, terms: &Terms) -> &'a mut Record {
    record.u32(terms.window).list(&terms.groups, group_terms)
}

fn group_terms<'a>(record: &'a mut Record, group: &GroupTerms) -> &'a mut Record {
    let (order, buffer) = match group.order {
        Order::Unknown => ("UNKNOWN", None),
        Order::Ordered => ("ORDERED", None),
        Order::Shuffled { buffer } => ("SHUFFLED", buffer),
    };
    record
        .u8(group.group)
        .text(&group.name)
        .flag(group.exact)
        .option(group.messages, Record::u32)
        .f64(group.msr)
        .text(order)
        .option(buffer, Record::u32)
        .flag(group.shortest_first)
}

pub fn summary<'a>(record: &'a mut Record, summary: &Summary) -> &'a mut Record {
    let Summary { window, complete, messages, delivered, groups } = summary;
    record.u32(*window).flag(*complete).u32(*messages).u32(*delivered).list(groups, group_summary)
}

fn group_summary<'a>(record: &'a mut Record, summary: &GroupSummary) -> &'a mut Record {
    let GroupSummary { group, messages, needed, delivered, lost } = summary;
    record.u8(*group).u32(*messages).u32(*needed).u32(*delivered).list(lost, range)
}

pub fn sources(sources: &[SourceProgress]) -> Vec<u8> {
    bytes(|record| {
        record.list(sources, |record, source| {
            let SourceProgress { source, job, run, window, groups } = source;
            record.address(*source).u32(*job).u64(*run).u32(*window);
            record.list(groups, |record, group| record.u8(group.group).u32(group.delivered))
        })
    })
}

pub fn stats(stats: &ReceiverStats) -> Vec<u8> {
    let refusals = &stats.refusals;
    bytes(|record| {
        record
            .u64(stats.packets_received)
            .u64(stats.bytes)
            .u64(stats.acks_sent)
            .u64(stats.refused)
            .u64(refusals.malformed)
            .u64(refusals.unwanted)
            .u64(refusals.too_large)
            .u64(refusals.no_room)
            .u64(refusals.forgotten)
            .u64(stats.ignored)
            .u64(stats.messages)
            .u32(stats.sources)
            .u64(stats.evicted)
            .u64(stats.memory_bytes)
    })
}
