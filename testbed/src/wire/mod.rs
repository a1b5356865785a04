//! Packets, as they are on the wire and as an attacker would make them.

mod capture;
mod craft;
pub mod link;

pub use capture::{Capture, Checksum, Frame};
pub use craft::{data, payload, spoof_v4};
