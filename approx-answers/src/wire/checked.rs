//! Checks of what was read.

/// A part that contradicts the rest of its structure.
pub(crate) type Checked = Result<(), String>;

/// Fails with a text unless a condition holds.
pub(crate) fn ensure(holds: bool, otherwise: &str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
