//! Packets on the wire, captured or forged.

mod capture;
mod craft;
mod forged;
pub mod link;

pub use atp_common::wire::Kind;
pub use capture::{Capture, Checksum, Frame};
pub use craft::{data, payload, spoof, spoof_v4};
pub use forged::{Claim, MARK, forged, is_for_sender, wrong_cookie};
