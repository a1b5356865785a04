//! What the fuzzers run (`fuzz/`), and what replays their corpora in every `cargo test`.
//!
//! Each module is one target: `run` turns bytes into a hostile input, hands it over, and panics
//! when something doesn't hold that must. Bytes are read as steps by `arbitrary`, so that any bytes
//! are some sequence of steps and a small change of the bytes is a small change of the sequence.

pub mod control;
pub mod corpus;
pub mod memory;
pub mod receiver;
pub mod sender;
pub mod wire;

/// A target: its name, that of its corpus, and what it runs.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 4] = [
    ("control", control::run),
    ("receiver", receiver::run),
    ("sender", sender::run),
    ("wire", wire::run),
];
