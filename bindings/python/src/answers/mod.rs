//! The classes of `atp.answers`, on the crate `approx-answers`: see `atp/answers.pyi`.

mod answering;
mod errors;
mod estimate;
mod frame;
mod input;
mod locked;
mod plan;
mod planner;
mod receiving;
mod rows;
mod sample;
mod stored;
mod table;
mod tables;
mod value;

pub use answering::{Answering, parsed};
pub use errors::raise;
pub use frame::Frame;
pub use input::{columns, share, with_bytes};
pub use rows::Batches;

use pyo3::prelude::*;

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<answering::Query>()?;
    module.add_class::<answering::Answering>()?;
    module.add_class::<errors::Cause>()?;
    module.add_class::<estimate::Estimate>()?;
    module.add_class::<Frame>()?;
    module.add_class::<planner::Planner>()?;
    module.add_class::<receiving::Receiving>()?;
    module.add_class::<rows::Batches>()?;
    module.add_class::<sample::Sample>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<tables::GroupBy>()?;
    module.add_class::<tables::Quantiles>()?;
    module.add_class::<tables::Top>()
}
