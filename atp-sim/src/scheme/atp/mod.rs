//! ATP: the state machines of atp-proto and the laws of atp-common, unchanged. What a kernel does
//! around them (pacing by departure time, stamping, counting, acknowledging) is done here as the
//! programs do it, with epochs that packets drive (`--epochs kernel`).

mod receiver;
mod sender;

pub use receiver::AtpReceiver;
pub use sender::{AtpSender, AtpSettings};

use super::Context;

use super::{Route, wire_bytes};
use crate::net::{Body, Packet};
use atp_common::wire::{HEADER_LEN, Header};

/// IP and UDP headers.
const OVERHEAD_BYTES: u32 = 28;
/// What a lane's rate counts besides: the link's header.
const LINK_HEADER_BYTES: u32 = 14;

/// A packet of control: what the library wrote, header and body.
///
/// # Panics
/// If it doesn't begin with a header.
fn control(route: Route, payload: &[u8]) -> Packet {
    let (header, _) = Header::parse(payload).expect("our own packet");
    let body = &payload[HEADER_LEN..];
    let control = (!body.is_empty()).then(|| body.into());
    route.packet(
        wire_bytes(payload.len() as u32 + OVERHEAD_BYTES),
        route.path(header.slot()),
        Body::Atp { header, payload_bytes: 0, control },
    )
}
