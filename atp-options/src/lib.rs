//! Command line options that the daemon, the benchmarks and the project's own commands share.
//!
//! It is a crate of its own, so that `xtask` and the benchmarks don't compile the daemon.

mod failure;
pub mod law;
pub mod quantity;

pub use failure::sentence;
