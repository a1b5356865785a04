//! Compiles the Rust samples of the README and of the book, as documentation tests.

#[doc = include_str!("../../README.md")]
struct Readme;

#[doc = include_str!("../../docs/src/guide/library.md")]
struct Library;
