//! Code that kernel and userspace share: the wire header, the map layouts and the control laws.
//!
//! Architecture invariant: no allocation, no clock, no float, no I/O. Time is an argument
//! (nanoseconds of `CLOCK_MONOTONIC`), so the eBPF programs, the daemon and the library can use the
//! same functions.

#![cfg_attr(not(test), no_std)]
#![deny(missing_docs)]

pub mod checksum;
pub mod dscp;
pub mod laws;
pub mod maps;
pub mod units;
pub mod wire;
