//! The paper's figures: what is run for each, and how it is written down.

mod paper;
mod sweep;
mod write;

pub use paper::{Extent, NUMBERS, figure};
pub use sweep::{Cell, Figure, Known, Metric, Run, Series};
pub use write::{WriteError, write};
