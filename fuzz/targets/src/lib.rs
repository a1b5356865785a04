//! The fuzz targets, which the fuzzers (`fuzz/bin`) run, and the replay of their corpora in
//! `cargo test`.
//!
//! Each target's `run` turns bytes into a hostile input, passes it on, and panics if an invariant
//! is violated. `arbitrary` reads the bytes as steps. Any bytes are therefore some sequence of
//! steps, and a small change of the bytes is a small change of the sequence.

pub mod c_interface;
pub mod control;
pub mod corpus;
pub mod endpoint;
pub mod receiver;
pub mod sender;
pub mod wire;

/// A target: its name, which is also that of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("c_interface", c_interface::run),
    ("control", control::run),
    ("endpoint", endpoint::run),
    ("receiver", receiver::run),
    ("sender", sender::run),
    ("wire", wire::run),
];
