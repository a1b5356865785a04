//! Events in the order of their time.
//!
//! Architecture invariant: components don't read a clock. Each event carries its time, and time
//! never goes back. Events of the same time are in the order (kind, node, number), so a seed gives
//! byte-identical results on every machine.

mod calendar;
mod event;

pub use calendar::Calendar;
pub use event::{Event, Kind};

/// Picoseconds of a nanosecond.
pub const NS: u64 = 1_000;
/// Picoseconds of a microsecond.
pub const US: u64 = 1_000 * NS;
/// Picoseconds of a millisecond.
pub const MS: u64 = 1_000 * US;
/// Picoseconds of a second.
pub const S: u64 = 1_000 * MS;
