//! Reads the output of test binaries, and counts what passed, failed and was skipped.
//!
//! `cargo xtask test` reads `cargo test`, the kernel tests and a guest's console with it.

mod reader;
mod tally;

pub use reader::Reader;
pub use tally::{Failure, Skip, Tally, TestName};
