//! Packets on the wire, captured or forged.

mod capture;
mod craft;
pub mod link;

pub use capture::{Capture, Checksum, Frame};
pub use craft::{data, payload, spoof_v4};
