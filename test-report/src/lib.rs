//! Watches test binaries, reads their output, and counts what passed, failed and was skipped.
//!
//! `cargo xtask test` runs and reads `cargo test`, the kernel tests and a guest with it.

mod cargo;
pub mod group;
mod guest;
pub mod hung;
pub mod processes;
mod reader;
mod tail;
mod tally;
pub mod watch;

pub use cargo::CargoReader;
pub use guest::GuestReader;
pub use reader::{Reader, TESTS_FAILED};
pub use tally::{Failure, Skip, Tally, TestName};
