//! The paper's figures: what is run for each, and how it is written down.

mod draw;
mod dynamic;
mod fairness;
pub(crate) mod legend;
mod palette;
mod paper;
mod scene;
pub(crate) mod settings;
mod sweep;
mod timeline;
mod write;
mod write_timeline;

pub use paper::{Extent, NUMBERS, figure};
pub use sweep::{Cell, Figure, Known, Metric, Run, Series};
pub use timeline::{Phase, Timeline};
pub use write::{WriteError, draw_again, write};
pub use write_timeline::write_timeline;
