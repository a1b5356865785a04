//! The paper's figures: their runs, and their files.

mod book;
mod causes;
mod draw;
mod dynamic;
mod extent;
mod fairness;
pub(crate) mod legend;
mod metric;
mod palette;
mod paper;
pub(crate) mod settings;
mod setups;
mod sweep;
mod timeline;
mod write;
mod write_timeline;

use setups::{Workload, incast_of};

pub use book::book_pictures;
pub use extent::Extent;
pub use metric::Metric;
pub use paper::{NUMBERS, figure};
pub use sweep::{Cell, Figure, Measured, Run, Series};
pub use timeline::{Phase, Timeline};
pub use write::{WriteError, redraw, write};
pub use write_timeline::write_timeline;
