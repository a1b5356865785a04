//! Maps of where one scheme completes jobs faster than another: sweeps over two parameters, drawn
//! as heat maps.

mod axis;
mod draw;
mod maps;
mod run;
mod write;

pub use axis::{Axis, Setting};
pub use maps::{Map, maps};
pub use run::{Cell, Comparison, MapResult, Measure, SchemeResult, points, run};
pub use write::write;
