//! Windows as objects of `atp._windows`.

use super::{record::Records, values::time};
use crate::types::{object, tuple};
use approx_windows::{Count, InboxStats, Offsets, ReceivedGroup, ReceivedWindow};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// A tuple of ranges, whose ends may be larger than those of `PyRange`.
fn ranges<'py>(py: Python<'py>, offsets: &Offsets) -> PyResult<Bound<'py, PyTuple>> {
    let range = py.import("builtins")?.getattr("range")?;
    let made = offsets.ranges().map(|Range { start, end }| range.call1((start, end)));
    PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

pub fn window(py: Python<'_>, window: Arc<ReceivedWindow>) -> PyResult<Bound<'_, PyAny>> {
    let header = &window.header;
    let repeated = match &window.count {
        Count::Whole => 0,
        Count::Repeated => header.records(),
        Count::Partly(new) => header.records() - new.len(),
    };
    let (start_ms, end_ms) = header.span_ms.unzip();
    let strata = tuple(py, &window.groups, stratum)?;
    object!(py, "atp._windows", "Window" {
        cluster: &header.stream.cluster,
        topic: &header.stream.topic,
        partition: header.stream.partition,
        group: &header.stream.group,
        number: header.number,
        part: header.part,
        is_last_part: header.is_last_part,
        start: time(py, start_ms)?,
        end: time(py, end_ms)?,
        epoch: header.epoch,
        first_offset: header.offsets.first(),
        next_offset: header.resume,
        offsets: ranges(py, &header.offsets)?,
        records: header.records(),
        received: window.received(),
        lost: ranges(py, &window.lost)?,
        refused: ranges(py, &window.refused())?,
        repeated: repeated,
        late: header.late,
        skipped: window.skipped,
        groups: groups(py, &window, &strata)?,
        strata: strata,
        _records: Bound::new(py, Records(window.clone()))?,
    })
}

fn stratum<'py>(py: Python<'py>, group: &ReceivedGroup) -> PyResult<Bound<'py, PyAny>> {
    let header = &group.header;
    object!(py, "atp._windows", "WindowStratum" {
        id: header.id,
        group: &header.name,
        msr: header.msr,
        is_long: header.is_long,
        records: header.records,
        arrived: group.arrived,
        received: group.records.len(),
        messages: header.messages,
        messages_arrived: group.messages().len(),
    })
}

/// The groups by name: a group has a stratum of short records, and one of long ones.
fn groups<'py>(
    py: Python<'py>,
    window: &ReceivedWindow,
    strata: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, group) in window.groups.iter().enumerate() {
        by_name.entry(&group.header.name).or_default().push(at);
    }
    let groups = PyDict::new(py);
    for (name, ats) in by_name {
        let of = || ats.iter().map(|&at| &window.groups[at]);
        let own = ats.iter().map(|&at| strata.get_item(at)).collect::<PyResult<Vec<_>>>()?;
        let group = object!(py, "atp._windows", "WindowGroup" {
            name: name,
            msr: of().map(|group| group.header.msr).fold(1.0, f64::min),
            records: of().map(|group| group.header.records).sum::<u64>(),
            arrived: of().map(|group| group.arrived).sum::<u64>(),
            received: of().map(|group| group.records.len()).sum::<usize>(),
            strata: PyTuple::new(py, own)?,
        })?;
        groups.set_item(name, group)?;
    }
    Ok(groups)
}

pub fn stats<'py>(py: Python<'py>, stats: &InboxStats) -> PyResult<Bound<'py, PyAny>> {
    object!(py, "atp._windows", "WindowStats" {
        windows: stats.windows,
        repeated: stats.repeated,
        unfinished: stats.unfinished,
        malformed: stats.malformed,
        no_memory: stats.no_memory,
        received: stats.received,
        lost: stats.lost,
        records_repeated: stats.records_repeated,
        skipped: stats.skipped,
    })
}
