//! Where one scheme is done sooner than another: sweeps over two things at a time, drawn as heat maps.

mod axis;
mod draw;
mod grid;
mod run;
mod write;

pub use axis::{Axis, Setting};
pub use grid::{Map, maps};
pub use run::{Cell, Drawn, Measure, Pair, Side, run};
pub use write::write;
