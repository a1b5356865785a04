//! Reports and events as objects of the classes in `atp/_types.py`.

use crate::{address::pair, message::Message};
use approxlib::{
    Event, GroupArrivals, GroupReport, GroupSummary, GroupTerms, LostIds, Order, Progress,
    ReceiverStats, Refusals, Report, Sample, ShortGroup, SourceProgress, Summary, Terms,
    UnknownIds, WindowReport,
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyRange, PyTuple},
};
use std::ops::Range;

type Object<'py> = PyResult<Bound<'py, PyAny>>;

/// An object of a class of `atp._types` or of another module, with the fields that are named.
macro_rules! object {
    ($py:expr, $class:literal { $($fields:tt)* }) => {
        object!($py, "atp._types", $class { $($fields)* })
    };
    ($py:expr, $module:literal, $class:literal { $($field:ident: $value:expr),* $(,)? }) => {{
        let fields = PyDict::new($py);
        $(fields.set_item(stringify!($field), $value)?;)*
        $py.import($module)?.getattr($class)?.call((), Some(&fields))
    }};
}
pub(crate) use object;

/// The one place where events become Python's.
pub fn event(py: Python<'_>, event: Event) -> Object<'_> {
    match event {
        Event::Message { source, job, run, window, group, message, data } => {
            let message = Message::new(source, (job, run), window, group, message, data);
            Ok(Bound::new(py, message)?.into_any())
        }
        Event::Started { source, job, run, terms } => object!(py, "Started" {
            source: pair(source),
            job: job,
            run: run,
            terms: self::terms(py, &terms)?,
        }),
        Event::TermsChanged { source, job, run, terms } => object!(py, "TermsChanged" {
            source: pair(source),
            job: job,
            run: run,
            terms: self::terms(py, &terms)?,
        }),
        Event::WindowEnded { source, job, run, summary } => object!(py, "WindowEnded" {
            source: pair(source),
            job: job,
            run: run,
            summary: self::summary(py, &summary)?,
        }),
        Event::Finished { source, job, run, summary } => object!(py, "Finished" {
            source: pair(source),
            job: job,
            run: run,
            summary: self::summary(py, &summary)?,
        }),
    }
}

/// Ids as a `range`.
pub fn ids(py: Python<'_>, ids: Range<u32>) -> PyResult<Bound<'_, PyRange>> {
    PyRange::new(py, ids.start as isize, ids.end as isize)
}

pub fn report<'py>(py: Python<'py>, report: &Report) -> Object<'py> {
    object!(py, "Report" {
        job: report.job,
        datapath: report.datapath.as_str(),
        pacing: report.pacing.as_str(),
        elapsed_s: report.elapsed_s,
        packets_sent: report.packets_sent,
        packets_retransmitted: report.packets_retransmitted,
        messages_packed: report.messages_packed,
        packets_arrived: report.packets_arrived,
        refusals: report.refusals,
        bytes_sent: report.bytes_sent,
        groups: tuple(py, &report.groups, group_report)?,
        windows: report.windows,
        windows_hurried: report.windows_hurried,
        canceled: report.canceled,
        requests: report.requests,
        ended_by_receiver: report.ended_by_receiver,
        timeline: tuple(py, &report.timeline, sample)?,
    })
}

fn terms<'py>(py: Python<'py>, terms: &Terms) -> Object<'py> {
    object!(py, "Terms" {
        window: terms.window,
        groups: tuple(py, &terms.groups, group_terms)?,
    })
}

fn group_terms<'py>(py: Python<'py>, group: &GroupTerms) -> Object<'py> {
    let (order, shuffle_buffer) = match group.order {
        Order::Unknown => ("unknown", None),
        Order::Ordered => ("ordered", None),
        Order::Shuffled { buffer } => ("shuffled", buffer),
    };
    object!(py, "GroupTerms" {
        group: group.group,
        name: group.name.as_str(),
        exact: group.exact,
        messages: group.messages,
        msr: group.msr,
        order: order,
        shuffle_buffer: shuffle_buffer,
        shortest_first: group.shortest_first,
    })
}

pub fn window_report<'py>(py: Python<'py>, report: &WindowReport) -> Object<'py> {
    object!(py, "WindowReport" {
        window: report.window,
        complete: report.complete,
        groups: tuple(py, &report.groups, group_report)?,
    })
}

pub fn progress<'py>(py: Python<'py>, progress: &Progress) -> Object<'py> {
    object!(py, "Progress" {
        messages: progress.messages,
        delivered: progress.delivered,
        rate_bytes_per_s: progress.rate_bytes_per_s,
        packets_sent: progress.packets_sent,
        complete: progress.complete,
    })
}

pub fn sources_progress<'py>(
    py: Python<'py>,
    sources: &[SourceProgress],
) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, sources, |py, source| {
        object!(py, "SourceProgress" {
            source: pair(source.source),
            job: source.job,
            run: source.run,
            window: source.window,
            groups: tuple(py, &source.groups, arrivals)?,
        })
    })
}

fn arrivals<'py>(py: Python<'py>, group: &GroupArrivals) -> Object<'py> {
    object!(py, "GroupArrivals" { group: group.group, delivered: group.delivered })
}

pub fn stats<'py>(py: Python<'py>, stats: &ReceiverStats) -> Object<'py> {
    object!(py, "ReceiverStats" {
        packets_received: stats.packets_received,
        bytes: stats.bytes,
        acks_sent: stats.acks_sent,
        refused: stats.refused,
        refusals: refusals(py, &stats.refusals)?,
        ignored: stats.ignored,
        messages: stats.messages,
        sources: stats.sources,
        evicted: stats.evicted,
        memory_bytes: stats.memory_bytes,
    })
}

fn refusals<'py>(py: Python<'py>, refusals: &Refusals) -> Object<'py> {
    object!(py, "Refusals" {
        malformed: refusals.malformed,
        unwanted: refusals.unwanted,
        too_large: refusals.too_large,
        no_room: refusals.no_room,
        forgotten: refusals.forgotten,
    })
}

pub fn short_groups<'py>(py: Python<'py>, groups: &[ShortGroup]) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, groups, |py, group| {
        object!(py, "ShortGroup" {
            group: group.group,
            delivered: group.delivered,
            needed: group.needed,
        })
    })
}

fn group_report<'py>(py: Python<'py>, group: &GroupReport) -> Object<'py> {
    object!(py, "GroupReport" {
        group: group.group,
        messages: group.messages,
        delivered: group.delivered,
        needed: group.needed,
        lost: group.lost,
        msr: group.msr,
        lost_ids: lost_ids(py, &group.lost_ids)?,
    })
}

fn lost_ids<'py>(py: Python<'py>, lost: &LostIds) -> Object<'py> {
    match lost {
        LostIds::Known(lost) => Ok(ranges(py, lost)?.into_any()),
        LostIds::Unknown(why) => {
            let reason = match why {
                UnknownIds::NotAsked => "not_asked",
                UnknownIds::EndUnconfirmed => "end_unconfirmed",
                UnknownIds::NamesMissing => "names_missing",
            };
            object!(py, "UnknownIds" { reason: reason, sentence: why.to_string() })
        }
    }
}

fn sample<'py>(py: Python<'py>, sample: &Sample) -> Object<'py> {
    object!(py, "Sample" {
        at_s: sample.at_s,
        group: sample.group,
        tlr: sample.tlr,
        rate_bytes_per_s: sample.rate_bytes_per_s,
        loss: sample.loss,
        queue: sample.queue,
        rtt_us: sample.rtt_us,
    })
}

fn summary<'py>(py: Python<'py>, summary: &Summary) -> Object<'py> {
    object!(py, "Summary" {
        window: summary.window,
        complete: summary.complete,
        messages: summary.messages,
        delivered: summary.delivered,
        groups: tuple(py, &summary.groups, group_summary)?,
    })
}

fn group_summary<'py>(py: Python<'py>, group: &GroupSummary) -> Object<'py> {
    object!(py, "GroupSummary" {
        group: group.group,
        messages: group.messages,
        needed: group.needed,
        delivered: group.delivered,
        lost: ranges(py, &group.lost)?,
    })
}

fn ranges<'py>(py: Python<'py>, ranges: &[Range<u32>]) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, ranges, |py, range| Ok(ids(py, range.clone())?.into_any()))
}

pub fn tuple<'py, T>(
    py: Python<'py>,
    items: &[T],
    convert: impl Fn(Python<'py>, &T) -> Object<'py>,
) -> PyResult<Bound<'py, PyTuple>> {
    let items: Vec<_> = items.iter().map(|item| convert(py, item)).collect::<PyResult<_>>()?;
    PyTuple::new(py, items)
}
