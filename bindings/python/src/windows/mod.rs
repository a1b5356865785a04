//! The classes of `atp.kafka`, on the crate `approx-windows`.

mod inbox;
mod outbox;
mod record;
mod table;
mod values;
mod window;

use pyo3::prelude::*;

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<inbox::Windows>()?;
    module.add_class::<outbox::WindowSender>()?;
    module.add_class::<record::Record>()?;
    module.add_class::<record::Records>()
}
