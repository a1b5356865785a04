//! Windows as objects of `atp._windows`.

use super::{record::Records, values::time};
use crate::types::object;
use approx_windows::{Count, InboxStats, Offsets, ReceivedWindow};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{ops::Range, sync::Arc};

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
        groups: groups(py, &window)?,
        _records: Bound::new(py, Records(window.clone()))?,
    })
}

/// The groups by name. Senders of this library give no two groups one name.
fn groups<'py>(py: Python<'py>, window: &ReceivedWindow) -> PyResult<Bound<'py, PyDict>> {
    let groups = PyDict::new(py);
    for group in &window.groups {
        let header = &group.header;
        let made = object!(py, "atp._windows", "WindowGroup" {
            name: &header.name,
            number: header.id,
            msr: header.msr,
            records: header.records,
            arrived: group.arrived,
            received: group.records.len(),
        })?;
        groups.set_item(&header.name, made)?;
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
