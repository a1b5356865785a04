//! The paper's figures: what is run for each, and how it is written down.

mod dynamic;
mod fairness;
mod paper;
mod sweep;
mod timeline;
mod write;
mod write_timeline;

pub use paper::{Extent, NUMBERS, figure};
pub use sweep::{Cell, Figure, Known, Metric, Run, Series};
pub use timeline::{Phase, Timeline};
pub use write::{WriteError, write};
pub use write_timeline::write_timeline;
