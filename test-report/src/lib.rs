//! Reads the output of test binaries, and counts what passed, failed and was skipped.
//!
//! `cargo xtask test` reads `cargo test`, the kernel tests and a guest's output with it.

mod cargo;
mod guest;
mod reader;
mod tally;

pub use cargo::CargoReader;
pub use guest::GuestReader;
pub use reader::{Reader, TESTS_FAILED};
pub use tally::{Failure, Skip, Tally, TestName};
