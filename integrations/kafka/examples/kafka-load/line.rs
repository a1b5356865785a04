//! The lines that the benchmark reads.

use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// Records or windows are received from now on.
    Ready,
    Answer(Answer),
    Truth(Truth),
    /// The producer has ended.
    Produced(Produced),
}

/// The answer of a receiver to a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub partition: u32,
    pub window: i64,
    /// Records that arrived.
    pub received: u64,
    /// The estimate of the number of records.
    pub count: f64,
    /// The estimate of the mean value.
    pub mean: f64,
    /// The time of day.
    pub at_ms: f64,
}

/// The right answer to a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Truth {
    pub partition: u32,
    pub window: i64,
    pub count: u64,
    pub mean: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Produced {
    /// Records drawn, also those that were left out.
    pub drawn: u64,
    /// Records that the broker has.
    pub written: u64,
    /// The longest time that the producer was behind its event times.
    pub behind_ms_max: f64,
}
